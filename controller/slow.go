package controller

import (
	"fmt"
	"time"
)

// SlowReconcile is how long a reconcile may take before the log and Controller.Unfinished
// name it. Options.Timeout ends one that honours its context.
const SlowReconcile = 5 * time.Second

// mostUnfinished is how many requests Unfinished names.
const mostUnfinished = 10

// attend lets the log name a reconcile that has not returned after SlowReconcile.
func (s *session) attend(a *attempt) *time.Timer {
	s.tasks.Add(1) // for the timer
	return time.AfterFunc(SlowReconcile, func() {
		defer s.tasks.Done()
		s.slow.Do(func(more int) {
			a.slow.Store(true)
			a.logger().Warn("a reconcile has not returned", "for", SlowReconcile.String(), "causes", a.reasons.list(a.request), "more", more)
		})
	})
}

// attended is called when the reconcile has returned. If the log has named it, it does so again.
func (s *session) attended(a *attempt, timer *time.Timer, began time.Time) {
	if timer.Stop() {
		s.tasks.Done()
	} else if a.slow.Load() {
		a.logger().Info("a slow reconcile has returned", "after", time.Since(began).Round(time.Millisecond).String())
	}
}

// Unfinished names the reconciles that have not returned for SlowReconcile or longer, the
// longest first, at most ten. While the controller is stopping it names all that keep Run from
// returning: every reconcile, and every source that has not ended.
func (c *Controller) Unfinished() []string {
	var all []string
	c.mu.Lock()
	session, stopping := c.session, c.state == Stopping
	for _, sub := range c.sources {
		select {
		case <-sub.ended:
		default:
			if stopping {
				all = append(all, fmt.Sprintf("source %s (%s)", sub.source, sub.place))
			}
		}
	}
	c.mu.Unlock()
	if session == nil {
		return nil
	}
	now := time.Now()
	for _, held := range session.queue.Contents(mostUnfinished).Running {
		if took := now.Sub(held.Since); stopping || took >= SlowReconcile {
			all = append(all, fmt.Sprintf("reconcile of %s for %s", held.Key, took.Round(time.Second)))
		}
	}
	return all
}
