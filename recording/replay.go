package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
)

// ReplayOptions configure a Replay. The zero value works.
type ReplayOptions struct {
	// Speed is how many times as fast as recorded it plays; math.Inf(1), and all above 100,000,
	// is without any waiting. Default 1.
	Speed float64

	// From is the moment of the recording to begin at: what came earlier comes at once.
	// Default is when the first request was sent.
	From time.Duration

	// Only says which requests there are to be played; the others count as not recorded.
	// Nil is all.
	Only func(*Request) bool

	// Others answers what is no list or watch of a collection, such as writes. Nil refuses
	// it.
	Others http.RoundTripper
}

// patience is how much later than recorded a client may ask for what follows. It is longer
// than a watch that nobody answers.
const patience = 20 * time.Minute

// maxSpeed is so that a Duration can tell what a replay of some hours has come to.
const maxSpeed = 100_000

// Replay answers lists and watches as they were answered when they were recorded. It
// stands in the place of the network:
//
//	client, err := rest.NewClient(&config.Config{Replay: file.Replay(recording.ReplayOptions{})}, scheme.New())
//
// Requests are matched by what they are about (server, path, selectors, metadata alone) and by
// what they ask for, in the order of the recording. A server that was not recorded counts as the
// one that was.
//
// Each informer is given what one informer was given, also where several are about the same. One
// more than were recorded is given what the first was, where what came before it began comes at
// once. Of any other client, such as a plain list or an informer of another library, it is unknown
// which one it is: it is given what such clients were given, and then what any informer was.
//
// A request that comes early waits for its moment. Where one comes late, all that follows comes
// later by as much: there is one clock for all answers, and the times between their parts are
// those of the recording. An informer of this library is told when it came back then, after a
// failure for example, and comes back at that moment if its options allow it. It is told too where
// it had been told that its watch was deaf, but not by what. When all was played that an informer
// was given, it hears nothing more.
//
// It is safe for concurrent use, and has no goroutines.
type Replay struct {
	file *File
	opts ReplayOptions

	recorded []*stream // in the order of their first requests

	mu      sync.Mutex           // guards the rest, and what the streams hold
	began   time.Time            // zero before the first request
	of      map[client][]*stream // that a client is given, the ones to prefer first
	asked   []*stream            // those that some client is given
	late    time.Duration        // how much later than recorded it plays, in the recording's time
	strange string               // what was asked for last of which there is nothing
	changed chan struct{}        // closed when something was played
}

// Replay returns a replay from the beginning. Each needs a client of its own.
func (f *File) Replay(opts ReplayOptions) *Replay {
	if !(opts.Speed > 0) {
		opts.Speed = 1
	}
	if opts.Speed > maxSpeed {
		opts.Speed = math.Inf(1)
	}
	if opts.From <= 0 && len(f.Requests) > 0 {
		opts.From = f.Requests[0].At
	}
	opts.From = min(opts.From, f.Duration)
	r := &Replay{file: f, opts: opts, of: map[client][]*stream{}, changed: make(chan struct{})}
	of := map[client]*stream{}
	for _, q := range f.Requests {
		if opts.Only != nil && !opts.Only(q) {
			continue
		}
		c := client{q.about, q.Informer}
		s := of[c]
		if s == nil {
			s = newStream(c, opts.From)
			of[c] = s
			r.recorded = append(r.recorded, s)
		}
		s.add(q)
	}
	return r
}

// Server is the address of the server that was recorded. Of a recording without requests
// it is one that does not exist.
func (r *Replay) Server() string { return cmp.Or(r.file.Server(), "http://recording.invalid") }

// UnrecordedError is the error of a request that a recording has no answer to.
type UnrecordedError struct {
	Path  string   // of the file
	Asked string   // what for
	Why   string   // there is no answer
	Has   []string // what the file has instead
}

// Error says what was asked for, and what the file has.
func (e *UnrecordedError) Error() string {
	text := fmt.Sprintf("recording %s: %s: %s", e.Path, e.Asked, e.Why)
	if len(e.Has) > 0 {
		text += "; it has: " + strings.Join(e.Has, "; ")
	}
	return text
}

