package apiservertest

import (
	"cmp"
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/object"
)

// view is the state of a server's watch cache. The cluster's mutex guards it.
//
// Changes become visible immediately, or after the lag. This takes no background work: readers compute
// which changes are visible by now, and waiters compute when to check again.
type view struct {
	lag    time.Duration
	stuck  bool
	seen   uint64 // all changes up to this version are visible; see advance
	floor  uint64 // version at which the cache started; it has no earlier changes
	window int    // number of changes kept per resource; 0 means all that the cluster keeps
	epoch  int    // number of restarts; watches from an earlier epoch end
}

func (v *view) behind() bool { return v.lag > 0 || v.stuck }

// advance updates seen and returns the time at which more changes become visible, or zero if none is
// scheduled. The caller must hold the mutex.
func (s *Server) advance() (next time.Time) {
	v := &s.view
	switch {
	case v.stuck:
		return time.Time{}
	case v.lag == 0:
		v.seen = s.rv
		return time.Time{}
	}
	until := time.Now().Add(-v.lag)
	at, _ := slices.BinarySearchFunc(s.stamps, until, func(st stamp, until time.Time) int {
		if st.at.After(until) {
			return 1
		}
		return -1
	})
	if at > 0 {
		v.seen = max(v.seen, s.stamps[at-1].rv)
	}
	if at == len(s.stamps) {
		v.seen = s.rv
		return time.Time{}
	}
	return s.stamps[at].at.Add(v.lag)
}

// beginView restarts the cache with the current state. The caller must hold the mutex.
func (s *Server) beginView() {
	s.view.seen, s.view.floor = s.rv, s.rv
	s.view.epoch++
}

// hold sets the number of changes that the cache keeps. The caller must hold the mutex.
func (s *Server) hold(history int) {
	s.view.window = history
	s.history = max(s.history, history)
}

// floorOf returns the oldest version from which a watch of c may start. The caller must hold the mutex and
// have called advance.
func (s *Server) floorOf(c *collection) uint64 {
	floor, seen := max(c.floor, s.view.floor), s.seenOf(c)
	if known := c.position(seen) - c.base; s.view.window > 0 && known > s.view.window {
		floor = max(floor, c.log[known-s.view.window-1].rv)
	}
	return min(floor, seen)
}

// seenOf returns the version of c visible in the cache. No matter how far a server lags, its cache for
// a new resource starts with the content of etcd. The caller must hold the mutex and have called advance.
func (s *Server) seenOf(c *collection) uint64 { return max(s.view.seen, c.born) }

// list returns the versions of c visible in the cache, sorted by path, starting at start. The caller must
// hold the mutex and has called advance.
func (s *Server) list(c *collection, start, prefix string) []*version {
	if seen := s.seenOf(c); seen < c.last {
		return c.past(seen, start, prefix)
	}
	return c.now(start, prefix)
}

// shown returns the state of a key visible in the cache. The caller must hold the mutex.
func (s *Server) shown(c *collection, key object.Key) (*version, error) {
	if c.gone {
		return nil, notServed()
	}
	s.advance()
	path := c.pathOf(key)
	for _, v := range s.list(c, path, path) {
		if v.path == path {
			return v, nil
		}
	}
	return nil, apierrors.NewNotFound(c.GroupResource(), key.Name)
}

// SetLag sets the delay after which the server's watch cache sees a change; 0 means immediately. Changes
// that are already visible remain visible.
func (s *Server) SetLag(lag time.Duration) {
	s.changeView(func(v *view) { v.lag = lag })
}

// SetStuck freezes or unfreezes the server's watch cache. Unfreezing makes all changes visible, except
// those that the lag still delays.
func (s *Server) SetStuck(stuck bool) {
	s.changeView(func(v *view) { v.stuck = stuck })
}

func (s *Server) changeView(change func(*view)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	change(&s.view)
	s.advance()
	s.wake()
}

// Seen returns the resource version that the server's watch cache has reached. It equals [Server.RV] unless
// the cache lags.
func (s *Server) Seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return formatRV(s.view.seen)
}

// waitSeen waits at most FreshnessWait for the watch cache to reach rv, and returns the version reached.
func (c *call) waitSeen(rv uint64) (uint64, error) {
	s := c.server
	var timer *time.Timer
	deadline := time.Now().Add(s.opts.FreshnessWait)
	for {
		s.mu.Lock()
		next := s.advance()
		seen, advanced := s.seenOf(c.coll), s.advanced
		s.mu.Unlock()
		now := time.Now()
		if seen >= rv || !now.Before(deadline) {
			return seen, nil
		}
		if next.IsZero() || next.After(deadline) {
			next = deadline
		}
		if timer == nil {
			timer = time.NewTimer(next.Sub(now))
			defer timer.Stop()
		} else {
			timer.Reset(next.Sub(now))
		}
		select {
		case <-advanced:
		case <-timer.C:
		case <-c.ctx.Done():
			return seen, context.Cause(c.ctx)
		}
	}
}

// waitFresh waits until the watch cache has reached rv. It fails if waitSeen times out.
func (c *call) waitFresh(rv uint64) error {
	seen, err := c.waitSeen(rv)
	if err == nil && seen < rv {
		return tooLarge(rv, seen)
	}
	return err
}

// newest returns the version of the newest change, visible or not.
func (c *call) newest() uint64 {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.server.rv
}

// upTo returns the changes up to rv.
func upTo(events []*event, rv uint64) []*event {
	n, _ := slices.BinarySearchFunc(events, rv+1, func(e *event, rv uint64) int { return cmp.Compare(e.rv, rv) })
	return events[:n]
}
