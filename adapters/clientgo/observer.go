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

// Observer tells how client-go's own informers are doing, in Millrace's terms
// and as far as that can be seen from outside. It is a metrics.InformerSource,
// which manager.Manager.AddInformers takes. The zero Observer has none to tell of.
type Observer struct {
	mu  sync.Mutex // guards all; nothing is called while it is held
	all []*Observed
}

// Status returns the status of every informer, in the order in which they were
// added. Objects counts the keys of the store, for which client-go copies them:
// ask now and then, not always.
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

// Observe adds an informer, under a name such as "pods". The informer gets a
// handler that counts changes and one of watch errors, which passes them on to
// onWatchError, or to cache.DefaultWatchErrorHandler where that is nil: client-go
// has place for one only, the last one that is set, and does not tell which it
// has. It takes none when it runs, and then the status says that failures cannot
// be seen. Observe fails where the informer has stopped.
//
// client-go tells that handler of lists that fail and of watches that the server
// refuses. A watch that breaks, or that nobody answers, it does not tell of.
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

// Observed is one of client-go's informers.
type Observed struct {
	name     string
	informer cache.SharedIndexInformer
	since    time.Time
	changes  counter
	blind    *failure.Failure // says that failures cannot be seen; nil where they can

	mu       sync.Mutex // guards all below; nothing is called while it is held
	failures uint64
	failure  *failure.Failure // the last one
	failedAt string           // the informer's version then
	handlers []*observedHandler
}

// failed notes that listing or watching failed.
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

// Status returns the informer as it is now. That a failure is over is seen by
// the next change or bookmark. The state is Watching once it has synced,
// BackingOff while it fails, Listing before. Where failures cannot be seen, Failure
// says so, and Watching means no more than synced.
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

// present are the handlers that were not removed. Those of an informer that has
// stopped stay.
func (i *Observed) present() []*observedHandler {
	i.mu.Lock()
	handlers := slices.Clone(i.handlers)
	i.mu.Unlock()
	if !slices.ContainsFunc(handlers, (*observedHandler).left) || i.informer.IsStopped() { // in this order: a stop ends all
		return handlers
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, (*observedHandler).left)
	return slices.Clone(i.handlers)
}

// AddEventHandler adds a handler to the informer, with a clock around it: its
// lag, its calls and the longest of them are part of the status, until it is
// removed from the informer and its last call has returned. Pending may be off
// by what changed while a running informer took the handler, and Behind is how
// long the call in progress has taken.
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
	i.present() // lets go of those that were removed, where nobody asks for the status
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, o)
	return registration, nil
}

// counter is a handler that counts changes, and the objects of the initial list.
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

// isResync reports whether an update is none.
func isResync(old, o any) bool {
	before, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	after, err := meta.Accessor(o)
	return err == nil && before.GetResourceVersion() == after.GetResourceVersion()
}

// observedHandler is a handler with a clock around it.
type observedHandler struct {
	next          cache.ResourceEventHandler
	name, place   string
	joined, found uint64 // changes before it joined, and objects that were there then
	registration  atomic.Pointer[cache.ResourceEventHandlerRegistration]
	ended         <-chan struct{} // closed when it is not called any more; nil where that is not told

	changes   counter       // that it has heard
	delivered atomic.Uint64 // calls that have returned
	panics    atomic.Uint64
	began     atomic.Int64 // the call in progress, in ns since 1970; 0 while idle
	slowest   atomic.Int64 // ns
}

// OnAdd implements cache.ResourceEventHandler.
func (h *observedHandler) OnAdd(o any, initial bool) {
	h.time(func() { h.next.OnAdd(o, initial) })
	h.changes.OnAdd(o, initial)
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *observedHandler) OnUpdate(old, o any) {
	h.time(func() { h.next.OnUpdate(old, o) })
	h.changes.OnUpdate(old, o)
}

// OnDelete implements cache.ResourceEventHandler.
func (h *observedHandler) OnDelete(o any) {
	h.time(func() { h.next.OnDelete(o) })
	h.changes.OnDelete(o)
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

// left reports whether the handler is not called any more.
func (h *observedHandler) left() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// status compares what the handler has heard with what all have.
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

// missing is what there is to hear and was not heard.
func missing(all, heard uint64) int { return int(max(all, heard) - heard) }
