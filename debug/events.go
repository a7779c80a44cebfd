package debug

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/debug/internal/units"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

const (
	lookEvery  = 200 * time.Millisecond // how often a stream checks for events
	aliveEvery = 15 * time.Second       // how often a stream without events sends a keep-alive
	patience   = 10 * time.Second       // write timeout for a slow client
	mostAtOnce = 500                    // maximum number of events sent per check
)

// Lost reports Count missing events in a stream.
type Lost struct{ Count uint64 }

// events streams new events as server-sent events: "entry" with a flight.Entry and "lost" with a Lost.
func (p *Process) events(w http.ResponseWriter, r *http.Request) {
	done, ok := p.place(w)
	if !ok {
		return
	}
	defer done()
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, refuse(http.StatusBadRequest, "Invalid query: %v.", err))
		return
	}
	q := query{values}
	informer, key := q.get("informer"), object.Key{Namespace: q.get("namespace"), Name: q.get("name")}
	want := func(e *flight.Entry) bool {
		others := e.Role == flight.Informer && !flight.Names(informer, e.Name) || e.Role == flight.Handler && !flight.Names(informer, e.Informer)
		return (informer == "" || !others) &&
			(key.Namespace == "" || e.Key.Namespace == key.Namespace) && (key.Name == "" || e.Key.Name == key.Name)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead { // the response would never end
		return
	}
	s := stream{w: w, control: http.NewResponseController(w)}
	follower := p.opts.Recorder.Or().Follow()
	if s.comment("stream open") != nil {
		return
	}
	ended := p.ends.of(r)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for spoken := time.Now(); ; {
		select {
		case <-look.C:
		case <-r.Context().Done():
			return
		case <-ended:
			return
		}
		entries, lost := follower.Next(want, mostAtOnce)
		if len(entries) == 0 && lost == 0 {
			if time.Since(spoken) < aliveEvery {
				continue
			}
			if s.comment("keep-alive") != nil {
				return
			}
		} else if s.send(entries, lost) != nil {
			return
		}
		spoken = time.Now()
	}
}

// place reserves a slot for a stream. If all are in use, it responds with an error.
func (p *Process) place(w http.ResponseWriter) (done func(), ok bool) {
	select {
	case p.streams <- struct{}{}:
		return func() { <-p.streams }, true
	default:
		busy(w, fmt.Sprintf("%d streams are open, which is the maximum.", mostStreams))
		return nil, false
	}
}

// stream writes a response in chunks, each with a deadline.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s *stream) send(entries []flight.Entry, lost uint64) error {
	var text []byte
	if lost > 0 {
		text = fmt.Appendf(text, "event: lost\ndata: {\"count\":%d}\n\n", lost)
	}
	for n := range entries {
		data, err := units.Marshal(&entries[n])
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "event: entry\ndata: %s\n\n", data)
	}
	return s.write(text)
}

func (s *stream) comment(text string) error { return s.write([]byte(": " + text + "\n\n")) }

func (s *stream) write(text []byte) error {
	// Writers that do not support deadlines, such as a test's recorder, do not have slow readers.
	_ = s.control.SetWriteDeadline(time.Now().Add(patience))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// endings closes streams when their server shuts down, because Shutdown would otherwise wait for them.
type endings struct {
	mu      sync.Mutex
	servers map[*http.Server]chan struct{}
}

// of returns a channel that is closed when the server handling r begins to shut down, or nil if the
// server is unknown.
func (e *endings) of(r *http.Request) <-chan struct{} {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if ended, ok := e.servers[server]; ok {
		return ended
	}
	ended := make(chan struct{})
	if e.servers == nil {
		e.servers = make(map[*http.Server]chan struct{})
	}
	e.servers[server] = ended
	// Keep the channel in the map, since requests may still arrive during shutdown.
	server.RegisterOnShutdown(sync.OnceFunc(func() { close(ended) }))
	return ended
}

// Timeline contains the recorded events for one key.
type Timeline struct {
	Key     object.Key
	Entries []flight.Entry // oldest first
	Lost    uint64         // number of events that the recorder has dropped, for all keys
}

func (p *Process) timeline(q query) (*Timeline, error) {
	key := object.Key{Namespace: q.get("namespace"), Name: q.get("name")}
	if key.Name == "" {
		return nil, refuse(http.StatusBadRequest, "Specify the object: name, and namespace if it has one.")
	}
	recorder := p.opts.Recorder.Or()
	entries := recorder.Timeline(q.get("informer"), key)
	return &Timeline{Key: key, Entries: entries[max(0, len(entries)-mostItems):], Lost: recorder.Status().Lost}, nil
}

// Busiest lists the keys with the most changes and reconciles.
type Busiest struct {
	Within time.Duration // the requested period, or less if the recorder does not go back that far
	Keys   []flight.Busy
}

func (p *Process) busiest(q query) (*Busiest, error) {
	limit, err := q.number("limit", 20, mostItems)
	if err != nil {
		return nil, err
	}
	const day = 24 * 60 * 60
	seconds, err := q.number("seconds", 60, day)
	if err != nil {
		return nil, err
	}
	within := time.Duration(seconds) * time.Second
	return &Busiest{within, p.opts.Recorder.Or().Busiest(time.Now().Add(-within), limit)}, nil
}
