package controllerruntime

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// joined combines the informers for several namespaces. Each of them calls the handlers, so calls for
// objects in different namespaces may overlap, as they do in controller-runtime.
type joined struct {
	informers []toolscache.SharedIndexInformer
	removed   <-chan struct{}
	*everyone
}

var _ cache.Informer = (*joined)(nil)

func newJoined(informers []toolscache.SharedIndexInformer, removed <-chan struct{}) *joined {
	checkers := make([]toolscache.DoneChecker, len(informers))
	for n, i := range informers {
		checkers[n] = i.HasSyncedChecker()
	}
	return &joined{informers, removed, newEveryone(checkers, removed)}
}

// AddEventHandler adds a handler to each informer.
func (j *joined) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return j.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler to each informer.
func (j *joined) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return j.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler to each informer or, if that fails, to none.
func (j *joined) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, opts toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	r := &registrations{}
	var checkers []toolscache.DoneChecker
	for _, i := range j.informers {
		one, err := i.AddEventHandlerWithOptions(h, opts)
		if err != nil {
			return nil, errors.Join(err, j.RemoveEventHandler(r))
		}
		r.each = append(r.each, one)
		checkers = append(checkers, one.HasSyncedChecker())
	}
	r.everyone = newEveryone(checkers, j.removed)
	return r, nil
}

// RemoveEventHandler removes a handler from each informer. It returns an error if the handler was added
// elsewhere.
func (j *joined) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registrations)
	if !ok {
		return fmt.Errorf("a %T is not a registration of this informer", handle)
	}
	var failures []error
	for n, one := range r.each[:min(len(r.each), len(j.informers))] {
		failures = append(failures, j.informers[n].RemoveEventHandler(one))
	}
	return errors.Join(failures...)
}

// AddIndexers adds indexes to each informer.
func (j *joined) AddIndexers(indexers toolscache.Indexers) error {
	for _, i := range j.informers {
		if err := i.AddIndexers(indexers); err != nil {
			return err
		}
	}
	return nil
}

// IsStopped reports whether all informers have stopped.
func (j *joined) IsStopped() bool {
	for _, i := range j.informers {
		if !i.IsStopped() {
			return false
		}
	}
	return true
}

// registrations are a handler's registrations with the joined informers, in the same order.
type registrations struct {
	each []toolscache.ResourceEventHandlerRegistration
	*everyone
}

// everyone combines several checkers into one.
type everyone struct {
	checkers []toolscache.DoneChecker
	removed  <-chan struct{} // ends the wait
	once     sync.Once
	done     chan struct{}
}

func newEveryone(checkers []toolscache.DoneChecker, removed <-chan struct{}) *everyone {
	return &everyone{checkers: checkers, removed: removed, done: make(chan struct{})}
}

// HasSynced reports whether all have synced.
func (e *everyone) HasSynced() bool {
	for _, c := range e.checkers {
		if !toolscache.IsDone(c) {
			return false
		}
	}
	return true
}

// HasSyncedChecker is like HasSynced, but returns a toolscache.DoneChecker.
func (e *everyone) HasSyncedChecker() toolscache.DoneChecker { return e }

// Name returns the names of all checkers.
func (e *everyone) Name() string {
	names := make([]string, len(e.checkers))
	for n, c := range e.checkers {
		names[n] = c.Name()
	}
	return strings.Join(names, ", ")
}

// Done returns a channel that is closed when all have synced.
func (e *everyone) Done() <-chan struct{} {
	e.once.Do(func() {
		go func() { // waits until the last checker is done, or the kind is removed
			for _, c := range e.checkers {
				select {
				case <-c.Done():
				case <-e.removed:
					if !toolscache.IsDone(c) { // otherwise both happened
						return
					}
				}
			}
			close(e.done)
		}()
	})
	return e.done
}
