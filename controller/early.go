package controller

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// early holds the requests of namespaces that a source does not have yet, when the controller has
// begun in the others. A controller begins with all of its namespaces, unless the lists of some
// fail: one that is forbidden, or was deleted with its Role, must not keep it from the rest. A
// request without a namespace may be about all of them, and is held until each is there.
type early struct {
	sources []*subscription // those that are waited for; set before the first reconcile
	on      atomic.Bool     // a namespace may be missing

	mu   sync.Mutex                      // guards held
	held map[string]map[Request]struct{} // by namespace
}

// lookAgain is how often held requests are looked at.
const lookAgain = time.Second

// mayBegin reports whether every source is synced, or is kept from it by namespaces that fail.
func (s *session) mayBegin() bool {
	s.early.sources = s.controller.subscriptions()
	return s.every(func(s *subscription) bool { return s.synced.Load() || s.source.heldUp != nil && s.source.heldUp() })
}

// has reports whether every source has a namespace.
func (s *session) has(namespace string) bool {
	return s.every(func(s *subscription) bool {
		return s.synced.Load() || s.source.syncedIn != nil && s.source.syncedIn(namespace)
	})
}

// every reports whether all sources are so that are waited for and were not removed.
func (s *session) every(is func(*subscription) bool) bool {
	there := s.controller.subscriptions()
	return !slices.ContainsFunc(s.early.sources, func(one *subscription) bool { return !is(one) && slices.Contains(there, one) })
}

func (c *Controller) subscriptions() []*subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sources)
}

// beginEarly has the requests of missing namespaces held until the sources have them.
func (s *session) beginEarly() {
	c := s.controller
	c.opts.Logger.Warn("the controller begins without some namespaces, whose requests wait", "controller", c.name, "err", c.Ready())
	s.early.held = make(map[string]map[Request]struct{})
	s.early.on.Store(true)
	s.tasks.Go(func() {
		ticker := time.NewTicker(lookAgain)
		defer ticker.Stop()
		for done := false; !done; {
			select {
			case <-ticker.C:
			case <-s.ctx.Done():
				return
			}
			done = s.every(func(s *subscription) bool { return s.synced.Load() })
			s.release(done)
		}
	})
}

// hold reports whether a request is too early, and keeps it until it is not.
func (s *session) hold(req Request) bool {
	e := &s.early
	if !e.on.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.on.Load() || s.has(req.Namespace) {
		return false
	}
	if e.held[req.Namespace] == nil {
		e.held[req.Namespace] = make(map[Request]struct{})
	}
	e.held[req.Namespace][req] = struct{}{}
	return true
}

// release adds the requests of namespaces that the sources have by now. With all, it is the end.
func (s *session) release(all bool) {
	e := &s.early
	e.mu.Lock()
	defer e.mu.Unlock()
	for namespace, requests := range e.held {
		if !all && !s.has(namespace) {
			continue
		}
		delete(e.held, namespace)
		for req := range requests {
			s.again(req)
		}
	}
	if all {
		e.on.Store(false)
	}
}
