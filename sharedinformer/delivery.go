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
	handler  hearer
	opts     HandlerOptions
	mailbox  mailbox
	wake     chan struct{} // holds one token while there may be something to tell

	// The goroutine's own, but for reads of ahead.
	events []event               // of the mailbox, that are still to be told
	ahead  atomic.Pointer[ahead] // comes before the mailbox; nil for none
	ends   bool                  // the handler is synced after ahead
	exited bool                  // the handler has ended the goroutine
	synced bool                  // OnSync was called
	watch  stopwatch
	track  *flight.Track

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

	awaiting atomic.Int32             // marks of a whole list that it has to pass before it is synced
	hook     atomic.Pointer[hookCall] // that it waits for, nil for none
	others   atomic.Uint64            // calls about anything that was ahead
	panics   atomic.Uint64
	errors   atomic.Uint64
	failure  atomic.Pointer[failure.Failure]
	reports  meter
}

// newDelivery returns a delivery that begins with what join is told.
func newDelivery(i *core, h hearer, opts HandlerOptions) *delivery {
	d := &delivery{
		informer: i, handler: h, opts: opts,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	d.watch.made = time.Now()
	d.awaiting.Store(1)
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
	d.put(objects, Add)
	d.ends = synced
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

// work tells the handler of everything until ctx is done or it is closed. The
// informer's Run starts it and waits for it.
func (d *delivery) work(ctx context.Context) {
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("informer", d.informer.Name(), "handler", d.opts.name())))
	if !d.begin() {
		return
	}
	defer func() {
		d.end()
		if d.exited {
			d.exited = false
			d.informer.again(d)
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
	d.told(d.watch.stop())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = false
	if d.closed.Load() {
		d.forget()
		close(d.ended)
	}
}

// inside reports whether it is called by a call of the handler, or by a hook that the
// handler's goroutine waits for.
func (d *delivery) inside() bool {
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
	d.forget()
	if !d.running {
		close(d.ended)
	}
	return true
}

// forget lets go of all that is held for a closed delivery, but for what a call in
// progress is about: that call may never return. It is called under mu.
func (d *delivery) forget() {
	if !d.running {
		d.events = nil
	}
	d.ahead.Store(nil)
	d.mailbox.clear(d.running)
}

// idle waits until there may be something to tell.
func (d *delivery) idle(ctx context.Context) {
	d.told(d.watch.stop())
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
		d.deliver(ctx, d.take())
		return true
	}
	if a := d.ahead.Load(); a != nil {
		if e := a.next(); e != nil {
			d.deliver(ctx, e)
			return true
		}
	}
	if d.closed.Load() { // which may be why there was nothing ahead
		return false
	}
	if d.ends {
		d.ends = false
		d.sync()
		return true
	}
	events, mark := d.mailbox.next()
	switch {
	case events != nil:
		d.events = events
		d.deliver(ctx, d.take())
	case mark == nil:
		return false
	case mark.synced:
		d.sync()
	default:
		d.put(mark.resync.objects, Resync)
	}
	return true
}

// take returns the next event of what the mailbox gave out. The last one is taken
// without holding the others.
func (d *delivery) take() *event {
	e := &d.events[0]
	if d.events = d.events[1:]; len(d.events) == 0 {
		d.events = nil
	}
	return e
}

// put lets objects be told before everything else.
func (d *delivery) put(objects indexer.View, as EventType) {
	if objects.Len() > 0 {
		d.ahead.Store(&ahead{objects: objects, as: as, since: time.Now()})
	} else if as == Resync {
		d.mailbox.resynced()
	}
}

// heard counts the call that has returned.
func (d *delivery) heard() {
	a := d.ahead.Load()
	if a == nil {
		d.mailbox.heard()
		return
	}
	d.others.Add(1)
	if a.heard.Add(1); a.left() > 0 {
		return
	}
	d.ahead.Store(nil)
	if a.as == Resync {
		d.mailbox.resynced()
	}
}

// sync passes the end of an initial list.
func (d *delivery) sync() {
	d.awaiting.Add(-1)
	d.informer.changed.broadcast()
	if !d.synced && d.opts.OnSync != nil {
		d.synced = true
		if err := d.informer.callHook("OnSync", d, d.opts.OnSync); err != nil {
			f := d.informer.note(&failure.Failure{Phase: failure.PhaseHook, Handler: d.opts.label(), Err: err})
			d.informer.reportOf(context.Background(), d, f)
		}
	}
}

// deliver makes one call and counts it.
func (d *delivery) deliver(ctx context.Context, e *event) {
	d.watch.start()
	mutations := d.informer.mutations
	if mutations != nil {
		mutations.look(e.Object, "")
	}
	panicked, err := d.call(ctx, e)
	if mutations != nil {
		mutations.look(e.Object, d.opts.label())
	}
	d.heard()
	d.recall(e)
	d.told(d.watch.lap())
	if err != nil {
		d.failed(ctx, e, panicked, err)
	}
}

// call turns a panic of the handler into an error.
func (d *delivery) call(ctx context.Context, e *event) (panicked bool, err error) {
	returned := false
	defer func() {
		if !returned {
			panicked, err = d.broke(ctx, e, recover())
		}
	}()
	err = d.handler.hear(ctx, e)
	returned = true
	return false, failure.Sound("handler", err)
}

// broke is what call does where the handler has not returned, but panicked or called
// runtime.Goexit. After that nothing but the deferred calls of work follows.
func (d *delivery) broke(ctx context.Context, e *event, panicked any) (bool, error) {
	if panicked != nil {
		return true, &failure.PanicError{In: "handler", Value: panicked, Stack: debug.Stack()}
	}
	d.heard()
	d.failed(ctx, e, false, fmt.Errorf("%w; the next change is told in another goroutine", &failure.GoexitError{In: "handler"}))
	d.exited = true
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
	if told := d.reports.pass(f); told != nil {
		d.informer.reportOf(ctx, d, told)
	}
	if p, ok := errors.AsType[*failure.PanicError](err); ok && panicked && d.opts.CrashOnPanic {
		d.informer.flight.Crashing()
		panic(fmt.Sprintf("%s\n%s", f.Error(), p.Stack))
	}
}

// telling returns the object that the call in progress is about, and since when it has
// been waiting to be told; zero where that is not known.
func (d *delivery) telling() (o object.Head, since time.Time, ok bool) {
	if !d.watch.on() {
		return o, since, false
	}
	if a := d.ahead.Load(); a != nil {
		o := a.object()
		return o, a.since, o != nil
	}
	if e := d.mailbox.telling(); e != nil {
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
