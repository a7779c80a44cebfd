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
// A view that does not lag shows each change immediately. A view that lags shows changes some time
// later. This needs no background work: readers compute which changes are visible by now, and waiters
// find out when to look again.
type view struct {
	lag    time.Duration
	stuck  bool
	seen   uint64 // all changes up to this version are visible; see advance
	floor  uint64 // first version of the cache; it has no earlier changes
	window int    // number of changes of a resource that it holds; 0 means all that are kept
	epoch  int    // number of restarts; watches of an earlier epoch end
}

func (v *view) behind() bool { return v.lag > 0 || v.stuck }

// advance updates seen and returns when more will be visible, or zero if that needs a
// new change. The caller holds the mutex.
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

// beginView restarts the cache with the current state. The caller holds the mutex.
func (s *Server) beginView() {
	s.view.seen, s.view.floor = s.rv, s.rv
	s.view.epoch++
}

// hold sets how many changes the cache holds. The caller holds the mutex.
func (s *Server) hold(history int) {
	s.view.window = history
	s.history = max(s.history, history)
}

// floorOf returns the oldest version that a watch of c may start from. The caller holds
// the mutex and has called advance.
func (s *Server) floorOf(c *collection) uint64 {
	floor, seen := max(c.floor, s.view.floor), s.seenOf(c)
	if known := c.position(seen) - c.base; s.view.window > 0 && known > s.view.window {
		floor = max(floor, c.log[known-s.view.window-1].rv)
	}
	return min(floor, seen)
}

// seenOf returns the version of c that the cache shows. However far a server lags, its
// cache of a new resource starts with the content of etcd. The caller holds the mutex
// and has called advance.
func (s *Server) seenOf(c *collection) uint64 { return max(s.view.seen, c.born) }

// list returns the versions of c that the cache shows, sorted by path, beginning at
// start. The caller holds the mutex and has called advance.
func (s *Server) list(c *collection, start, prefix string) []*version {
	if seen := s.seenOf(c); seen < c.last {
		return c.past(seen, start, prefix)
	}
	return c.now(start, prefix)
}

// shown returns the state of a key that the cache shows. The caller holds the mutex.
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

// SetLag sets the delay with which the server's watch cache sees changes; 0 means immediately. Visible
// changes stay visible.
func (s *Server) SetLag(lag time.Duration) {
	s.changeView(func(v *view) { v.lag = lag })
}

// SetStuck freezes the server's watch cache, or unfreezes it, which makes all changes
// visible except those held back by the lag.
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

// Seen returns the resource version that the server's watch cache has reached. It
// equals RV unless the cache lags.
func (s *Server) Seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return formatRV(s.view.seen)
}

// waitSeen waits until the watch cache has reached rv, for at most FreshnessWait, and
// returns the version it has reached.
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

// waitFresh waits until the watch cache has reached rv, or fails.
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
