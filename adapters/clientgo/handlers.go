package clientgo

import (
	"context"
	"fmt"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// MoveHandler is a cache.ResourceEventHandler that is also notified when an object moves to another
// process (see [ResourceOptions].Shard). The informer then calls OnMoved instead of OnDelete, with the
// last state known to this process. A handler that keeps state for the object should then release it.
// Moves are not reported to any other handler, nor to a MoveHandler wrapped in another handler, such
// as a cache.FilteringResourceEventHandler. client-go wraps every cache.TypedResourceEventHandler.
type MoveHandler interface {
	cache.ResourceEventHandler
	OnMoved(obj any)
}

// AddEventHandler implements cache.SharedInformer.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &resync})
}

// minimumResync is the minimum resync period of a handler, as in client-go.
const minimumResync = time.Second

// AddEventHandlerWithOptions adds a handler. It may be called at any time until the informer stops.
// Resyncs work as in client-go: if the informer has no resync period, there are none; otherwise a
// handler's period is rounded up to a multiple of the shortest period requested before the informer
// started.
func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, opts cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	r, running, err := i.register(h, opts, caller())
	if err != nil {
		return nil, err
	}
	if running == nil {
		return r, nil
	}
	inner := i.join(running, r) // without i.mu: it waits for an index function that blocks
	i.mu.Lock()
	defer i.mu.Unlock()
	if r.inner = inner; i.stopped.has() {
		inner.Close()
	}
	return r, nil
}

// register records a handler. It returns the running informer, which the handler must join, or nil if begin will
// do that.
func (i *informer) register(h cache.ResourceEventHandler, opts cache.HandlerOptions, place string) (*registration, *sharedinformer.Informer[object.Object], error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped.has() {
		return nil, nil, fmt.Errorf("handler %T was not added to the informer of %s: it has stopped already", h, i.name)
	}
	r := &registration{
		informer: i, handler: h, place: place, logger: opts.Logger, ended: make(chan struct{}),
		synced: newDone(i.synced.Name() + " + event handler " + place),
		resync: ptr.Deref(opts.ResyncPeriod, i.resync),
	}
	if r.resync > 0 && r.resync < minimumResync {
		ptr.Deref(opts.Logger, klog.Background()).Info("A handler requests more frequent resyncs than supported", "informer", i.name, "asked", r.resync, "made", minimumResync)
		r.resync = minimumResync
	}
	i.handlers[r] = struct{}{}
	if running := i.inner(); running != nil {
		return r, running, nil
	}
	if r.resync > 0 && r.resync < i.check {
		i.check = r.resync
	}
	i.order = append(i.order, r)
	return r, nil, nil
}

// join adds r to the running informer.
func (i *informer) join(running *sharedinformer.Informer[object.Object], r *registration) *sharedinformer.Registration {
	return running.AddHandlerWith(r, sharedinformer.HandlerOptions{
		Place: r.place, Resync: i.period(r.resync), CrashOnPanic: utilruntime.ReallyCrash,
		OnSync: func() {
			i.synced.happened()
			r.synced.happened()
		},
	})
}

// period returns a handler's effective resync period.
func (i *informer) period(resync time.Duration) time.Duration {
	if resync <= 0 || i.check <= 0 {
		return 0
	}
	return (resync + i.check - 1) / i.check * i.check
}

// RemoveEventHandler removes a handler from the informer. A call in progress may continue; ShutdownChan
// is closed once it has returned. Removing a handler again does nothing.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("invalid key type %T", handle)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, mine := i.handlers[r]; !mine {
		return nil
	}
	delete(i.handlers, r)
	if r.inner == nil {
		r.finished()
	} else {
		r.inner.Close()
		i.leaving.Go(func() { // waits for the call in progress, which may be the one that called RemoveEventHandler
			_ = r.inner.CloseAndWait(context.Background())
			r.finished()
		})
	}
	return nil
}
