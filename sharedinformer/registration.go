package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// ErrClosed is returned by Registration.WaitForSync if the registration was closed.
var ErrClosed = errors.New("the registration was closed")

// Registration is one handler registered on one informer. Its methods are safe for concurrent use.
type Registration struct {
	of interface {
		Name() string
		String() string
		HasSynced() bool
		WaitForSync(context.Context) error
		Close()
		CloseAndWait(context.Context) error
		Status() HandlerStatus
	}
}

// Name returns the handler's name as used in messages.
func (r *Registration) Name() string { return r.of.Name() }

// String returns the handler's name and place.
func (r *Registration) String() string { return r.of.String() }

// HasSynced reports whether the handler has returned from its last initial Add (L18).
func (r *Registration) HasSynced() bool { return r.of.HasSynced() }

// WaitForSync waits until HasSynced returns true. It fails with ErrClosed if the registration is closed, and
// otherwise like [Informer.WaitForSync], including Options.SyncPatience; the error describes what the handler
// was waiting for.
func (r *Registration) WaitForSync(ctx context.Context) error { return r.of.WaitForSync(ctx) }

// Close removes the handler from the informer and returns immediately. No new calls start, but one may still
// be in progress; use CloseAndWait to wait for it. Close may be called repeatedly, from inside the handler,
// and before, during and after Run (L07).
func (r *Registration) Close() { r.of.Close() }

// CloseAndWait closes the registration and waits for the call in progress, unless it is called from inside
// that call, or from the handler's OnSync or OnError. The only possible error is ctx's cause.
func (r *Registration) CloseAndWait(ctx context.Context) error { return r.of.CloseAndWait(ctx) }

// Status returns the current state of the registration.
func (r *Registration) Status() HandlerStatus { return r.of.Status() }

// Name and the methods below implement Registration.
func (d *delivery) Name() string { return d.opts.name() }

func (d *delivery) String() string { return d.opts.label() }

func (d *delivery) HasSynced() bool { return d.pendingSyncs.Load() == 0 }

func (d *delivery) WaitForSync(ctx context.Context) error {
	i := d.informer
	return i.waitUntil(ctx, wait{
		reached: func() (bool, error) {
			if d.closed.Load() {
				return false, ErrClosed
			}
			return d.HasSynced(), nil
		},
		waiting:  func() error { return i.unsynced(d) },
		patience: func() (time.Duration, bool) { return i.patienceWith(d) },
	})
}

func (d *delivery) Close() {
	if !d.close() {
		return
	}
	d.informer.removeDelivery(d)
	d.informer.changed.broadcast()
}

func (d *delivery) CloseAndWait(ctx context.Context) error {
	d.Close()
	if d.calledByHandler() {
		return nil
	}
	select {
	case <-d.ended:
		return nil
	case <-ctx.Done():
		select {
		case <-d.ended: // both channels may be ready
			return nil
		default:
		}
		return fmt.Errorf("%s: %s: waiting for the call in progress: %w", d.informer.Name(), d, context.Cause(ctx))
	}
}

// addHandler adds a handler. Packed objects are opened for it unless it is a head handler.
func (i *core) addHandler(h untypedHandler, opts HandlerOptions) *Registration {
	_, heads := h.(headHandler)
	switch {
	case h == nil:
		panic(fmt.Sprintf("%s: the handler added to %s is nil", opts.Place, i.Name()))
	case i.packing != nil && !heads:
		h = &opener{next: h, withoutOld: opts.WithoutOld}
	case opts.WithoutOld:
		h = &oldDropper{next: h}
	}
	return &Registration{of: i.addDelivery(h, opts)}
}

// addDelivery adds a delivery that starts at the current end of the log, with the objects cached at that
// point.
func (i *core) addDelivery(h untypedHandler, opts HandlerOptions) *delivery {
	d := newDelivery(i, h, opts)
	i.join.Lock()
	defer i.join.Unlock()
	objects, _ := i.cache.Snapshot()
	d.join(i.log, objects, i.synced.Load())
	i.mu.Lock()
	defer i.mu.Unlock()
	handlers := append(slices.Clone(*i.handlers.Load()), d)
	i.handlers.Store(&handlers)
	if opts.Resync > 0 {
		d.nextResync = time.Now().Add(opts.Resync)
		i.wakeResync()
	}
	i.startDelivery(d)
	return d
}

// removeDelivery removes d from the list. It does not lock join, because an index function may block while
// join is held; d drops any events it is still offered.
func (i *core) removeDelivery(d *delivery) {
	i.mu.Lock()
	defer i.mu.Unlock()
	handlers := slices.DeleteFunc(slices.Clone(*i.handlers.Load()), func(h *delivery) bool { return h == d })
	i.handlers.Store(&handlers)
}

// HandlerStatus is the state of one registration.
type HandlerStatus struct {
	Name   string
	Place  string // file:line of AddHandler, or HandlerOptions.Place
	Lag    Lag
	Synced bool

	Pending int           // events not delivered yet; if this keeps growing, the handler is too slow
	Behind  time.Duration // age of the event being delivered, or of the call in progress if older; 0 if the handler has caught up

	Key  object.Key    // the object being handled; zero if none
	Busy time.Duration // duration of the call in progress; fast calls are measured in groups

	Delivered uint64 // calls completed
	Coalesced uint64 // events eliminated by merging (Lag Coalesce)
	Panics    uint64 // calls that panicked
	Errors    uint64 // calls that returned an error or called runtime.Goexit

	Slowest time.Duration    // the longest call, including the one in progress; fast calls are measured in groups, so this may be off by a millisecond
	Failure *failure.Failure // the last panic or error
}

func (d *delivery) Status() HandlerStatus {
	load := d.mailbox.stats()
	s := HandlerStatus{
		Name: d.Name(), Place: d.opts.Place, Lag: d.opts.Lag, Synced: d.HasSynced(),
		Pending: load.pending, Delivered: load.delivered + d.replayed.Load(), Coalesced: load.merged,
		Panics: d.panics.Load(), Errors: d.errors.Load(),
		Slowest: max(d.watch.longest(), d.watch.running()), Failure: d.failure.Load(),
	}
	if a := d.replay.Load(); a != nil {
		s.Pending += a.remaining()
	}
	if o, since, ok := d.current(); ok {
		s.Key, s.Busy = object.KeyOf(o), d.watch.running()
		if s.Behind = s.Busy; !since.IsZero() {
			s.Behind = max(s.Behind, time.Since(since))
		}
	}
	return s
}
