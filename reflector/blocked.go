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

// callMonitor tracks the current transform or hook call, and logs slow calls. It is carried in request
// contexts. A nil callMonitor does nothing.
type callMonitor struct {
	log  *slog.Logger
	name func() string // resource name

	mu    sync.Mutex // guards the fields below; never held while calling other code
	call  call
	since time.Time     // zero if no call is in progress
	spent time.Duration // time spent in completed calls
	slow  time.Time     // when a call of a second or longer last returned
	late  *time.Timer   // logs a call that takes slowCall; nil before the first call
	armed bool          // the timer is running
}

// call identifies a transform call (by the transform's location and the object) or a hook call.
type call struct {
	kind, name string // "transform", "hook"
	key        object.Key
}

type callMonitorKey struct{}

// withCallMonitor returns a context whose requests report transform calls to c.
func withCallMonitor(ctx context.Context, c *callMonitor) context.Context {
	return context.WithValue(ctx, callMonitorKey{}, c)
}

// callMonitorOf returns the monitor that withCallMonitor put into ctx, or nil.
func callMonitorOf(ctx context.Context) *callMonitor {
	c, _ := ctx.Value(callMonitorKey{}).(*callMonitor)
	return c
}

// Unfinished calls are logged after slowCall.
const slowCall = 10 * time.Second

// begin records the start of a call. One timer serves many calls, so a short call costs only two clock
// readings.
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

// end records that the call has returned.
func (c *callMonitor) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked()
}

// endLocked is like end. The caller must hold mu.
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

// stop stops the timer after the last call in an attempt.
func (c *callMonitor) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		c.late.Stop()
	}
	c.endLocked()
	c.armed = false
}

// total returns the time spent in completed calls.
func (c *callMonitor) total() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent
}

// logSlow logs a call that has been running for slowCall, once.
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
	c.log.Warn("a "+to.kind+" is blocking the reflector: it must return quickly", append(attrs, "for", slowCall.String())...)
}

// running reports whether a call is in progress.
func (c *callMonitor) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero()
}

// busy reports whether a call is in progress, or whether a slow call returned so recently that the server may
// not have had time to respond.
func (c *callMonitor) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero() || time.Since(c.slow) < busyGrace
}

// waiting describes the call in progress and how long it has been running; nil if there is none.
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

// Requests without a response are logged after lateAnswer.
const lateAnswer = 10 * time.Second

// trackRequest returns a context for a request. Until answered is called, Status shows what the request is
// waiting for; a long wait is also logged. Transform calls are tracked until the request ends.
func (r *Reflector) trackRequest(ctx context.Context) (request context.Context, answered func()) {
	p := new(source.Progress)
	r.inFlight.Store(p)
	var late *time.Timer
	late = time.AfterFunc(lateAnswer, func() {
		stuck := p.Waiting(nil)
		switch {
		case r.inFlight.Load() != p:
		case stuck == nil, r.calls.running():
			late.Reset(lateAnswer)
		case stuck.For < lateAnswer:
			late.Reset(lateAnswer - stuck.For)
		default:
			r.opts.Logger.Warn("reflector request is late", "resource", r.Name(), "cause", stuck.Error())
		}
	})
	late.Reset(lateAnswer) // the function reads late, which is set only now
	return withCallMonitor(jitter.WithRecall(source.WithProgress(ctx, p), &r.pace.recall), &r.calls), func() {
		late.Stop()
		r.inFlight.CompareAndSwap(p, nil)
	}
}

// waiting describes what the current request is waiting for, or the transform that is running. It returns ""
// if nothing is pending, or if the wait began less than a second ago.
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

// callHook calls a user's hook. The reflector survives a panic or Goexit in the hook. If the hook blocks, the
// reflector waits; the status and the log report this.
func (r *Reflector) callHook(name string, hook func()) {
	r.calls.begin(call{kind: "hook", name: name})
	defer r.calls.stop()
	err := failure.Apart(name, func() error { hook(); return nil })
	if err != nil {
		r.opts.Logger.Error("reflector hook", append([]any{"resource", r.Name(), "err", err}, failure.Stack(err)...)...)
	}
}

// verdict calls OnError. If the handler fails, the verdict is Retry.
func (r *Reflector) verdict(ctx context.Context, f *failure.Failure) failure.Verdict {
	v := failure.Retry
	if r.opts.OnError != nil {
		r.callHook("OnError", func() { v = r.opts.OnError(ctx, f) })
	}
	return v
}

// announce logs the current status and passes it to OnState.
func (r *Reflector) announce() {
	status := r.Status()
	r.opts.Logger.Debug("reflector state", "resource", status.Resource, "state", status.State.String(), "rv", status.RV)
	if r.opts.OnState != nil {
		r.callHook("OnState", func() { r.opts.OnState(status) })
	}
}
