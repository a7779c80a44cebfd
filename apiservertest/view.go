package apiservertest

import (
	"cmp"
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/object"
)

// view is what a server's watch cache knows of the cluster. It is guarded by the
// cluster's mutex.
//
// A view that is not behind shows each change at once. One that is shows it some
// time after it was made: nothing runs for that, who looks works out what is to
// be seen by now, and who waits is told when to look again.
type view struct {
	lag    time.Duration
	stuck  bool
	seen   uint64 // all changes up to this version have been seen; see advance
	floor  uint64 // the version at which the cache began: it knows no changes before it
	window int    // changes of a resource that it can hold; 0 for all that are kept
	epoch  int    // counts the beginnings: a watch of an earlier one is over
}

func (v *view) behind() bool { return v.lag > 0 || v.stuck }

// advance brings seen up to date, and says when there will be more to see; zero
// where only a change can tell. The mutex must be held.
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

// beginView starts the cache anew with the present state. The mutex must be held.
func (s *Server) beginView() {
	s.view.seen, s.view.floor = s.rv, s.rv
	s.view.epoch++
}

// hold sets how many changes the cache can hold. The mutex must be held.
func (s *Server) hold(history int) {
	s.view.window = history
	s.history = max(s.history, history)
}

// floorOf is the oldest version from which a watch of c may go on here. The
// mutex must be held, and the view be advanced.
func (s *Server) floorOf(c *collection) uint64 {
	floor, seen := max(c.floor, s.view.floor), s.seenOf(c)
	if known := c.position(seen) - c.base; s.view.window > 0 && known > s.view.window {
		floor = max(floor, c.log[known-s.view.window-1].rv)
	}
	return min(floor, seen)
}

// seenOf is the version that the cache shows of c. However far behind a server is, its
// cache of a resource that is new begins with what etcd holds. The mutex must be
// held, and the view be advanced.
func (s *Server) seenOf(c *collection) uint64 { return max(s.view.seen, c.born) }

// list gives what the cache shows of c, sorted by path, from the path start on.
// The mutex must be held, and the view be advanced.
func (s *Server) list(c *collection, start, prefix string) []*version {
	if seen := s.seenOf(c); seen < c.last {
		return c.past(seen, start, prefix)
	}
	return c.now(start, prefix)
}

// shown gives the state of a key that the cache shows. The mutex must be held.
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

// SetLag makes the server's watch cache see each change this long after it was
// made; 0 is at once. What has been seen stays seen.
func (s *Server) SetLag(lag time.Duration) {
	s.changeView(func(v *view) { v.lag = lag })
}

// SetStuck makes the server's watch cache see no more changes until it is called
// again with false. Then those are seen at once that the lag does not hold back.
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

// Seen is the resource version that the server's watch cache has come to: RV,
// unless it lags.
func (s *Server) Seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return formatRV(s.view.seen)
}

// waitSeen waits until the watch cache has come to rv, for a while. It returns
// what it has come to.
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

// waitFresh waits until the watch cache has come to rv, and fails if it does not
// come to it.
func (c *call) waitFresh(rv uint64) error {
	seen, err := c.waitSeen(rv)
	if err == nil && seen < rv {
		return tooLarge(rv, seen)
	}
	return err
}

// newest is the version of the newest change, whatever the cache has seen.
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
