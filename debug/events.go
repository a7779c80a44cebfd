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
	lookEvery  = 200 * time.Millisecond // how often a stream looks for events
	aliveEvery = 15 * time.Second       // how often it says so where there are none
	patience   = 10 * time.Second       // with a reader
	mostAtOnce = 500                    // events of one look that are sent
)

// Lost is told by a stream of events: so many are missing here.
type Lost struct{ Count uint64 }

// events streams what happens from now on, in the form of server-sent events: "entry", which
// is a flight.Entry, and "lost", which is a Lost.
func (p *Process) events(w http.ResponseWriter, r *http.Request) {
	done, ok := p.place(w)
	if !ok {
		return
	}
	defer done()
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, refuse(http.StatusBadRequest, "The query cannot be read: %v.", err))
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
	if r.Method == http.MethodHead { // its answer would never end
		return
	}
	s := stream{w: w, control: http.NewResponseController(w)}
	follower := p.opts.Recorder.Or().Follow()
	if s.comment("events follow") != nil {
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
			if s.comment("nothing happens") != nil {
				return
			}
		} else if s.send(entries, lost) != nil {
			return
		}
		spoken = time.Now()
	}
}

// place takes a place among the streams, or says that there is none.
func (p *Process) place(w http.ResponseWriter) (done func(), ok bool) {
	select {
	case p.streams <- struct{}{}:
		return func() { <-p.streams }, true
	default:
		busy(w, fmt.Sprintf("%d streams are open, and more are not allowed.", mostStreams))
		return nil, false
	}
}

// stream writes parts of an answer, each in time or not at all.
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
	// Where there are no deadlines, as in a test's recorder, there is no slow reader either.
	_ = s.control.SetWriteDeadline(time.Now().Add(patience))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// endings tells streams when their server shuts down, which waits for them otherwise.
type endings struct {
	mu      sync.Mutex
	servers map[*http.Server]chan struct{}
}

// of returns a channel that is closed when the server of r begins to shut down; nil if
// nobody knows the server.
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
	// The channel stays: a request may still come while the server shuts down.
	server.RegisterOnShutdown(sync.OnceFunc(func() { close(ended) }))
	return ended
}

// Timeline is what is known of one key.
type Timeline struct {
	Key     object.Key
	Entries []flight.Entry // the oldest first
	Lost    uint64         // events of all keys that the recorder has had to forget
}

func (p *Process) timeline(q query) (*Timeline, error) {
	key := object.Key{Namespace: q.get("namespace"), Name: q.get("name")}
	if key.Name == "" {
		return nil, refuse(http.StatusBadRequest, "Say of which object: name, and namespace if it has one.")
	}
	recorder := p.opts.Recorder.Or()
	entries := recorder.Timeline(q.get("informer"), key)
	return &Timeline{Key: key, Entries: entries[max(0, len(entries)-mostItems):], Lost: recorder.Status().Lost}, nil
}

// Busiest is which keys have the most changes and reconciles.
type Busiest struct {
	Within time.Duration // as far as the recorder remembers
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
