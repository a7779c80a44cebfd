package sharedinformer

import (
	"fmt"
	"maps"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

const (
	// Handler and hook calls that take slowCall or longer are logged.
	slowCall = 5 * time.Second
	// Handlers that are behind by farBehind or more are logged.
	farBehind = 30 * time.Second
	// slowCheckEvery is the interval between checks by slowHandlers.
	slowCheckEvery = slowCall / 2
	// slowChecksAtStop is the number of checks made during shutdown.
	slowChecksAtStop = int(time.Minute / slowCheckEvery)
)

// slowHandlers logs each handler that is blocked in a call, once per call, and each handler that is far
// behind, once until it catches up. It also logs batches that take a long time. It is used by only one
// goroutine.
type slowHandlers struct {
	inCall    map[*delivery]uint64 // number of the logged call
	behind    map[*delivery]bool
	batches   uint64 // value of core.batches at the last check
	unchanged int    // number of consecutive checks that found the same value
}

func newSlowHandlers() *slowHandlers {
	return &slowHandlers{inCall: make(map[*delivery]uint64), behind: make(map[*delivery]bool)}
}

// check is called every slowCheckEvery.
func (a *slowHandlers) check(i *core) {
	a.checkCache(i)
	handlers := *i.handlers.Load()
	maps.DeleteFunc(a.inCall, func(d *delivery, _ uint64) bool { return d.closed.Load() })
	maps.DeleteFunc(a.behind, func(d *delivery, _ bool) bool { return d.closed.Load() })
	for _, d := range handlers {
		if !d.watch.on() {
			delete(a.inCall, d)
			delete(a.behind, d)
			continue
		}
		s := d.Status()
		switch call := s.Delivered + 1; {
		case d.watch.running() >= slowCall && a.inCall[d] != call:
			a.inCall[d], a.behind[d] = call, true
			i.warn("a handler is blocking: it receives nothing else until it returns", d, s)
		case s.Behind >= farBehind && !a.behind[d]:
			a.behind[d] = true
			i.warn("a handler is falling behind", d, s)
		}
	}
}

// checkCache logs, once per batch, that a batch has been in progress for slowCall because a function called
// by the cache has not returned.
func (a *slowHandlers) checkCache(i *core) {
	n := i.batches.Load()
	if n != a.batches {
		a.batches, a.unchanged = n, 0
		return
	}
	if a.unchanged++; n%2 == 1 && a.unchanged == int(slowCall/slowCheckEvery) {
		i.logger.Warn("the cache is blocked: an index function must return quickly, or the process lacks CPU time",
			"resource", i.Name(), "for", slowCall.String(), "queued", i.queue.Len(), "by", i.blocked())
	}
}

// blocked describes the index function that has blocked the cache for a second or longer. It returns "" if
// there is none.
func (i *core) blocked() string {
	c, ok := i.cache.Calling()
	if !ok {
		return ""
	}
	since := time.Since(c.Since)
	if since < time.Second {
		return ""
	}
	return fmt.Sprintf("the cache has been waiting %s for the function of index %q, called on %s", since.Round(time.Second), c.Index, object.FormatKey(c.Key))
}

// blocking returns the result of blocked as a message suffix.
func (i *core) blocking() string {
	if by := i.blocked(); by != "" {
		return "; " + by
	}
	return ""
}

func (i *core) warn(what string, d *delivery, s HandlerStatus) {
	i.logger.Warn(what, "resource", i.Name(), "handler", d.String(), "key", d.key(),
		"for", d.watch.running().Round(time.Second).String(), "pending", s.Pending, "behind", s.Behind.Round(time.Second).String())
}

// key returns the key of the object being handled, or "" if no call is in progress.
func (d *delivery) key() string {
	if o, _, ok := d.current(); ok {
		return object.FormatKey(object.KeyOf(o))
	}
	return ""
}

// blocked describes the call or hook that has blocked the handler's goroutine for a second or longer, and
// returns how long it has been running.
func (d *delivery) blocked() (by string, since time.Duration) {
	if h := d.hook.Load(); h != nil {
		by, since = h.name, time.Since(h.since)
	} else if since = d.watch.running(); since > 0 {
		by = "the call for " + d.key()
	}
	if since < time.Second {
		return "", since
	}
	return fmt.Sprintf("; %s has not returned for %s", by, since.Round(time.Second)), since
}

// hookCall is a call to a hook that a handler's goroutine is waiting for.
type hookCall struct {
	name      string
	since     time.Time
	goroutine uint64 // goroutine ID
}

// trackHook wraps hook so that it shows up in d while it runs.
func (d *delivery) trackHook(name string, hook func()) func() {
	return func() {
		d.hook.Store(&hookCall{name, time.Now(), goroutineID()})
		defer d.hook.Store(nil)
		hook()
	}
}

// callHook calls a user's hook and returns an error if it panicked or exited its goroutine. If d is not nil,
// the caller is d's goroutine. The call waits for the hook; a hook that blocks is logged.
func (i *core) callHook(name string, d *delivery, hook func()) error {
	handler := ""
	if d != nil {
		d.recordCalls(d.watch.stop())
		handler, hook = d.opts.label(), d.trackHook(name, hook)
	}
	slow := time.AfterFunc(slowCall, func() {
		i.logger.Warn("a hook is blocking: it must return quickly", "resource", i.Name(), "hook", name, "handler", handler, "for", slowCall.String())
	})
	defer slow.Stop()
	return failure.Apart(name, func() error { hook(); return nil })
}
