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

// Options configure a [Recorder]. The zero value is usable.
type Options struct {
	// MaxSize bounds the file, in bytes. When the file would exceed it, the recorder
	// drops the oldest requests, finished ones first, until half of MaxSize is left. It
	// writes the rest to path + ".part", which then replaces the file. An informer that
	// lists only once loses its list early, and then the rest can be read but not
	// replayed; see Relist. A watch with more than three quarters of MaxSize is dropped
	// entirely and not recorded further: leave room for an hour of events. The default
	// is 256 MiB, the minimum 1 MiB.
	MaxSize int64

	// Relist makes informers list again before their last list is dropped, so the
	// recording stays replayable: the recorder answers the next watch with 410 Gone
	// instead of sending it. It costs each informer one list per quarter of MaxSize, at
	// most every 15 minutes. By default a recorder does not change any traffic.
	Relist bool

	// IncludeSecrets records the contents of Secrets. By default the recording has only the requests for
	// them and the times and sizes of the responses. A response is considered to be for Secrets if
	// "secret" is part of the name of the resource, of the requested kind or Go type, or of the first
	// kind in the response.
	IncludeSecrets bool

	// Logger receives a warning when the recording ends prematurely, and when requests are first dropped
	// for MaxSize. Close waits for the logger, so it must not close the recorder. Nil means no logging.
	Logger *slog.Logger
}

const (
	defaultMaxSize = 256 << 20
	leastMaxSize   = 1 << 20

	// maxWaiting bounds the data waiting to be written, in bytes.
	maxWaiting = 32 << 20

	// flushAfter is how long a record may wait for its block to fill up.
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

// Recorder records to a file what clients receive. Create it with [Create], set it as
// config.Config.Recorder, and close it. It is safe for concurrent use and has one
// goroutine.
type Recorder struct {
	path  string
	opts  Options
	began time.Time
	over  atomic.Bool // the recorder accepts nothing more
	wake  chan struct{}
	ended chan struct{}
	ring  *ring // owned by the goroutine

	reading sync.Mutex // held while a tail reads, and while the file is replaced or closed; acquired before mu

	mu      sync.Mutex    // guards the fields below
	last    uint64        // number of the last request
	at      time.Duration // time of the last event
	of      uint64        // request of the last event
	waiting []event
	bytes   int // size of waiting
	closing bool
	courses map[client]course // clients whose lists will be dropped soon
	shrunk  int               // how often the file was shrunk
	status  Status
}

// Status is the status of a [Recorder].
type Status struct {
	Path     string
	Requests int     // lists and watches received
	Bytes    int64   // bytes of bodies received
	Size     int64   // size of the file
	LeftOut  LeftOut // requests that are not in the file
	Secrets  bool    // whether the contents of Secrets are recorded
	Err      error   // why the recording ended prematurely, or nil
}

// event is a record waiting to be written.
type event struct {
	record
	blank Blank // for chunks; may be nil
}

// Create starts a recording at path. An existing recording with requests is renamed to
// path + ".previous", replacing an earlier one. An empty file is replaced; if either
// file is something other than a recording, Create fails with an [*Error].
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

// openFile opens a regular file. Opening a pipe would block until it has a writer.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("there is something other than a regular file: choose another name")
	}
	if err != nil {
		return nil, withoutPath(err)
	}
	f, err := os.Open(path)
	return f, withoutPath(err)
}

// withoutPath removes the path from errors of package os, since an Error already has
// it.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Errorf("%s: %w", l.Op, l.Err)
	}
	return err
}

// Close ends the recording and returns when all of it is in the file. It returns
// Status.Err. Requests in progress continue.
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

// Done returns a channel that is closed when the recording has ended, prematurely or by
// Close.
func (r *Recorder) Done() <-chan struct{} {
	if r.ended == nil {
		never := make(chan struct{})
		close(never)
		return never
	}
	return r.ended
}

// Status returns the current status.
func (r *Recorder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// listens reports whether the recorder accepts events. A recorder that was not made by Create does not.
func (r *Recorder) listens() bool { return r.ended != nil && !r.over.Load() }

// begin records a request that is about to be sent and returns its number.
func (r *Recorder) begin(q *Request) (id uint64, ok bool) {
	text := encode(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over.Load() {
		return 0, false
	}
	r.last++
	r.status.Requests++
	if c := (client{q.about, q.Informer}); q.initial() && r.courses[c].lost { // the client lists on its own
		r.courses[c] = course{relisted: r.courses[c].relisted}
	}
	r.put(event{record: record{kind: kindRequest, request: r.last, payload: text}})
	return r.last, true
}

// take records an event of a request.
func (r *Recorder) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over.Load() {
		r.put(e)
	}
}

// put queues an event; the caller holds mu. It never waits for the disk. Events of
// different requests get different times, even with a coarse clock, so a replay keeps
// their order.
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

// rouse wakes the goroutine.
func (r *Recorder) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// taken returns the queued events, and whether they are the last ones.
func (r *Recorder) taken() (events []event, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, r.waiting, r.bytes = r.waiting, nil, 0
	return events, r.closing || r.over.Load()
}
