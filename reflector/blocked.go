package reflector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// callMonitor notes the call of a transform or a hook that the reflector is in, if it is in one, and has
// the log name one that lasts. The context of a request leads to it. A nil one notes nothing.
type callMonitor struct {
	log  *slog.Logger
	name func() string // of the resource

	mu    sync.Mutex // guards the rest; nothing is called while it is held
	call  call
	since time.Time     // zero while it is in none
	spent time.Duration // in calls that have returned
	slow  time.Time     // when one last returned that had taken a second or more
	late  *time.Timer   // logs a call that lasts for slowCall; nil before the first call
	armed bool          // late is running
}

// call is one of a transform, by its place and the object that it is called on, or of a hook.
type call struct {
	kind, name string // "transform", "hook"
	key        object.Key
}

type callMonitorKey struct{}

// withCallMonitor returns a context whose requests note the calls of transforms in c.
func withCallMonitor(ctx context.Context, c *callMonitor) context.Context {
	return context.WithValue(ctx, callMonitorKey{}, c)
}

// callMonitorOf returns the monitor that withCallMonitor put into ctx, nil if there is none.
func callMonitorOf(ctx context.Context) *callMonitor {
	c, _ := ctx.Value(callMonitorKey{}).(*callMonitor)
	return c
}

// slowCall is after how long a call that has not returned is named in the log.
const slowCall = 10 * time.Second

// begin notes a call. One timer serves many, so that a short one costs no more than two
// readings of the clock.
func (c *callMonitor) begin(to call) {
	if c == nil {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call, c.since = to, now
	switch {
	case c.armed:
		return
	case c.late == nil:
		c.late = time.AfterFunc(slowCall, c.logSlow)
	default:
		c.late.Reset(slowCall)
	}
	c.armed = true
}

// end notes that the call has returned.
func (c *callMonitor) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked()
}

// endLocked is end for callers that hold mu.
func (c *callMonitor) endLocked() {
	if !c.since.IsZero() {
		now := time.Now()
		took := now.Sub(c.since)
		if c.spent += took; took >= time.Second {
			c.slow = now
		}
	}
	c.since = time.Time{}
}

// stop disarms the timer, after the last call of an attempt.
func (c *callMonitor) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		c.late.Stop()
	}
	c.endLocked()
	c.armed = false
}

// total is how long calls have taken so far that have returned.
func (c *callMonitor) total() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent
}

// logSlow logs a call that has lasted for slowCall, once.
func (c *callMonitor) logSlow() {
	c.mu.Lock()
	if c.armed = !c.since.IsZero(); !c.armed {
		c.mu.Unlock()
		return
	}
	if left := slowCall - time.Since(c.since); left > 0 {
		c.late.Reset(left)
		c.mu.Unlock()
		return
	}
	c.armed = false // until the next call
	to := c.call
	c.mu.Unlock()
	attrs := []any{"resource", c.name(), to.kind, to.name}
	if to.key != (object.Key{}) {
		attrs = append(attrs, "key", object.FormatKey(to.key))
	}
	c.log.Warn("a "+to.kind+" blocks the reflector: it must return soon", append(attrs, "for", slowCall.String())...)
}

// running reports whether the reflector is in a call.
func (c *callMonitor) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero()
}

// busy reports whether the reflector is in a call, or was until so shortly ago that the server may
// not have had its time since.
func (c *callMonitor) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero() || time.Since(c.slow) < busyGrace
}

// waiting says for which call the reflector waits, and since when; nil if it is in none.
func (c *callMonitor) waiting() *source.StuckError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return nil
	}
	what := "the " + c.call.kind + " " + c.call.name
	if c.call.key != (object.Key{}) {
		what += ", called on " + object.FormatKey(c.call.key) + ","
	}
	return &source.StuckError{What: what, For: time.Since(c.since)}
}

// lateAnswer is after how long the log says what a request waits for.
const lateAnswer = 10 * time.Second

// trackRequest returns a context for a request. Until answered is called, Status says what the
// request waits for, and the log does if that takes long. The same holds for a transform, as long
// as the request lasts.
func (r *Reflector) trackRequest(ctx context.Context) (request context.Context, answered func()) {
	p := new(source.Progress)
	r.inFlight.Store(p)
	late := time.AfterFunc(lateAnswer, func() {
		if stuck := p.Waiting(nil); stuck != nil && r.inFlight.Load() == p && !r.calls.running() {
			r.opts.Logger.Warn("reflector request is late", "resource", r.Name(), "cause", stuck.Error())
		}
	})
	return withCallMonitor(jitter.WithRecall(source.WithProgress(ctx, p), &r.pace.recall), &r.calls), func() {
		late.Stop()
		r.inFlight.CompareAndSwap(p, nil)
	}
}

// waiting says what the request under way waits for, or for which transform; empty if it has
// been answered, and where that has taken less than a second.
func (r *Reflector) waiting() string {
	stuck := r.calls.waiting()
	if stuck == nil {
		stuck = r.inFlight.Load().Waiting(nil)
	}
	if stuck != nil && stuck.For >= time.Second {
		return stuck.Error()
	}
	return ""
}

// callHook calls a hook of the user's. Whatever it does, the reflector goes on; as
// long as it blocks, the reflector waits, which the status and the log say.
func (r *Reflector) callHook(name string, hook func()) {
	r.calls.begin(call{kind: "hook", name: name})
	defer r.calls.stop()
	err := failure.Apart(name, func() error { hook(); return nil })
	if err != nil {
		r.opts.Logger.Error("reflector hook", append([]any{"resource", r.Name(), "err", err}, failure.Stack(err)...)...)
	}
}

// verdict asks OnError what to do. One that fails has said nothing.
func (r *Reflector) verdict(ctx context.Context, f *failure.Failure) failure.Verdict {
	v := failure.Retry
	if r.opts.OnError != nil {
		r.callHook("OnError", func() { v = r.opts.OnError(ctx, f) })
	}
	return v
}

// announce tells OnState where the reflector is.
func (r *Reflector) announce() {
	status := r.Status()
	r.opts.Logger.Debug("reflector state", "resource", status.Resource, "state", status.State.String(), "rv", status.RV)
	if r.opts.OnState != nil {
		r.callHook("OnState", func() { r.opts.OnState(status) })
	}
}
