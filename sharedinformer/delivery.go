package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// delivery calls one handler with every event, one call at a time, in its own goroutine, which is restarted
// in each run of the informer.
type delivery struct {
	informer *core
	handler  untypedHandler
	opts     HandlerOptions
	mailbox  mailbox
	wake     chan struct{} // holds a token while there may be something to deliver

	// Owned by the goroutine, except that others may read replay.
	events           []event                // taken from the mailbox but not yet delivered
	replay           atomic.Pointer[replay] // delivered before the mailbox; nil for none
	syncsAfterReplay bool                   // the handler is synced when replay is done
	handlerExited    bool                   // the handler has exited the goroutine
	onSyncCalled     bool                   // OnSync was called
	watch            stopwatch
	track            *flight.Track

	last     flight.Event // describes the last call, for the flight recorder
	received time.Time    // when its event was received

	mu        sync.Mutex  // guards the next three fields; no code except mailbox.clear is called while holding it
	closed    atomic.Bool // written under mu, read without locking
	running   bool
	goroutine uint64 // goroutine ID, to detect a close from inside the handler

	closing chan struct{} // closed by close
	ended   chan struct{} // closed when the delivery is closed and its goroutine has ended

	resyncDue  atomic.Bool
	nextResync time.Time // guarded by core.mu

	pendingSyncs atomic.Int32             // number of sync marks to pass before the handler is synced
	hook         atomic.Pointer[hookCall] // the hook that the goroutine is waiting for; nil for none
	replayed     atomic.Uint64            // number of calls for replayed objects
	panics       atomic.Uint64
	errors       atomic.Uint64
	failure      atomic.Pointer[failure.Failure]
	reports      reportLimiter
}

// newDelivery returns a delivery. Its start position is set by join.
func newDelivery(i *core, h untypedHandler, opts HandlerOptions) *delivery {
	d := &delivery{
		informer: i, handler: h, opts: opts,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	d.watch.made = time.Now()
	d.pendingSyncs.Store(1)
	d.track = i.flight.Track(flight.Label{Role: flight.Handler, Name: opts.name(), Of: i.track})
	return d
}

// join starts d at the end of the log and replays the objects cached at that point. If synced is true, those
// objects constitute an initial list. The caller must hold core.join.
func (d *delivery) join(log *eventLog, objects indexer.View, synced bool) {
	if d.opts.Lag == Coalesce {
		d.mailbox = newCoalescer()
		d.watch.exact = true
	} else {
		d.mailbox = newCursor(log)
	}
	d.last.After = d.mailbox.position()
	d.startReplay(objects, Add)
	d.syncsAfterReplay = synced
}

// offer hands d a segment that was appended to the log. The caller must hold core.join.
func (d *delivery) offer(s *segment) {
	d.mailbox.offer(s)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run calls the handler for every event until ctx is done or d is closed.
func (d *delivery) run(ctx context.Context) {
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("informer", d.informer.Name(), "handler", d.opts.name())))
	if !d.begin() {
		return
	}
	defer func() {
		if d.closed.Load() {
			d.reportSuppressed(context.WithoutCancel(ctx)) // there is no next report
		}
		d.end()
		if d.handlerExited {
			d.handlerExited = false
			d.informer.restartDelivery(d)
		}
	}()
	for ctx.Err() == nil && !d.closed.Load() {
		if !d.step(ctx) {
			d.idle(ctx)
		}
	}
}

func (d *delivery) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return false
	}
	d.running, d.goroutine = true, goroutineID()
	return true
}

func (d *delivery) end() {
	d.recordCalls(d.watch.stop())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = false
	if d.closed.Load() {
		d.release()
		close(d.ended)
	}
}

// calledByHandler reports whether the calling goroutine is running the handler, or a hook that the handler's
// goroutine is waiting for.
func (d *delivery) calledByHandler() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := goroutineID()
	h := d.hook.Load()
	return d.running && (d.goroutine == id || h != nil && h.goroutine == id)
}

// close ends the delivery. It reports whether this was the first call.
func (d *delivery) close() (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return false
	}
	d.closed.Store(true)
	close(d.closing)
	d.release()
	if !d.running {
		close(d.ended)
	}
	return true
}

// release frees everything kept for a closed delivery, except the events of a call in progress, which may
// never return. The caller must hold mu.
func (d *delivery) release() {
	if !d.running {
		d.events = nil
	}
	d.replay.Store(nil)
	d.mailbox.clear(d.running)
}

// idle waits until there may be something to deliver.
func (d *delivery) idle(ctx context.Context) {
	d.recordCalls(d.watch.stop())
	select {
	case <-d.wake:
	case <-d.closing:
	case <-ctx.Done():
	}
}

// step makes the next call or processes the next mark. It returns false if there is nothing to do.
func (d *delivery) step(ctx context.Context) bool {
	if len(d.events) > 0 { // left over, possibly from the previous run
		d.deliver(ctx, d.nextEvent())
		return true
	}
	if a := d.replay.Load(); a != nil {
		if e := a.next(); e != nil {
			d.deliver(ctx, e)
			return true
		}
	}
	if d.closed.Load() { // this may be the reason nothing was replayed
		return false
	}
	if d.syncsAfterReplay {
		d.syncsAfterReplay = false
		d.passSync()
		return true
	}
	events, mark := d.mailbox.next()
	switch {
	case events != nil:
		d.events = events
		d.deliver(ctx, d.nextEvent())
	case mark == nil:
		return false
	case mark.synced:
		d.passSync()
	default:
		d.startReplay(mark.resync.objects, Resync)
	}
	return true
}

