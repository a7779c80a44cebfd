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

// ReplayOptions configures a [Replay]. The zero value is ready to use.
type ReplayOptions struct {
	// Speed is the replay speed; the default of 1 replays in real time. Any value above 100,000, such as
	// math.Inf(1), replays without waiting.
	Speed float64

	// From is the time within the recording at which to start. Everything before it is replayed immediately.
	// The default is the first request's time.
	From time.Duration

	// Only selects the requests to replay; all others are treated as unrecorded. If nil, all requests
	// are replayed.
	Only func(*Request) bool

	// Others handles requests other than lists and watches of collections, such as writes. If nil, such
	// requests fail.
	Others http.RoundTripper
}

// patience is how much later than recorded a client may send its next request. It exceeds the time that
// clients wait on a silent watch.
const patience = 20 * time.Minute

// maxSpeed ensures that the scaled times in a replay of many hours do not overflow a Duration.
const maxSpeed = 100_000

// Replay is an http.RoundTripper that responds to lists and watches with recorded responses instead of
// sending them to a server:
//
//	client, err := rest.NewClient(&config.Config{Replay: file.Replay(recording.ReplayOptions{})}, scheme.New())
//
// Requests are matched by subject (server, path, selectors, whether metadata-only) and by parameters, in
// recorded order. An unrecorded server matches the recorded one.
//
// Each informer receives the responses of one recorded informer, even if several had the same subject.
// Any additional informer receives the first one's responses, with everything before its start replayed
// immediately. Other clients, such as a plain list or another library's informer, cannot be identified: they
// first receive the responses that such clients received, and then those of any informer.
//
// A request that arrives early waits until its recorded time. If a request arrives late, everything after it
// is delayed by the same amount, because all responses share one clock and their relative timing is
// preserved. A Replay tells a Millrace informer when its recorded counterpart sent its next request, for
// example after a failure, and the informer waits until then if its options allow it. It also tells the
// informer when the counterpart learned, from outside the recording, that its watch was delivering nothing.
// Once everything has been replayed, an informer receives no more data.
//
// A Replay is safe for concurrent use and starts no goroutines.
type Replay struct {
	file *File
	opts ReplayOptions

	recorded []*stream // in the order of their first request

	mu      sync.Mutex           // guards the fields below, and the state of the streams
	began   time.Time            // zero before the first request
	of      map[client][]*stream // each client's streams, preferred ones first
	asked   []*stream            // streams assigned to at least one client
	late    time.Duration        // the current delay, on the recording's clock
	strange string               // last request that matched nothing
	changed chan struct{}        // closed and replaced on progress
}

// Replay returns a new replay of the file. Each replay can serve only one client.
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

// Server returns the address of the recorded server or, if the recording is empty, an invalid address.
func (r *Replay) Server() string { return cmp.Or(r.file.Server(), "http://recording.invalid") }

// UnrecordedError means that a recording has no response for a request.
type UnrecordedError struct {
	Path  string   // path of the file
	Asked string   // the request, for messages
	Why   string   // the reason there is no response
	Has   []string // subjects in the file
}

