package clientgo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Observer reports the state of client-go's own informers as Millrace statuses, as far as it is visible from
// the outside. It is a metrics.InformerSource, which manager.Manager.AddInformers accepts. The zero Observer
// observes no informers.
type Observer struct {
	mu  sync.Mutex // guards all; not held during calls
	all []*Observed
}

// Status returns the status of every informer, in the order in which they were added. Counting objects makes
// client-go copy all keys in the store, so do not call Status too often.
func (o *Observer) Status() []sharedinformer.Status {
	o.mu.Lock()
	all := slices.Clone(o.all)
	o.mu.Unlock()
	statuses := make([]sharedinformer.Status, len(all))
	for n, i := range all {
		statuses[n] = i.Status()
	}
	return statuses
}

// Observe adds an informer under a name such as "pods". It adds a handler that counts changes, and sets
// a watch error handler that calls onWatchError, or cache.DefaultWatchErrorHandler if that is nil.
// client-go keeps only the last watch error handler that was set, and does not expose it. A running informer
// rejects a new handler; in that case its status reports that failures are not visible. Observe returns an
// error if the informer has stopped.
//
// client-go calls that handler if a list fails or the server rejects a watch, but not if a watch breaks or
// gets no response.
func (o *Observer) Observe(name string, informer cache.SharedIndexInformer, onWatchError cache.WatchErrorHandlerWithContext) (*Observed, error) {
	if onWatchError == nil {
		onWatchError = cache.DefaultWatchErrorHandler
	}
	i := &Observed{name: name, informer: informer, since: time.Now()}
	if _, err := informer.AddEventHandlerWithResyncPeriod(&i.changes, 0); err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		i.failed(err)
		onWatchError(ctx, r, err)
	}); err != nil {
		i.blind = &failure.Failure{Resource: name, Phase: failure.PhaseOptions, Err: fmt.Errorf("failures to list and watch cannot be seen; observe the informer before it runs: %w", err)}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, i)
	return i, nil
}

// Observed is one of client-go's own informers.
type Observed struct {
	name     string
	informer cache.SharedIndexInformer
	since    time.Time
	changes  counter
	blind    *failure.Failure // reports that failures are not visible; nil if they are

	mu       sync.Mutex // guards the fields below; not held during calls
	failures uint64
	failure  *failure.Failure // the last one
	failedAt string           // the informer's version at that time
	handlers []*observedHandler
}

// failed records a failure to list or watch.
func (i *Observed) failed(err error) {
	version, now := i.informer.LastSyncResourceVersion(), time.Now()
	phase := failure.PhaseWatch
	if !i.informer.HasSynced() {
		phase = failure.PhaseList
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	f := &failure.Failure{Resource: i.name, Phase: phase, Err: err, Attempts: 1, Since: now, Last: now}
	if i.failure != nil && i.failedAt == version {
		f.Attempts, f.Since = i.failure.Attempts+1, i.failure.Since
	}
	i.failures++
	i.failure, i.failedAt = f, version
}

// Status returns the current status. A recovery from a failure does not show up until the next change or
// bookmark. The state is Listing before the first sync, then Watching, and BackingOff during a failure. If
// failures are not visible, Failure says so, and Watching merely means that the informer has synced.
func (i *Observed) Status() sharedinformer.Status {
	version, synced := i.informer.LastSyncResourceVersion(), i.informer.HasSynced()
	s := sharedinformer.Status{
		Reflector: reflector.Status{Resource: i.name, RV: version, State: reflector.Listing, Since: i.since, Events: i.changes.initial.Load() + i.changes.live.Load()},
		Synced:    synced, RV: version, Objects: len(i.informer.GetStore().ListKeys()), Failure: i.blind,
	}
	handlers := i.present()
	i.mu.Lock()
	s.Reflector.Failures, s.Reflector.Failure = i.failures, i.failure
	if i.failure != nil && i.failedAt == version {
		s.Reflector.Attempts = i.failure.Attempts
	}
	i.mu.Unlock()
	switch {
	case i.informer.IsStopped():
		s.Reflector.State = reflector.Stopped
	case s.Reflector.Attempts > 0:
		s.Reflector.State, s.Reflector.Since = reflector.BackingOff, s.Reflector.Failure.Last
	case synced:
		s.Reflector.State = reflector.Watching
	}
	for _, h := range handlers {
		s.Handlers = append(s.Handlers, h.status(&i.changes))
	}
	return s
}

// present returns the handlers that were not removed. It keeps a stopped informer's handlers.
func (i *Observed) present() []*observedHandler {
	i.mu.Lock()
	handlers := slices.Clone(i.handlers)
	i.mu.Unlock()
	if !slices.ContainsFunc(handlers, (*observedHandler).left) || i.informer.IsStopped() { // check in this order, because stopping removes all handlers
		return handlers
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, (*observedHandler).left)
	return slices.Clone(i.handlers)
}

// AddEventHandler adds a handler to the informer and measures its calls. The status includes the handler's
// lag, the number of calls and the longest call, until the handler has been removed and its last call has
// returned. If the handler is added to a running informer, Pending may be off by the number of changes that
// occur in the meantime. Behind is the duration of the call in progress.
func (i *Observed) AddEventHandler(name string, h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	o := &observedHandler{next: h, name: name, place: caller()}
	o.joined, o.found = i.changes.live.Load(), uint64(len(i.informer.GetStore().ListKeys()))
	registration, err := i.informer.AddEventHandler(o)
	if err != nil {
		return nil, err
	}
	o.registration.Store(&registration)
	if r, ok := registration.(interface{ ShutdownChan() <-chan struct{} }); ok {
		o.ended = r.ShutdownChan()
	}
	i.present() // drop removed handlers even if Status is never called
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, o)
	return registration, nil
}