// RoundTrip implements http.RoundTripper.
func (r *Replay) RoundTrip(req *http.Request) (*http.Response, error) {
	asked, ok := read(req)
	if !ok {
		return r.other(req)
	}
	s, q, err := r.match(&asked, jitter.RecallOf(req.Context()))
	if err != nil {
		return nil, err
	}
	if q == nil { // the recording has ended: nothing more is known
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	if q.Watch() != asked.Watch() {
		return noStream(req), nil
	}
	p := &playing{replay: r, stream: s, request: q, records: r.file.reader(q), ctx: req.Context(), closed: make(chan struct{})}
	resp, err := p.answer(req)
	if err != nil {
		p.over()
	}
	return resp, err
}

// other has what is no list or watch answered.
func (r *Replay) other(req *http.Request) (*http.Response, error) {
	if r.opts.Others != nil {
		return r.opts.Others.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close() // as a RoundTripper has to
	}
	return nil, &UnrecordedError{Path: r.file.Path, Asked: req.Method + " " + req.URL.Path, Why: "recordings have lists and watches of collections alone"}
}

// noStream refuses a streaming list where a list was recorded, so that the client lists.
func noStream(req *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,"message":"the recording has a list"}`
	return response(req, Answer{Status: http.StatusBadRequest, ContentType: "application/json"}, io.NopCloser(strings.NewReader(body)))
}

func response(req *http.Request, a Answer, body io.ReadCloser) *http.Response {
	h := http.Header{}
	for name, value := range map[string]string{"Content-Type": a.ContentType, "Retry-After": a.RetryAfter, "Content-Encoding": a.Encoding} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)), StatusCode: a.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: body, ContentLength: -1, Request: req,
	}
}

// match returns the request of the recording that is played for the one that was asked,
// nil if the recording has ended for it. The client is told when it came next.
func (r *Replay) match(asked *Request, recall *jitter.Recall) (*stream, *Request, error) {
	closed := r.file.closed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began = time.Now()
	}
	recall.Tell(time.Time{}, 0)
	recall.TellProbed(false, false)
	if closed != nil {
		r.note()
		return nil, nil, closed
	}
	who := client{asked.about, recall.Number()}
	streams := r.streams(who)
	if len(streams) == 0 {
		r.strange = asked.String()
		return nil, nil, r.unrecorded(asked, r.missed(), r.has())
	}
	if streams[0].requests[0].Withheld {
		return nil, nil, r.unrecorded(asked, "what Secrets hold was not recorded: set IncludeSecrets when recording", nil)
	}
	s, at := find(streams, asked)
	if s == nil {
		for _, s := range streams {
			s.ended = true
		}
		r.note()
		if who.informer == 0 && !asked.Watch() { // nobody waits for what never comes
			return nil, nil, r.unrecorded(asked, played, nil)
		}
		return nil, nil, nil
	}
	if at < 0 {
		why := r.missed()
		if s.had(asked) {
			why = played
		}
		return nil, nil, r.unrecorded(asked, why, []string{"next, " + s.requests[s.furthest+1].String()})
	}
	q := s.requests[at]
	if asked.Watch() && !q.Watch() {
		return s, q, nil // which is refused, and used by the list that follows
	}
	s.use(at)
	s.playing++
	if now := r.now(); now > q.At+r.late && q.At >= s.from {
		r.late = now - q.At
	}
	r.tell(recall, s, at)
	r.note()
	return s, q, nil
}

// played is why there is no answer to what was recorded less often than it is asked for.
const played = "all that was recorded of it has been played"

// tell tells a client when it came for what follows, whether that was a probe, and for how long it
// meant to stay; mu is held.
func (r *Replay) tell(recall *jitter.Recall, s *stream, at int) {
	goesOn := at+1 < len(s.requests)
	recall.TellProbed(goesOn && s.requests[at+1].probe(), goesOn)
	if math.IsInf(r.opts.Speed, 1) {
		return
	}
	var next time.Time
	if goesOn {
		next = time.Now().Add(r.until(s.requests[at+1].At))
	}
	seconds, _ := strconv.ParseUint(s.requests[at].parameter("timeoutSeconds"), 10, 31)
	recall.Tell(next, scaled(time.Duration(seconds)*time.Second, 1/r.opts.Speed))
}

// missed says why the recording may not have what is asked for.
func (r *Replay) missed() string {
	if n := r.file.LeftOut.Requests; n > 0 {
		return fmt.Sprintf("it was not recorded, or is among the %d requests that were left out, as the oldest are for MaxSize: an informer can be played from the first of its lists that is left", n)
	}
	return "it was not recorded"
}

func (r *Replay) unrecorded(asked *Request, why string, has []string) error {
	return &UnrecordedError{r.file.Path, asked.String(), why, has}
}

// maxNamed is how much of what a recording has is named in an error.
const maxNamed = 20

// has is what the recording is about; mu is held.
func (r *Replay) has() []string {
	var all []string
	for _, s := range r.recorded {
		q := s.requests[0]
		gvr, namespace, _ := collection(q.Path)
		text := object.ResourceName(gvr)
		if namespace != "" {
			text += " in namespace " + namespace
		}
		if q.about.Metadata {
			text += ", metadata alone"
		}
		if q.about.Labels != "" || q.about.Fields != "" {
			text += ", selected"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return []string{"nothing"}
	}
	if more := len(all) - maxNamed; more > 0 {
		all = append(all[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return all
}

// now is the moment of the recording that would be played now; mu is held.
func (r *Replay) now() time.Duration {
	if math.IsInf(r.opts.Speed, 1) {
		return 0
	}
	return r.opts.From + scaled(time.Since(r.began), r.opts.Speed)
}

// until is how long to wait for a moment of the recording; mu is held.
func (r *Replay) until(at time.Duration) time.Duration {
	if math.IsInf(r.opts.Speed, 1) {
		return 0
	}
	return scaled(at+r.late-r.now(), 1/r.opts.Speed)
}

// scaled is d times by, within what a Duration can be.
func scaled(d time.Duration, by float64) time.Duration {
	const most = math.MaxInt64 / 4 // so that sums are, too
	if d == 0 {
		return 0
	}
	return time.Duration(min(max(float64(d)*by, -most), most))
}

// rest notes that a client waits for more of an answer than there is.
func (r *Replay) rest(s *stream, q *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ended = s.ended || q == s.requests[len(s.requests)-1]
}

// note tells those who wait that something was played; mu is held.
func (r *Replay) note() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Wait returns when all was played of what clients have asked for, and the moment has come at
// which the recording was closed. Where it was not closed, or is played without any waiting,
// it returns when they have come for more. The error says what was not played: clients do not
// ask for it, or ctx is done. Where no request is to be played there is nothing to wait for, which
// is an error.
func (r *Replay) Wait(ctx context.Context) error {
	if err := r.nothing(); err != nil {
		return err
	}
	for {
		closed := r.file.closed()
		r.mu.Lock()
		missing, busy := r.missing()
		changed, left := r.changed, r.left()
		if missing == nil && r.file.Damage == nil && !math.IsInf(r.opts.Speed, 1) {
			left = r.until(r.file.Duration)
			busy = left > 0
		}
		r.mu.Unlock()
		if missing == nil && !busy {
			return nil
		}
		if closed != nil {
			return errors.Join(closed, missing)
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
			if missing == nil {
				continue
			}
			return missing
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), missing)
		}
		timer.Stop()
	}
}

// nothing is why there is nothing to play, nil if there is something.
func (r *Replay) nothing() error {
	switch all := r.file.LeftOut.Requests; {
	case len(r.recorded) > 0:
		return nil
	case len(r.file.Requests) > 0:
		return fmt.Errorf("recording %s: there is nothing to play: ReplayOptions.Only is true of none of its %d requests", r.file.Path, len(r.file.Requests))
	case all > 0:
		return fmt.Errorf("recording %s: there is nothing to play: all %d requests were left out, since more came than MaxSize: record with a greater one", r.file.Path, all)
	}
	return fmt.Errorf("recording %s: there is nothing to play: no list and no watch was sent while it was recorded", r.file.Path)
}

// missing says what is still to be played of what was asked for. Where nothing is, busy
// tells that clients may still be at work on the last of it; mu is held.
func (r *Replay) missing() (missing error, busy bool) {
	begun := false
	for _, s := range r.asked {
		if s.furthest < 0 {
			continue
		}
		begun = true
		if s.furthest < len(s.requests)-1 {
			next := s.requests[s.furthest+1]
			return fmt.Errorf("recording %s: nobody has asked for what follows: %s, at %s", r.file.Path, next, next.At.Round(time.Millisecond)), true
		}
		if s.playing > 0 {
			return fmt.Errorf("recording %s: %s was not read to its end", r.file.Path, s.requests[len(s.requests)-1]), true
		}
		busy = busy || !s.ended
	}
	if !begun && r.strange != "" {
		return fmt.Errorf("recording %s: nobody has asked for what it has, which is %s; the last that was asked for is %s", r.file.Path, strings.Join(r.has(), "; "), r.strange), true
	}
	if !begun {
		return fmt.Errorf("recording %s: nobody has asked for anything", r.file.Path), true
	}
	return nil, busy
}

// grace is how long a client has at any speed, for what a machine with other work does not do in
// less.
const grace = 10 * time.Second

// left is how long it may take to the end; mu is held.
func (r *Replay) left() time.Duration {
	if math.IsInf(r.opts.Speed, 1) || r.began.IsZero() {
		return patience
	}
	return max(scaled(r.file.Duration+r.late+patience-r.now(), 1/r.opts.Speed), grace)
}

var errStopped = errors.New("the answer is closed")