// nextEvent removes and returns the first event taken from the mailbox. After the last event it drops the
// slice, so that the events can be freed.
func (d *delivery) nextEvent() *event {
	e := &d.events[0]
	if d.events = d.events[1:]; len(d.events) == 0 {
		d.events = nil
	}
	return e
}

// startReplay delivers objects to the handler before anything else.
func (d *delivery) startReplay(objects indexer.View, as EventType) {
	if objects.Len() > 0 {
		d.replay.Store(&replay{objects: objects, as: as, since: time.Now()})
	} else if as == Resync {
		d.mailbox.endResync()
	}
}

// ack records that a call has returned.
func (d *delivery) ack() {
	a := d.replay.Load()
	if a == nil {
		d.mailbox.ack()
		return
	}
	d.replayed.Add(1)
	if a.acked.Add(1); a.remaining() > 0 {
		return
	}
	d.replay.Store(nil)
	if a.as == Resync {
		d.mailbox.endResync()
	}
}

// passSync processes the end of an initial list. It calls OnSync the first time.
func (d *delivery) passSync() {
	d.pendingSyncs.Add(-1)
	d.informer.changed.broadcast()
	if !d.onSyncCalled && d.opts.OnSync != nil {
		d.onSyncCalled = true
		if err := d.informer.callHook("OnSync", d, d.opts.OnSync); err != nil {
			f := d.informer.completeFailure(&failure.Failure{Phase: failure.PhaseHook, Handler: d.opts.label(), Err: err})
			d.informer.report(context.Background(), d, f)
		}
	}
}

// deliver makes one call and counts it.
func (d *delivery) deliver(ctx context.Context, e *event) {
	d.watch.start()
	mutations := d.informer.mutations
	if mutations != nil {
		mutations.check(e.Object, "")
	}
	panicked, err := d.call(ctx, e)
	if mutations != nil {
		mutations.check(e.Object, d.opts.label())
	}
	d.ack()
	d.noteCall(e)
	d.recordCalls(d.watch.lap())
	if err != nil {
		d.failed(ctx, e, panicked, err)
	}
}

// call calls the handler and turns a panic into an error.
func (d *delivery) call(ctx context.Context, e *event) (panicked bool, err error) {
	returned := false
	defer func() {
		if !returned {
			panicked, err = d.aborted(ctx, e, recover())
		}
	}()
	err = d.handler.handle(ctx, e)
	returned = true
	return false, failure.Sound("handler", err)
}

// aborted cleans up after a handler that panicked or called runtime.Goexit. After Goexit, only run's deferred
// calls will execute.
func (d *delivery) aborted(ctx context.Context, e *event, panicked any) (bool, error) {
	if panicked != nil {
		return true, &failure.PanicError{In: "handler", Value: panicked, Stack: debug.Stack()}
	}
	d.ack()
	d.failed(ctx, e, false, fmt.Errorf("%w; the next change is delivered in another goroutine", &failure.GoexitError{In: "handler"}))
	d.handlerExited = true
	return false, nil
}

func (d *delivery) failed(ctx context.Context, e *event, panicked bool, err error) {
	now := time.Now()
	f := &failure.Failure{
		Resource: d.informer.Name(), Phase: failure.PhaseHandler, Key: object.KeyOf(e.Object),
		Handler: d.opts.label(), Err: err, Attempts: 1, Since: now, Last: now,
	}
	d.failure.Store(f)
	if panicked {
		d.panics.Add(1)
	} else {
		d.errors.Add(1)
	}
	if told := d.reports.allow(f); told != nil {
		d.informer.report(ctx, d, told)
	}
	if p, ok := errors.AsType[*failure.PanicError](err); ok && panicked && d.opts.CrashOnPanic {
		d.informer.flight.Crashing()
		panic(fmt.Sprintf("%s\n%s", f.Error(), p.Stack))
	}
}

// current returns the object being handled and the time its event was received, or zero if unknown.
func (d *delivery) current() (o object.Head, since time.Time, ok bool) {
	if !d.watch.on() {
		return o, since, false
	}
	if a := d.replay.Load(); a != nil {
		o := a.current()
		return o, a.since, o != nil
	}
	if e := d.mailbox.current(); e != nil {
		return e.Object, e.Received, true
	}
	return o, since, false
}

// goroutineID returns the ID of the calling goroutine, parsed from its stack trace: "goroutine 18
// [running]:".
func goroutineID() uint64 {
	var buf [40]byte
	n := runtime.Stack(buf[:], false)
	var id uint64
	_, _ = fmt.Sscanf(string(buf[:n]), "goroutine %d ", &id)
	return id
}

// replay is a set of cached objects that a handler receives before anything else: those cached when it
// joined, or those redelivered by a resync.
type replay struct {
	objects indexer.View
	as      EventType
	since   time.Time
	acked   atomic.Int64 // number of calls that have returned; incremented only by the handler's goroutine
	scratch event        // reused by the handler's goroutine for each event
}

// current returns the next object, or nil after the last. It may be the object being handled.
func (a *replay) current() object.Head {
	n := int(a.acked.Load())
	if n == a.objects.Len() {
		return nil
	}
	return a.objects.At(n)
}

// next returns the next event, or nil after the last. It is called only by the handler's goroutine.
func (a *replay) next() *event {
	o := a.current()
	if o == nil {
		return nil
	}
	a.scratch = event{Type: a.as, Object: o, Initial: a.as == Add}
	return &a.scratch
}

// remaining returns the number of objects not yet delivered.
func (a *replay) remaining() int { return a.objects.Len() - int(a.acked.Load()) }