// counter is a handler that counts changes and, separately, the objects in the initial list.
type counter struct{ initial, live atomic.Uint64 }

func (c *counter) OnAdd(_ any, initial bool) {
	if initial {
		c.initial.Add(1)
	} else {
		c.live.Add(1)
	}
}

func (c *counter) OnUpdate(old, o any) {
	if !isResync(old, o) {
		c.live.Add(1)
	}
}

func (c *counter) OnDelete(any) { c.live.Add(1) }

// isResync reports whether an update changes nothing.
func isResync(old, o any) bool {
	before, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	after, err := meta.Accessor(o)
	return err == nil && before.GetResourceVersion() == after.GetResourceVersion()
}

// observedHandler is a handler whose calls are measured.
type observedHandler struct {
	next          cache.ResourceEventHandler
	name, place   string
	joined, found uint64 // changes before the handler was added, and objects at that time
	registration  atomic.Pointer[cache.ResourceEventHandlerRegistration]
	ended         <-chan struct{} // closed after its last call; nil if client-go does not provide it

	changes   counter       // received
	delivered atomic.Uint64 // calls that have returned
	panics    atomic.Uint64
	began     atomic.Int64 // when the call in progress began, in Unix ns; 0 if idle
	slowest   atomic.Int64 // in ns
}

// OnAdd implements cache.ResourceEventHandler.
func (h *observedHandler) OnAdd(o any, initial bool) {
	defer h.changes.OnAdd(o, initial)
	h.time(func() { h.next.OnAdd(o, initial) })
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *observedHandler) OnUpdate(old, o any) {
	defer h.changes.OnUpdate(old, o)
	h.time(func() { h.next.OnUpdate(old, o) })
}

// OnDelete implements cache.ResourceEventHandler.
func (h *observedHandler) OnDelete(o any) {
	defer h.changes.OnDelete(o)
	h.time(func() { h.next.OnDelete(o) })
}

func (h *observedHandler) time(call func()) {
	began := time.Now()
	h.began.Store(began.UnixNano())
	returned := false
	defer func() {
		h.began.Store(0)
		h.delivered.Add(1)
		if !returned {
			h.panics.Add(1)
		}
		if took := int64(time.Since(began)); took > h.slowest.Load() {
			h.slowest.Store(took)
		}
	}()
	call()
	returned = true
}

// left reports whether the handler's last call has returned.
func (h *observedHandler) left() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// status compares the changes that the handler has received with all changes.
func (h *observedHandler) status(all *counter) sharedinformer.HandlerStatus {
	s := sharedinformer.HandlerStatus{
		Name: h.name, Place: h.place, Delivered: h.delivered.Load(), Panics: h.panics.Load(),
		Slowest: time.Duration(h.slowest.Load()),
		Pending: missing(all.live.Load()-h.joined, h.changes.live.Load()),
	}
	if r := h.registration.Load(); r != nil {
		s.Synced = (*r).HasSynced()
	}
	if !s.Synced {
		s.Pending += missing(max(all.initial.Load(), h.found), h.changes.initial.Load())
	}
	if began := h.began.Load(); began > 0 {
		s.Behind = time.Since(time.Unix(0, began))
	}
	return s
}

// missing returns the number of changes not yet received.
func missing(all, heard uint64) int { return int(max(all, heard) - heard) }
