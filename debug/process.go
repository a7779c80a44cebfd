package debug

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/debug/internal/units"
	"github.com/millrace-dev/millrace/failure"
)

// Limits on concurrent requests.
const (
	mostAnswers = 4  // responses being built
	mostWaiting = 64 // requests that are waiting for their turn or being answered
	mostStreams = 8
)

// Responses stay in memory until the client has read them.
const (
	mostHeld  = 64 << 20  // total bytes of responses being sent; a single one may be larger
	leastRate = 256 << 10 // minimum rate at which a client must read a large response, in bytes per second
)

// mostItems limits the number of items in a response.
const mostItems = 1000

// Process exposes the process it runs in. It is an http.Handler for [Path] and everything below it. Create
// one with [New].
type Process struct {
	opts    Options
	mux     *http.ServeMux
	answers chan struct{} // a token for each response being built
	waiting chan struct{} // a token for each request until its response is sent
	streams chan struct{} // a token for each stream
	held    atomic.Int64  // bytes of responses being sent
	ends    endings
}

// New returns a Process for the current process.
func New(opts Options) *Process {
	p := &Process{
		opts: opts, mux: http.NewServeMux(), answers: make(chan struct{}, mostAnswers),
		waiting: make(chan struct{}, mostAnswers+mostWaiting), streams: make(chan struct{}, mostStreams),
	}
	for name, answer := range map[string]func(context.Context, query) (any, error){
		"status":     func(context.Context, query) (any, error) { return p.status(), nil },
		"objects":    func(ctx context.Context, q query) (any, error) { return p.objects(ctx, q) },
		"object":     func(_ context.Context, q query) (any, error) { return p.object(q) },
		"indexes":    func(_ context.Context, q query) (any, error) { return p.indexes(q) },
		"queue":      func(_ context.Context, q query) (any, error) { return p.queue(q) },
		"timeline":   func(_ context.Context, q query) (any, error) { return p.timeline(q) },
		"why":        func(_ context.Context, q query) (any, error) { return p.why(q) },
		"busiest":    func(_ context.Context, q query) (any, error) { return p.busiest(q) },
		"goroutines": func(context.Context, query) (any, error) { return goroutines() },
		"stacks":     func(_ context.Context, q query) (any, error) { return stacks(q.get("name")) },
	} {
		p.mux.HandleFunc(Path+"v1/"+name, func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, answer) })
	}
	p.mux.HandleFunc(Path+"v1/events", p.events)
	p.mux.HandleFunc(Path+"v1/recording", p.recording)
	addPage(p.mux)
	return p
}

// ServeHTTP implements http.Handler.
func (p *Process) ServeHTTP(w http.ResponseWriter, r *http.Request) { readOnly(p.mux).ServeHTTP(w, r) }

// refusal is an error that becomes an error response.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// answer waits for its turn, then builds and sends a response. The whole response is built before any of it
// is sent, so that slow clients do not delay other requests. The limit on waiting requests also limits how
// many responses are in memory.
func (p *Process) answer(w http.ResponseWriter, r *http.Request, make func(context.Context, query) (any, error)) {
	select {
	case p.waiting <- struct{}{}:
		defer func() { <-p.waiting }()
	default:
		busy(w, "Too many requests. Try again.")
		return
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // a partially parsed query might select more than intended
		fail(w, refuse(http.StatusBadRequest, "Invalid query: %v.", err))
		return
	}
	turn, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	select {
	case p.answers <- struct{}{}:
	case <-turn.Done():
		busy(w, fmt.Sprintf("%d responses are being built, and none has finished within %v: a function hangs. See /debug/pprof/goroutine.", mostAnswers, patience))
		return
	}
	body, err := func() (body []byte, err error) {
		defer func() { <-p.answers }()
		// Options, keys and objects may run user code.
		err = failure.Apart("the debug query", func() error {
			value, err := make(r.Context(), query{values})
			if err == nil {
				body, err = units.Marshal(value)
			}
			return err
		})
		return body, err
	}()
	if err != nil {
		fail(w, err)
		return
	}
	body = append(body, '\n')
	size := int64(len(body))
	defer p.held.Add(-size)
	if held := p.held.Add(size); held > mostHeld && held > size {
		busy(w, "Other clients have not read their large responses yet. Try again.")
		return
	}
	send(w, body)
}

// send writes a response. The client must read each chunk within patience, and at least at leastRate overall.
func send(w http.ResponseWriter, body []byte) {
	last := time.Now().Add(patience + time.Duration(len(body))*time.Second/leastRate)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	control := http.NewResponseController(w)
	for part := range slices.Chunk(body, 64<<10) {
		due := time.Now().Add(patience)
		if due.After(last) {
			due = last
		}
		// Writers that do not support deadlines, such as a test's recorder, do not have slow readers.
		_ = control.SetWriteDeadline(due)
		if _, err := w.Write(part); err != nil {
			return // the client has disconnected or does not read
		}
	}
}

func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if r, ok := err.(*refusal); ok {
		code = r.code
	}
	http.Error(w, err.Error(), code)
}

func busy(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, text, http.StatusServiceUnavailable)
}

// query holds a request's parameters.
type query struct{ values map[string][]string }

func (q query) get(name string) string { return strings.Join(q.values[name], ",") }

// number parses a number from 1 to most. If the parameter is missing, it returns otherwise.
func (q query) number(name string, otherwise, most int) (int, error) {
	text := q.get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, refuse(http.StatusBadRequest, "%s=%s: want a number from 1 to %d", name, clipped(text), most)
	}
	return min(n, most), nil
}

// clipped truncates user input for use in a message.
func clipped(s string) string { return shortened(s, 256) }

// shortened truncates s to at most most bytes, plus an ellipsis.
func shortened(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// enumerated joins names for a message, up to a limit.
func enumerated(names []string, separator string) string {
	const most = 20
	all := make([]string, 0, min(len(names), most+1))
	for n, name := range names {
		if n == most {
			all = append(all, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		all = append(all, clipped(name))
	}
	return strings.Join(all, separator)
}
