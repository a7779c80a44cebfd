package reflector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// calls knows in which call of a transform a reflector is, if it is in one, and has the log
// name one that lasts. The context of a request leads to it. A nil one notes nothing.
type calls struct {
	log  *slog.Logger
	name func() string // of the resource

	mu    sync.Mutex // guards the rest; nothing is called while it is held
	place string     // of the transform
	key   object.Key
	since time.Time   // zero while it is in none
	late  *time.Timer // that looks after slowHook; nil before the first call
	looks bool        // late is under way
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

// begin notes that a transform is called. One timer looks after many calls, so that a short
// one costs no more than a look at the clock.
func (c *calls) begin(place string, key object.Key) {
	if c == nil {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.place, c.key, c.since = place, key, now
	switch {
	case c.looks:
		return
	case c.late == nil:
		c.late = time.AfterFunc(slowHook, c.look)
	default:
		c.late.Reset(slowHook)
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
	c.since = time.Time{}
}

// stop ends the looking, behind the last call of an attempt.
func (c *calls) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		c.late.Stop()
	}
	c.since, c.looks = time.Time{}, false
}

// look names a call that has lasted for slowHook, once.
func (c *calls) look() {
	c.mu.Lock()
	if c.looks = !c.since.IsZero(); !c.looks {
		c.mu.Unlock()
		return
	}
	if left := slowHook - time.Since(c.since); left > 0 {
		c.late.Reset(left)
		c.mu.Unlock()
		return
	}
	c.looks = false // until the next call
	place, key := c.place, c.key
	c.mu.Unlock()
	c.log.Warn("a transform blocks the reflector: it must return soon", "resource", c.name(), "transform", place, "key", object.FormatKey(key), "for", slowHook.String())
}

// running reports whether the reflector is in a call.
func (c *calls) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero()
}

// waiting says for which call the reflector waits, and since when; nil if it is in none.
func (c *calls) waiting() *source.StuckError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return nil
	}
	return &source.StuckError{What: "the transform " + c.place + ", called on " + object.FormatKey(c.key) + ",", For: time.Since(c.since)}
}
