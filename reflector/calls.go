package reflector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// calls knows in which call of a transform or a hook a reflector is, if it is in one, and has
// the log name one that lasts. The context of a request leads to it. A nil one notes nothing.
type calls struct {
	log  *slog.Logger
	name func() string // of the resource

	mu    sync.Mutex // guards the rest; nothing is called while it is held
	call  call
	since time.Time     // zero while it is in none
	spent time.Duration // in calls that have returned
	slow  time.Time     // when one last returned that had taken a second or more
	late  *time.Timer   // that looks after slowCall; nil before the first call
	looks bool          // late is under way
}

// call is one of a transform, by its place and the object that it is called on, or of a hook.
type call struct {
	kind, name string // "transform", "hook"
	key        object.Key
}

type callsKey struct{}

// withCalls returns a context whose requests note the calls of transforms in c.
func withCalls(ctx context.Context, c *calls) context.Context {
	return context.WithValue(ctx, callsKey{}, c)
}

// callsOf returns what withCalls put into ctx, nil if nothing.
func callsOf(ctx context.Context) *calls {
	c, _ := ctx.Value(callsKey{}).(*calls)
	return c
}

// slowCall is after how long a call that has not returned is named in the log.
const slowCall = 10 * time.Second

// begin notes a call. One timer looks after many, so that a short one costs no more than two
// looks at the clock.
func (c *calls) begin(to call) {
	if c == nil {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call, c.since = to, now
	switch {
	case c.looks:
		return
	case c.late == nil:
		c.late = time.AfterFunc(slowCall, c.look)
	default:
		c.late.Reset(slowCall)
	}
	c.looks = true
}

// end notes that the call has returned.
func (c *calls) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended()
}

// ended is end under mu.
func (c *calls) ended() {
	if !c.since.IsZero() {
		now := time.Now()
		took := now.Sub(c.since)
		if c.spent += took; took >= time.Second {
			c.slow = now
		}
	}
	c.since = time.Time{}
}

// stop ends the looking, behind the last call of an attempt.
func (c *calls) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		c.late.Stop()
	}
	c.ended()
	c.looks = false
}

// total is how long calls have taken so far that have returned.
func (c *calls) total() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent
}

// look names a call that has lasted for slowCall, once.
func (c *calls) look() {
	c.mu.Lock()
	if c.looks = !c.since.IsZero(); !c.looks {
		c.mu.Unlock()
		return
	}
	if left := slowCall - time.Since(c.since); left > 0 {
		c.late.Reset(left)
		c.mu.Unlock()
		return
	}
	c.looks = false // until the next call
	to := c.call
	c.mu.Unlock()
	attrs := []any{"resource", c.name(), to.kind, to.name}
	if to.key != (object.Key{}) {
		attrs = append(attrs, "key", object.FormatKey(to.key))
	}
	c.log.Warn("a "+to.kind+" blocks the reflector: it must return soon", append(attrs, "for", slowCall.String())...)
}

// running reports whether the reflector is in a call.
func (c *calls) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero()
}

// busy reports whether the reflector is in a call, or was until so shortly ago that the server may
// not have had its time since.
func (c *calls) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero() || time.Since(c.slow) < busyGrace
}

// waiting says for which call the reflector waits, and since when; nil if it is in none.
func (c *calls) waiting() *source.StuckError {
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
