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

// delivery tells one handler of everything, one call at a time, in a goroutine that
// each run of the informer starts anew.
type delivery struct {
	informer *core
	handler  untypedHandler
	opts     HandlerOptions
	mailbox  mailbox
	wake     chan struct{} // holds one token while there may be something to tell

	// The goroutine's own, but for reads of replay.
	events           []event                // of the mailbox, that are still to be told
	replay           atomic.Pointer[replay] // comes before the mailbox; nil for none
	syncsAfterReplay bool                   // the handler is synced after replay
	handlerExited    bool                   // the handler has ended the goroutine
	onSyncCalled     bool                   // OnSync was called
	watch            stopwatch
	track            *flight.Track

	last     flight.Event // what the recorder will want to know of the last call
	received time.Time    // its event

	mu        sync.Mutex  // guards the three below; nothing but mailbox.clear is called while it is held
	closed    atomic.Bool // written under mu, read anywhere
	running   bool
	goroutine uint64 // its number, to know a close from inside the handler

	closing chan struct{} // closed by close
	ended   chan struct{} // closed when a closed delivery has no goroutine (any more)

	resyncDue  atomic.Bool
	nextResync time.Time // guarded by core.mu

	pendingSyncs atomic.Int32             // marks of a whole list that it has to pass before it is synced
	hook         atomic.Pointer[hookCall] // that it waits for, nil for none
	replayed     atomic.Uint64            // calls about replayed objects
	panics       atomic.Uint64
	errors       atomic.Uint64
	failure      atomic.Pointer[failure.Failure]
	reports      reportLimiter
}

// newDelivery returns a delivery that begins with what join is told.
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

// join begins at the end of the log with the objects that the cache has there. Synced
// says that they are an initial list. It is called under core.join.
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

// offer hands over what has been appended to the log. It is called under
// core.join.
func (d *delivery) offer(s *segment) {
	d.mailbox.offer(s)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run calls the handler for every event until ctx is done or it is closed. The
// informer's Run starts it and waits for it.
func (d *delivery) run(ctx context.Context) {
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("informer", d.informer.Name(), "handler", d.opts.name())))
	if !d.begin() {
		return
	}
	defer func() {
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

// calledByHandler reports whether it is called by a call of the handler, or by a hook that the
// handler's goroutine waits for.
func (d *delivery) calledByHandler() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := goroutineID()
	h := d.hook.Load()
	return d.running && (d.goroutine == id || h != nil && h.goroutine == id)
}

// close ends the delivery. It reports whether it was the first to do so.
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

// release drops all that is held for a closed delivery, except for the events that a call in
// progress is about: that call may never return. It is called under mu.
func (d *delivery) release() {
	if !d.running {
		d.events = nil
	}
	d.replay.Store(nil)
	d.mailbox.clear(d.running)
}

// idle waits until there may be something to tell.
func (d *delivery) idle(ctx context.Context) {
	d.recordCalls(d.watch.stop())
	select {
	case <-d.wake:
	case <-d.closing:
	case <-ctx.Done():
	}
}

// step makes the next call, or passes a mark. It returns false where there is
// nothing to do.
func (d *delivery) step(ctx context.Context) bool {
	if len(d.events) > 0 { // still, or since the run before
		d.deliver(ctx, d.nextEvent())
		return true
	}
	if a := d.replay.Load(); a != nil {
		if e := a.next(); e != nil {
			d.deliver(ctx, e)
			return true
		}
	}
	if d.closed.Load() { // which may be why there was nothing to replay
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

// nextEvent returns the next of the events that the mailbox returned. The last one is taken
// without holding the others.
func (d *delivery) nextEvent() *event {
	e := &d.events[0]
	if d.events = d.events[1:]; len(d.events) == 0 {
		d.events = nil
	}
	return e
}

// startReplay tells the handler of objects before everything else.
func (d *delivery) startReplay(objects indexer.View, as EventType) {
	if objects.Len() > 0 {
		d.replay.Store(&replay{objects: objects, as: as, since: time.Now()})
	} else if as == Resync {
		d.mailbox.endResync()
	}
}

// ack counts a call that has returned.
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

// passSync passes the end of an initial list, and calls OnSync if it is the first.
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

// call turns a panic of the handler into an error.
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

// aborted is what call does where the handler has not returned, but panicked or called
// runtime.Goexit. After that nothing but the deferred calls of run follows.
func (d *delivery) aborted(ctx context.Context, e *event, panicked any) (bool, error) {
	if panicked != nil {
		return true, &failure.PanicError{In: "handler", Value: panicked, Stack: debug.Stack()}
	}
	d.ack()
	d.failed(ctx, e, false, fmt.Errorf("%w; the next change is told in another goroutine", &failure.GoexitError{In: "handler"}))
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

// current returns the object that the call in progress is about, and since when the event has
// waited for the handler; zero if that is not known.
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

// goroutineID is the number of the calling goroutine, as it stands in the
// first line of its stack trace: "goroutine 18 [running]:".
func goroutineID() uint64 {
	var buf [40]byte
	n := runtime.Stack(buf[:], false)
	var id uint64
	_, _ = fmt.Sscanf(string(buf[:n]), "goroutine %d ", &id)
	return id
}

// replay is a set of cached objects that a handler is told of before anything else: those that
// were cached when it joined, or those of a resync.
type replay struct {
	objects indexer.View
	as      EventType
	since   time.Time
	acked   atomic.Int64 // calls that have returned; more are only made by the handler's goroutine
	scratch event        // is reused for each event; of the handler's goroutine
}

// current returns the next object, about which a call may be in progress; nil if there is none left.
func (a *replay) current() object.Head {
	n := int(a.acked.Load())
	if n == a.objects.Len() {
		return nil
	}
	return a.objects.At(n)
}

// next returns the next event, and nil if the handler has heard all. It is the handler's goroutine that
// calls it.
func (a *replay) next() *event {
	o := a.current()
	if o == nil {
		return nil
	}
	a.scratch = event{Type: a.as, Object: o, Initial: a.as == Add}
	return &a.scratch
}

// remaining is how many objects the handler has not heard to the end.
func (a *replay) remaining() int { return a.objects.Len() - int(a.acked.Load()) }
