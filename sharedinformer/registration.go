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

// ErrClosed: the registration was closed.
var ErrClosed = errors.New("the registration was closed")

// Registration is one handler on one informer. Its methods may be called from any
// goroutine.
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

// Name is what messages call the handler.
func (r *Registration) Name() string { return r.of.Name() }

// String gives name and place.
func (r *Registration) String() string { return r.of.String() }

// HasSynced reports whether the handler's last initial Add has returned (L18).
func (r *Registration) HasSynced() bool { return r.of.HasSynced() }

// WaitForSync waits for HasSynced. It fails with the cause of ctx, with
// ErrStopped, and with ErrClosed, and says what it was waiting for.
func (r *Registration) WaitForSync(ctx context.Context) error { return r.of.WaitForSync(ctx) }

// Close takes the handler off the informer and returns at once. Nothing more
// is told to it, but a call may be in progress, which CloseAndWait waits for.
// It may be called more than once, from inside the handler, and at any time of
// the informer's life (L07).
func (r *Registration) Close() { r.of.Close() }

// CloseAndWait closes and waits for the call in progress, unless it is called
// by that very call, or by OnSync or OnError about it. It fails only with the cause of
// ctx.
func (r *Registration) CloseAndWait(ctx context.Context) error { return r.of.CloseAndWait(ctx) }

// Status returns the registration as it is now.
func (r *Registration) Status() HandlerStatus { return r.of.Status() }

// Name is that of a Registration, as are the methods that follow.
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
		case <-d.ended: // both may be so
			return nil
		default:
		}
		return fmt.Errorf("%s: %s: waiting for the call in progress: %w", d.informer.Name(), d, context.Cause(ctx))
	}
}

// addHandler adds a handler, for which packed objects are opened unless it is one of heads.
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

// addDelivery makes a new delivery one of the handlers at one point of the log, with the
// cache as it is at that point.
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

// removeDelivery takes d off the list. It does not wait for join, under which an index function may
// block: what is offered to d meanwhile is dropped.
func (i *core) removeDelivery(d *delivery) {
	i.mu.Lock()
	defer i.mu.Unlock()
	handlers := slices.DeleteFunc(slices.Clone(*i.handlers.Load()), func(h *delivery) bool { return h == d })
	i.handlers.Store(&handlers)
}

// HandlerStatus is one registration seen from outside.
type HandlerStatus struct {
	Name   string
	Place  string // file:line of AddHandler, or HandlerOptions.Place
	Lag    Lag
	Synced bool

	Pending int           // events that it has not heard to the end; growth means that it is slower than the changes
	Behind  time.Duration // age of the event that it is being told of, or of the call in progress if that is older; 0 when it has heard all

	Key  object.Key    // of the object that the call in progress is about; zero if there is none
	Busy time.Duration // how long that call takes already; of quick calls, how long some of them together

	Delivered uint64 // calls that have returned
	Coalesced uint64 // events that it did not need to hear, with Lag Coalesce
	Panics    uint64 // calls that panicked
	Errors    uint64 // calls that returned an error

	Slowest time.Duration    // the longest call, that in progress included; quick ones are measured by the dozen, so that it may be off by a millisecond
	Failure *failure.Failure // the last panic or error
}

// Status is that of a Registration.
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
