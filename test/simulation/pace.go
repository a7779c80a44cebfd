package simulation

import (
	"errors"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
)

// pace checks how an informer with one feed recovers from failures (L19, L20), and that it reports each
// failure (L22). It receives all of the informer's failures and states.
type pace struct {
	play   *play
	called string
	single bool // the informer always has a single feed, so all reports concern that feed

	atLeast time.Duration // minimum duration of a watch that is closed normally; 0 if unknown

	blockedUntil func() time.Time // when its transform last stopped blocking

	mu       sync.Mutex // guards the fields below
	asked    time.Time  // time of the last request
	watching bool       // the watch was established and has not failed since
	listing  bool       // a list is in progress
	asking   bool       // a watch was requested and its outcome is not yet known
	earliest time.Time  // no request may follow before this time
	recent   []time.Time
	reason   bool      // there is a reason to list
	failing  time.Time // time of the first failure since a watch last delivered events, or of the last list since then
	brought  uint64    // changes and bookmarks
	polled   bool      // watch failures have already caused a list
	synced   bool      // a list has succeeded
	noStream bool      // a streaming list did not complete
	heard    uint64
	last     *failure.Failure
	handlers int // handler failures reported
}

const (
	// firstWait is the minimum delay between a failure and the next attempt, given the default
	// [reflector.Backoff].
	firstWait = 800 * time.Millisecond

	// mostInAMinute is the maximum number of failures in a minute. In a run of consecutive failures, the
	// delay reaches 50 s with the sixth one. The delays may start over three times in a run, and after a
	// watch that was served for ten seconds.
	mostInAMinute = 30
)

// failed is called for each failure.
func (c *pace) failed(f *failure.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f.Phase {
	case failure.PhaseHandler:
		c.handlers++
		return
	case failure.PhaseIndex, failure.PhaseCache, failure.PhaseHook, failure.PhaseSnapshot:
		return
	}
	if !c.single {
		return
	}
	if c.listing && errors.Is(f.Err, reflector.ErrStalled) && time.Since(c.blockedUntil()) < time.Second {
		c.play.breaks("L22: %s was waiting for its transform but reports: %v", c.called, f)
	}
	c.heard++
	c.last, c.watching, c.listing = f, false, false
	now := time.Now()
	wait, _ := source.RetryAfter(f.Err)
	c.earliest = now.Add(max(firstWait, wait))
	if c.recent = append(c.recent, now); len(c.recent) > mostInAMinute {
		c.recent = c.recent[1:]
		if took := now.Sub(c.recent[0]); took < time.Minute {
			c.play.breaks("L19: %s has failed %d times in %s: the delays do not grow", c.called, mostInAMinute, took)
		}
	}
	c.noStream = c.noStream || errors.Is(f.Err, reflector.ErrNoEnd)
	mayPoll := c.mayPoll(f, now) // also record when watches started to fail
	c.reason = c.reason || mayList(f) || mayPoll
}

// mayPoll reports whether watches have failed for so long that the informer may list instead.
func (c *pace) mayPoll(f *failure.Failure, now time.Time) bool {
	if f.Phase == failure.PhaseList {
		return false
	}
	if c.failing.IsZero() {
		c.failing = now
	}
	patience := 10 * time.Minute
	var status apierrors.APIStatus
	if _, asked := source.RetryAfter(f.Err); errors.As(f.Err, &status) && !asked && (status.Status().Code < 502 || status.Status().Code > 504) {
		if patience = time.Minute; c.polled {
			patience = 30 * time.Second
		}
	}
	return now.Sub(c.failing) >= patience-time.Second // the owner may learn of the failure late
}

// mayList reports whether a synced informer may list again after failure f.
func mayList(f *failure.Failure) bool {
	return apierrors.IsResourceExpired(f.Err) || apierrors.IsGone(f.Err) || errors.Is(f.Err, reflector.ErrWentBack) ||
		strings.Contains(f.Err.Error(), "Too large resource version") ||
		f.Phase == failure.PhaseDecode || f.Phase == failure.PhaseTransform
}

// state is called on each state change.
func (c *pace) state(s reflector.Status) {
	if !c.single {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listing && s.Attempts > 0 && (s.State == reflector.Connecting || s.State == reflector.Watching) {
		c.play.breaks("L22: %s is %s after a list but still counts %d failures", c.called, s.State, s.Attempts)
	}
	if brought := s.Events + s.Bookmarks + s.Passed + s.Duplicates; brought != c.brought || c.watching && s.State == reflector.Connecting {
		c.brought, c.failing, c.polled = brought, time.Time{}, false
	}
	c.listing = s.State == reflector.Listing || s.State == reflector.InitialWatch
	if c.listing && !c.failing.IsZero() {
		c.failing, c.polled = time.Now(), true
	}
	if s.State != reflector.Stopped {
		c.asking = s.State == reflector.Connecting
	}
	switch s.State {
	case reflector.Connecting, reflector.Listing, reflector.InitialWatch:
		if early := time.Until(c.earliest); early > 0 {
			c.play.breaks("L19: %s is %s %s before it may retry, after %v", c.called, s.State, early, c.last)
		}
		if lasted := time.Since(c.asked); c.watching && lasted < c.atLeast {
			c.play.breaks("L21: a watch of %s ended after %s, but no failure was reported", c.called, lasted)
		}
		c.asked, c.watching = time.Now(), false
	case reflector.Watching:
		c.reason, c.synced, c.watching = false, true, true
	}
	if c.synced && !c.reason && (s.State == reflector.Listing || s.State == reflector.InitialWatch) {
		c.play.breaks("L19: %s relists without a reason", c.called)
	}
	if c.noStream && s.State == reflector.InitialWatch {
		c.play.breaks("L20: %s streams again although a streaming list did not complete", c.called)
	}
}

// began records the start of a run. A new run need not wait because of earlier failures. The previous run may
// have ended with an unreported failure, if the owner is slow to receive states or the run was stopped while
// processing a response.
func (c *pace) began(slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.earliest, c.recent, c.watching, c.listing = time.Time{}, nil, false, false
	c.reason = c.reason || slow || c.asking
}

// check compares the informer's status with its reports.
func (c *pace) check(s reflector.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.single || c.last == nil && s.Failure == nil {
		return
	}
	now := time.Now()
	switch {
	case s.Failure != nil && !s.Failure.Last.Before(now), c.last != nil && !c.last.Last.Before(now): // the report may be in flight
	case c.last == nil || s.Failure == nil || s.Failure != c.last:
		c.play.breaks("L22: the status of %s has the failure %v, but the last one reported is %v", c.called, s.Failure, c.last)
	case s.Failures != c.heard:
		c.play.breaks("L22: %s counts %d failures but reported %d", c.called, s.Failures, c.heard)
	}
}

// toldOf returns the number of reported handler failures.
func (c *pace) toldOf() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handlers
}
