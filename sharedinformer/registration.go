package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// Lag says what is held for a handler that does not keep up (L09).
type Lag uint8

const (
	// Unbounded holds every change until the handler has heard it.
	Unbounded Lag = iota
	// Coalesce holds at most one entry per object, the newest.
	Coalesce
)

// HandlerOptions configure one registration. The zero value works.
type HandlerOptions struct {
	// Name appears in status, messages and metrics. The default is Place.
	Name string

	// Place is the file:line to name beside it. The default is that of the
	// AddHandler call; whoever adds handlers for others names theirs.
	Place string

	// Resync, if not 0, tells the handler of every cached object that often,
	// once it has synced (L11). One that is due while the handler has not heard
	// the one before to its end is left out.
	Resync time.Duration

	// Lag is the policy for changes that the handler has not heard yet.
	Lag Lag

	// OnSync, if set, is called once, when the handler's last initial Add has
	// returned (L18), and before the handler hears of anything else. Namespaces that
	// come later do not call it again.
	OnSync func()

	// CrashOnPanic lets a panic of the handler end the process after it was
	// reported. Otherwise the handler gets the next change (L10).
	CrashOnPanic bool
}

// Registration is one handler on one informer.
type Registration[T object.Object] struct {
	informer *Informer[T]
	handler  Handler[T]
	opts     HandlerOptions
	wake     chan struct{} // holds one token while there may be something to tell

	// The goroutine's own, kept between two runs of the informer.
	run     indexer.View[T] // objects to be told before anything else
	runNext int             // the first of them that is still to be told
	runType EventType
	runEnds bool // the handler is synced after run
	cursor  cursor[T]
	box     *coalescer[T] // instead of cursor, with the policy Coalesce
	watch   stopwatch
	exited  bool // the handler has ended the goroutine
	told    bool // OnSync was called

	mu        sync.Mutex  // guards the three below; nothing is called while it is held
	closed    atomic.Bool // written under mu, read anywhere
	running   bool
	goroutine uint64 // its number, to know a close from inside the handler

	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when a closed registration has no goroutine (any more)

	awaiting   atomic.Int32 // marks of a whole list that it has to pass before it is synced
	resyncDue  atomic.Bool
	resyncing  atomic.Bool // one is in the log, or being told; without meaning with a box
	nextResync time.Time   // guarded by Informer.mu

	telling atomic.Pointer[Event[T]]  // what the call in progress is about, nil while idle
	runFrom atomic.Pointer[time.Time] // when the run was put before everything else, nil where there is none
	passed  atomic.Uint64             // events of the log that the handler has heard, or that were there before it
	joined  uint64                    // passed at the beginning
	runLeft atomic.Int64              // objects of run, the one in progress included
	others  atomic.Uint64             // calls about anything but the log
	panics  atomic.Uint64
	errors  atomic.Uint64
	failure atomic.Pointer[failure.Failure]
}

// Name is what messages call the handler.
func (r *Registration[T]) Name() string {
	if r.opts.Name == "" {
		return r.opts.Place
	}
	return r.opts.Name
}

// String gives name and place.
func (r *Registration[T]) String() string {
	if r.opts.Name == "" {
		return "handler " + r.opts.Place
	}
	return fmt.Sprintf("handler %q (%s)", r.opts.Name, r.opts.Place)
}

// HasSynced reports whether the handler's last initial Add has returned (L18).
func (r *Registration[T]) HasSynced() bool { return r.awaiting.Load() == 0 }

// WaitForSync waits for HasSynced. It fails with the cause of ctx, with
// ErrStopped, and with ErrClosed, and says what it was waiting for.
func (r *Registration[T]) WaitForSync(ctx context.Context) error {
	return r.informer.waitUntil(ctx, wait{
		reached: func() (bool, error) {
			if r.closed.Load() {
				return false, ErrClosed
			}
			return r.HasSynced(), nil
		},
		waiting:  func() error { return r.informer.unsynced(r) },
		patience: func() (time.Duration, bool) { return r.informer.patienceWith(r) },
	})
}

// ErrClosed: the registration was closed.
var ErrClosed = errors.New("the registration was closed")

// Close takes the handler off the informer and returns at once. Nothing more
// is told to it, but a call may be in progress, which CloseAndWait waits for.
// It may be called more than once, from inside the handler, and at any time of
// the informer's life (L07).
func (r *Registration[T]) Close() {
	if !r.close() {
		return
	}
	r.informer.remove(r)
	r.informer.changed.broadcast()
}

func (r *Registration[T]) close() (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.Load() {
		return false
	}
	r.closed.Store(true)
	close(r.closing)
	if !r.running {
		r.forget()
	}
	return true
}

// forget lets go of all that was held for a closed registration. It is called
// under mu when no goroutine works for it (any more).
func (r *Registration[T]) forget() {
	r.run, r.runNext, r.cursor = indexer.View[T]{}, 0, cursor[T]{}
	if r.box != nil {
		r.box.clear()
	}
	close(r.ended)
}

// CloseAndWait closes and waits for the call in progress, unless it is called
// by that very call. It fails only with the cause of ctx.
func (r *Registration[T]) CloseAndWait(ctx context.Context) error {
	r.Close()
	r.mu.Lock()
	inside := r.running && r.goroutine == goroutineID()
	r.mu.Unlock()
	if inside {
		return nil
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %s: waiting for the call in progress: %w", r.informer.Name(), r, context.Cause(ctx))
	}
}