// Error describes the request and the contents of the file.
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
	if q == nil { // the recording has ended; what happened next is unknown
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

// other handles requests that are not lists or watches.
func (r *Replay) other(req *http.Request) (*http.Response, error) {
	if r.opts.Others != nil {
		return r.opts.Others.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close() // as required of a RoundTripper
	}
	return nil, &UnrecordedError{Path: r.file.Path, Asked: req.Method + " " + req.URL.Path, Why: "recordings contain only lists and watches of collections"}
}

// noStream rejects a streaming list if a plain list was recorded, so that the client falls back to a
// list.
func noStream(req *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,"message":"the recording contains a plain list"}`
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

// match returns the recorded request that corresponds to asked, or nil if there are no more. It also
// uses recall to tell the client when its counterpart sent its next request.
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
	if AllWithheld(streams[0].requests) {
		return nil, nil, r.unrecorded(asked, "the contents of Secrets were not recorded: set IncludeSecrets when recording", nil)
	}
	s, at := find(streams, asked)
	if s == nil {
		for _, s := range streams {
			s.ended = true
		}
		r.note()
		if who.informer == 0 && !asked.Watch() { // fail instead of blocking: no response will ever come
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
		return s, q, nil // the stream is rejected; the list that follows uses q
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

// played is the reason for requests that were made more often than recorded.
const played = "every recorded response has been replayed"

// tell tells the client when its counterpart sent its next request, whether that request was a probe,
// and what timeout the counterpart set for this one. The caller must hold mu.
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

// missed returns the reason a request may be missing from the recording.
func (r *Replay) missed() string {
	if n := r.file.LeftOut.Requests; n > 0 {
		return fmt.Sprintf("it was not recorded, or is among the %d oldest requests, which were dropped because of MaxSize: an informer can be replayed from its first remaining list", n)
	}
	return "it was not recorded"
}

func (r *Replay) unrecorded(asked *Request, why string, has []string) error {
	return &UnrecordedError{r.file.Path, asked.String(), why, has}
}

// maxNamed limits how many subjects an error lists.
const maxNamed = 20

// has returns the subjects in the recording. The caller must hold mu.
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
			text += ", metadata only"
		}
		if q.about.Labels != "" || q.about.Fields != "" {
			text += ", with selectors"
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

// now returns the current time in the recording. The caller must hold mu.
func (r *Replay) now() time.Duration {
	if math.IsInf(r.opts.Speed, 1) {
		return 0
	}
	return r.opts.From + scaled(time.Since(r.began), r.opts.Speed)
}

// until returns how long to wait until at, a time in the recording. The caller must hold mu.
func (r *Replay) until(at time.Duration) time.Duration {
	if math.IsInf(r.opts.Speed, 1) {
		return 0
	}
	return scaled(at+r.late-r.now(), 1/r.opts.Speed)
}

// scaled returns d*by, clamped to the range of a Duration.
func scaled(d time.Duration, by float64) time.Duration {
	const most = math.MaxInt64 / 4 // so sums do not overflow either
	if d == 0 {
		return 0
	}
	return time.Duration(min(max(float64(d)*by, -most), most))
}

// rest notes that a client has reached the end of a recorded response.
func (r *Replay) rest(s *stream, q *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ended = s.ended || q == s.requests[len(s.requests)-1]
}

// note wakes goroutines waiting for progress. The caller must hold mu.
func (r *Replay) note() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Wait blocks until everything the clients requested has been replayed and the replay has reached the time at
// which the recording was closed. If the recording was not closed, or is replayed without waiting, Wait
// returns once the clients have requested more than was recorded. If ctx is done or the clients do not
// request everything, Wait returns an error describing what was not replayed. Wait also fails if there is
// nothing to replay.
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

// nothing returns an error if there is nothing to replay.
func (r *Replay) nothing() error {
	switch all := r.file.LeftOut.Requests; {
	case len(r.recorded) > 0:
		return nil
	case len(r.file.Requests) > 0:
		return fmt.Errorf("recording %s: nothing to replay: ReplayOptions.Only selects none of its %d requests", r.file.Path, len(r.file.Requests))
	case all > 0:
		return fmt.Errorf("recording %s: nothing to replay: all %d requests were dropped because of MaxSize: record again with a larger MaxSize", r.file.Path, all)
	}
	return fmt.Errorf("recording %s: nothing to replay: no lists or watches were recorded", r.file.Path)
}

// missing returns an error describing what has not been replayed yet. If the error is nil, busy reports
// whether clients may still be processing the end. The caller must hold mu.
func (r *Replay) missing() (missing error, busy bool) {
	begun := false
	for _, s := range r.asked {
		if s.furthest < 0 {
			continue
		}
		begun = true
		if s.furthest < len(s.requests)-1 {
			next := s.requests[s.furthest+1]
			return fmt.Errorf("recording %s: no client has sent the next request: %s, at %s", r.file.Path, next, next.At.Round(time.Millisecond)), true
		}
		if s.playing > 0 {
			return fmt.Errorf("recording %s: %s: the response was not read to the end", r.file.Path, s.requests[len(s.requests)-1]), true
		}
		busy = busy || !s.ended
	}
	if !begun && r.strange != "" {
		return fmt.Errorf("recording %s: no client has requested its contents: %s; last request: %s", r.file.Path, strings.Join(r.has(), "; "), r.strange), true
	}
	if !begun {
		return fmt.Errorf("recording %s: no client has requested anything", r.file.Path), true
	}
	return nil, busy
}

// grace is the minimum time a client is given at any speed, to allow for slow machines.
const grace = 10 * time.Second

// left returns how long the rest of the replay may take. The caller must hold mu.
func (r *Replay) left() time.Duration {
	if math.IsInf(r.opts.Speed, 1) || r.began.IsZero() {
		return patience
	}
	return max(scaled(r.file.Duration+r.late+patience-r.now(), 1/r.opts.Speed), grace)
}

var errStopped = errors.New("the response body is closed")
