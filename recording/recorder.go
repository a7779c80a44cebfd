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

// Options configures a [Recorder]. The zero value is ready to use.
type Options struct {
	// MaxSize is the maximum file size in bytes. Once the file would exceed it, the recorder drops the
	// oldest requests, finished ones first, until the file is down to half of MaxSize. It writes the
	// rest to path + ".part", which then replaces the file. If an informer lists only once, its list is
	// dropped early, and the rest can then be read but not replayed; see Relist. A watch that takes up more
	// than three quarters of MaxSize is dropped entirely and no longer recorded, so leave room for an hour's
	// worth of events. The default is 256 MiB, the minimum 1 MiB.
	MaxSize int64

	// Relist makes informers relist before their last list is dropped, so the recording stays
	// replayable: the recorder answers the next watch with 410 Gone instead of sending it to the server.
	// The cost is one list per informer for each quarter of MaxSize written, but no more than one every 15
	// minutes. By default, a recorder does not interfere with traffic.
	Relist bool

	// IncludeSecrets records the contents of Secrets. By default only the requests for them are recorded,
	// along with the times and sizes of the responses. A response is treated as containing Secrets if the
	// resource name, the requested kind or Go type, or the first kind in the response contains "secret".
	IncludeSecrets bool

	// Logger receives a warning if the recording ends prematurely, and when MaxSize first causes
	// requests to be dropped. Close waits for the logger, so the logger must not close the recorder. If
	// nil, nothing is logged.
	Logger *slog.Logger
}

const (
	defaultMaxSize = 256 << 20
	leastMaxSize   = 1 << 20

	// maxWaiting limits the number of bytes waiting to be written.
	maxWaiting = 32 << 20

	// flushAfter is the maximum time a record waits for its block to fill up.
	flushAfter = time.Second
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.MaxSize == 0:
		o.MaxSize = defaultMaxSize
	case o.MaxSize < leastMaxSize:
		return o, fmt.Errorf("MaxSize is %d: want 0 for the default of %d, or at least %d", o.MaxSize, defaultMaxSize, leastMaxSize)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Recorder records the responses clients receive to a file. Create one with [Create], set it as
// config.Config.Recorder, and close it when done. It is safe for concurrent use and runs one goroutine.
type Recorder struct {
	path  string
	opts  Options
	began time.Time
	over  atomic.Bool // no more events are accepted
	wake  chan struct{}
	ended chan struct{}
	ring  *ring // owned by the recorder's goroutine

	reading sync.Mutex // held while a tail reads and while the file is replaced or closed; acquired before mu

	mu      sync.Mutex    // guards the fields below
	last    uint64        // number of the last request
	at      time.Duration // time of the last event
	of      uint64        // request of the last event
	waiting []event
	bytes   int // size of waiting
	closing bool
	courses map[client]course // clients whose list will be dropped soon
	shrunk  int               // how many times the file has been shrunk
	status  Status
}

// Status is the status of a [Recorder].
type Status struct {
	Path     string
	Requests int     // lists and watches received
	Bytes    int64   // body bytes received
	Size     int64   // size of the file
	LeftOut  LeftOut // requests missing from the file
	Secrets  bool    // whether the contents of Secrets are recorded
	Err      error   // error that ended the recording prematurely, or nil
}

// event is a record waiting to be written.
type event struct {
	record
	blank Blank // for chunks; may be nil
}

// Create starts a recording at path. An existing recording with requests is renamed to path +
// ".previous", replacing any earlier one. An empty file or recording is replaced. If either file is not
// a recording, Create fails with an [*Error].
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

// openFile opens a regular file. It rejects pipes because opening one blocks until there is a writer.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file: choose another name")
	}
	if err != nil {
		return nil, withoutPath(err)
	}
	f, err := os.Open(path)
	return f, withoutPath(err)
}

// withoutPath removes the path from errors returned by package os, since an [Error] already contains it.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Errorf("%s: %w", l.Op, l.Err)
	}
	return err
}

// Close ends the recording, waits until it is completely written, and returns Status.Err. Requests in
// progress continue unrecorded.
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

// Done returns a channel that is closed when the recording ends, either prematurely or because of Close.
func (r *Recorder) Done() <-chan struct{} {
	if r.ended == nil {
		never := make(chan struct{})
		close(never)
		return never
	}
	return r.ended
}

// Status returns the recorder's current status.
func (r *Recorder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// listens reports whether the recorder accepts events. A recorder that was not created by [Create] never
// does.
func (r *Recorder) listens() bool { return r.ended != nil && !r.over.Load() }

// begin records a request that is about to be sent and assigns its number.
func (r *Recorder) begin(q *Request) (id uint64, ok bool) {
	text := encode(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over.Load() {
		return 0, false
	}
	r.last++
	r.status.Requests++
	if c := (client{q.about, q.Informer}); q.initial() && r.courses[c].lost { // the client is relisting on its own
		r.courses[c] = course{relisted: r.courses[c].relisted}
	}
	r.put(event{record: record{kind: kindRequest, request: r.last, payload: text}})
	return r.last, true
}

// take records an event belonging to a request.
func (r *Recorder) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over.Load() {
		r.put(e)
	}
}

// put queues an event; the caller holds mu. It never waits for the disk. Events from different requests get
// distinct times, even if the clock is coarse, so that a replay preserves their order.
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

// rouse wakes the recorder's goroutine.
func (r *Recorder) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// taken returns the queued events and reports whether they are the last ones.
func (r *Recorder) taken() (events []event, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, r.waiting, r.bytes = r.waiting, nil, 0
	return events, r.closing || r.over.Load()
}
