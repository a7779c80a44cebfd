package recording

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Recorder. The zero value works.
type Options struct {
	// MaxSize bounds the file, in bytes. Where it would grow beyond that, the oldest
	// requests are left out until it has half of it, first those that have ended; another
	// file, path + ".part", is written meanwhile, which then takes its place. The list of an
	// informer that never lists again is among the first to go, and what is left of it can
	// be read and not played; see Relist. A watch that alone has more than three quarters goes
	// as a whole, and nothing more of it is kept: have room for what comes in an hour. Default 256 MiB; the least is 1 MiB.
	MaxSize int64

	// Relist has the next watch of an informer answered with 410 Gone, and not sent, before its
	// last list has to be left out, so that it lists again, and the recording can be played
	// from there. It costs each informer a list for each quarter of MaxSize, every 15 minutes at
	// most. By default a recorder changes nothing of what passes.
	Relist bool

	// IncludeSecrets records what Secrets hold. By default the recording has of them only
	// which requests there were, when something came, and how much. An answer is one of
	// Secrets if "secret" is part of the name of the resource, of the kind or Go type that
	// the client asks for, or of the first kind in the answer.
	IncludeSecrets bool

	// Logger hears of it, once each, if the recording ends by itself, and if something has to
	// be left out for MaxSize. Close waits for it, so it must not close the recorder. Nil is
	// silent.
	Logger *slog.Logger
}

const (
	defaultMaxSize = 256 << 20
	leastMaxSize   = 1 << 20

	// maxWaiting bounds what waits for the disk, in bytes.
	maxWaiting = 32 << 20

	// flushAfter is how long something may wait until a block is full.
	flushAfter = time.Second
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.MaxSize == 0:
		o.MaxSize = defaultMaxSize
	case o.MaxSize < leastMaxSize:
		return o, fmt.Errorf("MaxSize is %d: want 0 for %d, or at least %d", o.MaxSize, defaultMaxSize, leastMaxSize)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Recorder writes what clients receive into a file. Make it with Create, give it to
// config.Config, and close it. It is safe for concurrent use, and has one goroutine.
type Recorder struct {
	path  string
	opts  Options
	began time.Time
	over  atomic.Bool // nothing more is taken
	wake  chan struct{}
	ended chan struct{}
	ring  *ring // belongs to the goroutine

	reading sync.Mutex // held while a tail reads, and while the file is replaced or closed; before mu

	mu      sync.Mutex    // guards the rest
	last    uint64        // request
	at      time.Duration // of the last event
	of      uint64        // request, which that was about
	waiting []event
	bytes   int // of waiting
	closing bool
	courses map[client]course // of those whose lists are far back
	shrunk  int               // how often the file has become smaller
	status  Status
}

// Status is a Recorder seen from outside.
type Status struct {
	Path     string
	Requests int     // lists and watches
	Bytes    int64   // of their bodies, as they came
	Size     int64   // of the file
	LeftOut  LeftOut // what of that the file has not
	Secrets  bool    // what they hold is recorded, too
	Err      error   // why the recording ended before it was closed, nil if it did not
}

// event is a record on its way to the file.
type event struct {
	record
	blank Blank // of chunks; may be nil
}

// Create begins a recording at a path. A recording that is there already is kept, as
// path + ".previous", in the place of one that was there before, unless it has no requests.
// A file that is no recording is an error, of both names; an empty one is replaced. It
// fails with an *Error.
func Create(path string, opts Options) (*Recorder, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, &Error{path, -1, err}
	}
	if err := makeWay(path); err != nil {
		return nil, &Error{path, -1, err}
	}
	to, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, &Error{path, -1, withoutPath(err)}
	}
	r := &Recorder{path: path, opts: opts, began: time.Now(), wake: make(chan struct{}, 1), ended: make(chan struct{}), courses: map[client]course{}, status: Status{Path: path, Secrets: opts.IncludeSecrets}}
	r.ring = &ring{recorder: r, file: to}
	if err := r.ring.begin(); err != nil {
		return nil, &Error{path, -1, errors.Join(withoutPath(err), to.Close(), os.Remove(path))}
	}
	r.ring.report()
	go r.ring.run()
	return r, nil
}

// openFile opens a regular file: to open a pipe would wait for whoever writes into it.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("what is there is no regular file: choose another name")
	}
	if err != nil {
		return nil, withoutPath(err)
	}
	f, err := os.Open(path)
	return f, withoutPath(err)
}

// withoutPath drops the path that package os puts into its errors: an Error has it.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Errorf("%s: %w", l.Op, l.Err)
	}
	return err
}

// Close ends the recording and returns once all of it is in the file. The error is that of
// Status. Requests under way go on.
func (r *Recorder) Close() error {
	if r.ended == nil {
		return &Error{r.path, -1, errNotCreated}
	}
	r.mu.Lock()
	r.closing = true
	r.over.Store(true)
	r.mu.Unlock()
	r.rouse()
	<-r.ended
	return r.Status().Err
}

// Done returns a channel that is closed when the recording has ended, by itself or by Close.
func (r *Recorder) Done() <-chan struct{} {
	if r.ended == nil {
		never := make(chan struct{})
		close(never)
		return never
	}
	return r.ended
}

// Status returns what was recorded so far.
func (r *Recorder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// listens reports whether anything is taken. One that Create has not made takes nothing.
func (r *Recorder) listens() bool { return r.ended != nil && !r.over.Load() }

// begin takes a request that is about to be sent, and returns its number.
func (r *Recorder) begin(q *Request) (id uint64, ok bool) {
	text := encode(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over.Load() {
		return 0, false
	}
	r.last++
	r.status.Requests++
	if c := (client{q.about, q.Informer}); q.initial() && r.courses[c].lost { // by itself
		r.courses[c] = course{relisted: r.courses[c].relisted}
	}
	r.put(event{record: record{kind: kindRequest, request: r.last, payload: text}})
	return r.last, true
}

// take takes what happened to a request.
func (r *Recorder) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over.Load() {
		r.put(e)
	}
}

// put queues an event; mu is held. Nothing here waits for the disk. No two events of
// different requests are of the same moment, where a clock is coarse for example: a replay
// that gives each at its own keeps their order.
func (r *Recorder) put(e event) {
	const overhead = 128
	e.at = max(time.Since(r.began), r.at)
	if r.of != 0 && e.request != r.of && e.at == r.at {
		e.at++
	}
	r.at, r.of = e.at, e.request
	r.waiting = append(r.waiting, e)
	if r.bytes += len(e.payload) + overhead; r.bytes > maxWaiting {
		r.over.Store(true)
		r.status.Err = ErrBehind
	}
	r.rouse()
}

// rouse tells the goroutine that something waits.
func (r *Recorder) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// taken hands over what waits. It reports whether nothing more will come.
func (r *Recorder) taken() (events []event, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, r.waiting, r.bytes = r.waiting, nil, 0
	return events, r.closing || r.over.Load()
}
