package sharedinformer

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

const (
	// slowCall is how long a call of a handler or hook takes that is named in the log.
	slowCall = 5 * time.Second
	// farBehind is how far behind a handler is that is named in the log.
	farBehind = 30 * time.Second
	// slowCheckEvery is how often slowHandlers looks.
	slowCheckEvery = slowCall / 2
	// slowChecksAtStop is how many times it looks while the run ends.
	slowChecksAtStop = int(time.Minute / slowCheckEvery)
)

// slowHandlers names in the log each handler that is in one call for long, once for that
// call, and each that is far behind, once until it has heard all. It also says when one
// batch of changes takes long. It belongs to one goroutine.
type slowHandlers struct {
	inCall    map[*delivery]uint64 // the number of the call that was named
	behind    map[*delivery]bool
	batches   uint64 // core.batches at the last check
	unchanged int    // checks in a row at which it was that
}

func newSlowHandlers() *slowHandlers {
	return &slowHandlers{inCall: make(map[*delivery]uint64), behind: make(map[*delivery]bool)}
}

// check is called every slowCheckEvery.
func (a *slowHandlers) check(i *core) {
	a.checkCache(i)
	handlers := *i.handlers.Load()
	if len(a.inCall) > len(handlers) || len(a.behind) > len(handlers) { // some have left
		clear(a.inCall)
		clear(a.behind)
	}
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
			i.warn("a handler blocks: it hears of nothing else before it returns", d, s)
		case s.Behind >= farBehind && !a.behind[d]:
			a.behind[d] = true
			i.warn("a handler is slower than the changes", d, s)
		}
	}
}

// checkCache logs once that a batch has been applied for slowCall: a function that the
// cache calls then has not returned.
func (a *slowHandlers) checkCache(i *core) {
	n := i.batches.Load()
	if n != a.batches {
		a.batches, a.unchanged = n, 0
		return
	}
	if a.unchanged++; n%2 == 1 && a.unchanged == int(slowCall/slowCheckEvery) {
		i.logger.Warn("the cache blocks: an index function must return soon, or the process has no time",
			"resource", i.Name(), "for", slowCall.String(), "queued", i.queue.Len(), "by", i.blocked())
	}
}

// blocked names the index function that the cache waits for, where that takes long; empty
// where it waits for none.
func (i *core) blocked() string {
	c, ok := i.cache.Calling()
	if !ok {
		return ""
	}
	since := time.Since(c.Since)
	if since < time.Second {
		return ""
	}
	return fmt.Sprintf("the cache has waited %s for the function of index %q, called on %s", since.Round(time.Second), c.Index, object.FormatKey(c.Key))
}

// blocking is blocked as the end of a message.
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

// key is that of the object of the call in progress; empty where there is none.
func (d *delivery) key() string {
	if o, _, ok := d.current(); ok {
		return object.FormatKey(object.KeyOf(o))
	}
	return ""
}

// blocked says what keeps the handler's goroutine where that takes long, and for how
// long; empty and 0 where nothing does.
func (d *delivery) blocked() (by string, since time.Duration) {
	if h := d.hook.Load(); h != nil {
		by, since = h.name, time.Since(h.since)
	} else if since = d.watch.running(); since > 0 {
		by = "the call about " + d.key()
	}
	if since < time.Second {
		return "", since
	}
	return fmt.Sprintf("; %s has not returned for %s", by, since.Round(time.Second)), since
}

// hookCall is a call of a hook that a handler's goroutine waits for.
type hookCall struct {
	name      string
	since     time.Time
	goroutine uint64 // its number
}

// trackHook returns hook, noted while it runs as one that the handler's goroutine waits for.
func (d *delivery) trackHook(name string, hook func()) func() {
	return func() {
		d.hook.Store(&hookCall{name, time.Now(), goroutineID()})
		defer d.hook.Store(nil)
		hook()
	}
}

// callHook calls a user's hook, and returns an error if it panicked or ended its
// goroutine. The goroutine of d, if that is not nil, is the caller. As long as the
// hook blocks, the caller waits, and the log says so.
func (i *core) callHook(name string, d *delivery, hook func()) error {
	handler := ""
	if d != nil {
		d.recordCalls(d.watch.stop())
		handler, hook = d.opts.label(), d.trackHook(name, hook)
	}
	slow := time.AfterFunc(slowCall, func() {
		i.logger.Warn("a hook blocks: it must return soon", "resource", i.Name(), "hook", name, "handler", handler, "for", slowCall.String())
	})
	defer slow.Stop()
	return failure.Apart(name, func() error { hook(); return nil })
}
