package view

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// tally counts the handler's events. Only the handler writes to it; it is read after the informer has
// stopped.
type tally struct {
	initial, adds, updates, deletes int
	shown                           int
	latency                         histogram
}

func (t *tally) count(c *change) {
	switch {
	case c.initial:
		t.initial++
	case c.kind == sharedinformer.Add:
		t.adds++
	case c.kind == sharedinformer.Update:
		t.updates++
	case c.kind == sharedinformer.Delete:
		t.deletes++
	}
	if c.latency.known {
		t.latency.add(c.latency.total)
	}
}

// summary prints the totals at the end.
func (v *view) summary(s sharedinformer.Status, took time.Duration) {
	t, r, now := &v.tally, s.Reflector, time.Now()
	say := func(what, format string, args ...any) {
		v.Console.State(now, "%-12s  %s", what, fmt.Sprintf(format, args...))
	}
	say("stopped", "after %s, %d objects, rv %s", terminal.Duration(took), s.Objects, s.RV)
	say("changes", "%d added, %d updated, %d deleted, %d initial", t.adds, t.updates, t.deletes, t.initial)
	say("requests", "%s, %s, %d watches, %s", terminal.Counted(r.Lists-r.Relists, "list"), terminal.Counted(r.Relists, "relist"), r.Watches, terminal.Counted(r.Failures, "failure"))
	if h := &t.latency; h.count > 0 {
		say("latency", "p50 %s, p99 %s, max %s", terminal.Duration(h.quantile(0.5)), terminal.Duration(h.quantile(0.99)), terminal.Duration(h.max))
	}
}
