package controller

import (
	"context"
	"slices"
	"sync"
	"time"
)

// namespaces holds back requests in namespaces that some source has not listed yet. Normally, a controller
// starts once all of its namespaces have been listed. But listing one may keep failing, because it is
// forbidden or because the namespace was deleted along with its Role, and that must not block the others. A
// request without a namespace may involve all of them, so it is held until every namespace has been listed.
//
// A namespace may also be added while the controller is running. Its requests are held likewise, but requests without a
// namespace go on, unless the controller is sharded.
type namespaces struct {
	core     *core
	requests *requests
	sources  *sourceList
	spawn    func(run func(context.Context)) // starts a task of the session

	awaited []*subscription // sources to wait for; set before the first reconcile

	mu      sync.Mutex                      // guards the fields below
	held    map[string]map[Request]struct{} // by namespace
	running bool                            // run is releasing them
}

// lookAgain is the interval at which held requests are checked.
const lookAgain = time.Second

// mayBegin reports whether every source is synced, apart from namespaces with failing lists.
func (n *namespaces) mayBegin() bool {
	n.awaited = n.sources.all()
	return n.every(func(s *subscription) bool { return s.synced.Load() || s.source.heldUp != nil && s.source.heldUp() })
}

// has reports whether every source has listed the namespace.
func (n *namespaces) has(namespace string) bool {
	return n.every(func(s *subscription) bool {
		switch synced := s.synced.Load(); {
		case s.source.syncedIn == nil, synced && namespace == "":
			return synced
		default: // a source that has synced may have got another namespace since
			return s.source.syncedIn(namespace) || s.source.optional && s.source.unserved(namespace)
		}
	})
}

// every reports whether is returns true for all awaited sources that have not been removed.
func (n *namespaces) every(is func(*subscription) bool) bool {
	there := n.sources.all()
	return !slices.ContainsFunc(n.awaited, func(one *subscription) bool { return !is(one) && slices.Contains(there, one) })
}

// logMissing logs that the controller starts although namespaces are missing.
func (n *namespaces) logMissing() {
	n.core.opts.Logger.Warn("the controller starts without some namespaces, whose requests are held", "controller", n.core.name, "err", n.core.notReady(Waiting, n.sources.waiting()))
}

// run releases held requests until none is left or ctx is done.
func (n *namespaces) run(ctx context.Context) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for done := false; !done; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		done = n.release()
	}
}

// hold holds the request if its namespace is missing, and reports whether it did.
func (n *namespaces) hold(req Request) bool {
	if n.has(req.Namespace) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.has(req.Namespace) {
		return false
	}
	if n.held == nil {
		n.held = make(map[string]map[Request]struct{})
	}
	if n.held[req.Namespace] == nil {
		n.held[req.Namespace] = make(map[Request]struct{})
	}
	n.held[req.Namespace][req] = struct{}{}
	if !n.running {
		n.running = true
		n.spawn(n.run)
	}
	return true
}

// release queues the held requests whose namespaces have been listed since, and reports whether none is left.
func (n *namespaces) release() (done bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for namespace, requests := range n.held {
		if !n.has(namespace) {
			continue
		}
		delete(n.held, namespace)
		for req := range requests {
			n.requests.requeue(req)
		}
	}
	n.running = len(n.held) > 0
	return !n.running
}