// work tells the handler of everything until ctx is done or it is closed. The
// informer's Run starts it and waits for it.
func (r *Registration[T]) work(ctx context.Context) {
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("informer", r.informer.Name(), "handler", r.Name())))
	if !r.begin() {
		return
	}
	defer func() {
		r.end()
		if r.exited {
			r.exited = false
			r.informer.again(r)
		}
	}()
	for ctx.Err() == nil && !r.closed.Load() {
		if !r.step(ctx) {
			r.idle(ctx)
		}
	}
}

// idle waits until there may be something to tell.
func (r *Registration[T]) idle(ctx context.Context) {
	r.rest()
	select {
	case <-r.wake:
	case <-r.closing:
	case <-ctx.Done():
	}
}

// rest notes that no call is in progress.
func (r *Registration[T]) rest() {
	r.watch.stop()
	r.telling.Store(nil)
}

func (r *Registration[T]) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.Load() {
		return false
	}
	r.running, r.goroutine = true, goroutineID()
	return true
}

func (r *Registration[T]) end() {
	r.rest()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
	if r.closed.Load() {
		r.forget()
	}
}

// step makes the next call, or passes a mark. It returns false where there is
// nothing to do.
func (r *Registration[T]) step(ctx context.Context) bool {
	switch {
	case r.runNext < r.run.Len():
		e := &Event[T]{Type: r.runType, Object: r.run.At(r.runNext), Initial: r.runType == Add}
		r.runNext++
		r.telling.Store(e)
		r.deliver(ctx, e)
		return true
	case r.runEnds:
		r.runEnds = false
		r.sync()
		return true
	case r.box != nil:
		return r.stepBox(ctx)
	}
	e, mark := r.cursor.next()
	switch {
	case e != nil:
		r.telling.Store(e)
		r.deliver(ctx, e)
	case mark == nil:
		return false
	case mark.synced:
		r.sync()
	default:
		if _, wanted := mark.resync.targets[r]; wanted {
			r.tell(mark.resync.objects, Resync)
			r.resyncing.Store(mark.resync.objects.Len() > 0)
		}
	}
	return true
}

func (r *Registration[T]) stepBox(ctx context.Context) bool {
	e, mark := r.box.next()
	switch {
	case mark:
		r.sync()
	case e == nil:
		return false
	default:
		r.telling.Store(e)
		r.deliver(ctx, e)
	}
	return true
}

// heard counts the call that has returned.
func (r *Registration[T]) heard() {
	switch {
	case r.run.Len() > 0:
		r.others.Add(1)
		if r.runLeft.Add(-1) == 0 {
			r.run, r.runNext = indexer.View[T]{}, 0
			r.runFrom.Store(nil)
			r.resyncing.Store(false)
		}
	case r.box != nil:
		r.others.Add(1)
	default:
		r.passed.Add(1)
	}
}

// tell puts a run of objects before everything else.
func (r *Registration[T]) tell(objects indexer.View[T], as EventType) {
	r.run, r.runNext, r.runType = objects, 0, as
	r.runLeft.Store(int64(objects.Len()))
	if objects.Len() > 0 {
		r.runFrom.Store(new(time.Now()))
	}
}

func (r *Registration[T]) sync() {
	r.awaiting.Add(-1)
	r.informer.changed.broadcast()
	if first := !r.told; first && r.opts.OnSync != nil {
		r.told = true
		r.informer.callHook("OnSync", r, r.opts.OnSync)
	}
}

// deliver makes one call and counts it.
func (r *Registration[T]) deliver(ctx context.Context, e *Event[T]) {
	r.watch.start()
	mutations := r.informer.mutations
	if mutations != nil {
		mutations.look(e.Object, "")
	}
	panicked, err := r.call(ctx, e)
	if mutations != nil {
		mutations.look(e.Object, r.String())
	}
	r.heard()
	r.watch.lap()
	if err != nil {
		r.failed(ctx, e, panicked, err)
	}
}

// call turns a panic of the handler into an error.
func (r *Registration[T]) call(ctx context.Context, e *Event[T]) (panicked bool, err error) {
	panicked = true // until it has returned
	guard := failure.Guard{In: "handler"}
	defer guard.End(&err, func(err error) {
		r.heard() // nothing but the deferred calls of work follows
		r.failed(ctx, e, false, fmt.Errorf("%w; the next change is told in another goroutine", err))
		r.exited = true
	})
	err = r.handler.Handle(ctx, *e)
	guard.Returned()
	return false, err
}

func (r *Registration[T]) failed(ctx context.Context, e *Event[T], panicked bool, err error) {
	now := time.Now()
	f := &failure.Failure{
		Resource: r.informer.Name(), Phase: failure.PhaseHandler, Key: object.KeyOf(e.Object),
		Handler: r.String(), Err: err, Attempts: 1, Since: now, Last: now,
	}
	r.failure.Store(f)
	if panicked {
		r.panics.Add(1)
	} else {
		r.errors.Add(1)
	}
	r.informer.report(ctx, f)
	if p, ok := errors.AsType[*failure.PanicError](err); ok && panicked && r.opts.CrashOnPanic {
		panic(fmt.Sprintf("%s\n%s", f.Error(), p.Stack))
	}
}

// goroutineID is the number of the calling goroutine, as it stands in the
// first line of its stack trace: "goroutine 18 [running]:".
func goroutineID() uint64 {
	var buf [40]byte
	n := runtime.Stack(buf[:], false)
	var id uint64
	_, _ = fmt.Sscanf(string(buf[:n]), "goroutine %d ", &id)
	return id
}
