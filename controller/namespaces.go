package controller

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// namespaces holds the requests of namespaces that a source does not have yet, when the controller has
// begun in the others. A controller begins with all of its namespaces, unless the lists of some
// fail: one that is forbidden, or was deleted with its Role, must not keep it from the rest. A
// request without a namespace may be about all of them, and is held until each is there.
type namespaces struct {
	core     *core
	requests *requests
	sources  *sourceList

	awaited []*subscription // the sources that are waited for; set before the first reconcile
	missing atomic.Bool     // a namespace may be missing

	mu   sync.Mutex                      // guards held
	held map[string]map[Request]struct{} // by namespace
}

// lookAgain is how often held requests are looked at.
const lookAgain = time.Second

// mayBegin reports whether every source is synced, or is kept from it by namespaces that fail.
func (n *namespaces) mayBegin() bool {
	n.awaited = n.sources.all()
	return n.every(func(s *subscription) bool { return s.synced.Load() || s.source.heldUp != nil && s.source.heldUp() })
}

// has reports whether every source has a namespace.
func (n *namespaces) has(namespace string) bool {
	return n.every(func(s *subscription) bool {
		return s.synced.Load() || s.source.syncedIn != nil && s.source.syncedIn(namespace)
	})
}

// every reports whether all sources are so that are waited for and were not removed.
func (n *namespaces) every(is func(*subscription) bool) bool {
	there := n.sources.all()
	return !slices.ContainsFunc(n.awaited, func(one *subscription) bool { return !is(one) && slices.Contains(there, one) })
}

// begin has the requests of missing namespaces held until the sources have them.
func (n *namespaces) begin() {
	n.core.opts.Logger.Warn("the controller begins without some namespaces, whose requests wait", "controller", n.core.name, "err", n.core.notReady(Waiting, n.sources.waiting()))
	n.held = make(map[string]map[Request]struct{})
	n.missing.Store(true)
}

// run releases held requests until none can be held any more, or ctx is done.
func (n *namespaces) run(ctx context.Context) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for done := false; !done; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		done = n.every(func(s *subscription) bool { return s.synced.Load() })
		n.release(done)
	}
}

// hold reports whether a request is too early, and keeps it until it is not.
func (n *namespaces) hold(req Request) bool {
	if !n.missing.Load() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.missing.Load() || n.has(req.Namespace) {
		return false
	}
	if n.held[req.Namespace] == nil {
		n.held[req.Namespace] = make(map[Request]struct{})
	}
	n.held[req.Namespace][req] = struct{}{}
	return true
}

// release adds the requests of namespaces that the sources have by now. With all, it is the end.
func (n *namespaces) release(all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for namespace, requests := range n.held {
		if !all && !n.has(namespace) {
			continue
		}
		delete(n.held, namespace)
		for req := range requests {
			n.requests.requeue(req)
		}
	}
	if all {
		n.missing.Store(false)
	}
}
