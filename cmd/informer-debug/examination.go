package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

const (
	longBehind   = 10 * time.Second // from here on, a handler lags
	hugeBucket   = 1000             // objects under one value of an index, and most of all
	growth       = 10               // keys that a queue has more than before
	oftenWithin  = 60               // seconds in which a key
	oftenEnough  = 60               // is reconciled so often that it looks like a loop
	busiestShown = 5
)

// examination looks for what is wrong in a process.
type examination struct {
	*findings
	process *debug.Client
}

// run looks twice, the period apart.
func (x *examination) run(ctx context.Context, period time.Duration) error {
	before, err := x.process.Status(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(period):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	status, err := x.process.Status(ctx)
	if err != nil {
		return err
	}
	twice := map[debug.Which]int{}
	for n := range status.Informers {
		i := &status.Informers[n]
		twice[whichOf(i)]++
		x.informer(i)
		if err := x.indexes(ctx, i); err != nil {
			return err
		}
	}
	for which, n := range twice {
		if n > 1 {
			x.add(levelWarning, which.Informer, "share one: a factory gives the same to all who ask", "%d informers cache the same objects as %s", n, which.Type)
		}
	}
	x.queues(before, status, period)
	return x.busiest(ctx)
}

// informer looks at one informer and its handlers.
func (x *examination) informer(i *debug.Informer) {
	name := i.Reflector.Resource
	switch r := i.Reflector; {
	case !i.Synced:
		x.add(levelProblem, name, "", "has no whole initial list: %v", r.Missing())
	case r.Attempts > 0:
		x.add(levelProblem, name, "", "the cache is stale, as of version %s: %v", orDash(i.RV), r.Missing())
	default:
		x.add(levelOK, name, "", "%s, %d objects, complete up to version %s", r.State, i.Objects, orDash(i.RV))
	}
	if i.Reflector.Unordered {
		x.add(levelWarning, name, "do not rely on waiting for a version", "the versions of the server do not grow over all objects")
	}
	if i.QueueAge >= longBehind {
		x.add(levelWarning, name, "see whether an index function is slow", "%d changes wait for the cache, the oldest for %s", i.QueueDepth, short(i.QueueAge))
	}
	for _, h := range i.Handlers {
		about := name + ", handler " + h.Name + " (" + h.Place + ")"
		if h.Behind >= longBehind {
			x.add(levelWarning, about, "make it only add to a queue, or coalesce", "is %s behind, with %d events to hear; its longest call took %s", short(h.Behind), h.Pending, short(h.Slowest))
		}
		if h.Panics > 0 {
			x.add(levelProblem, about, "see the log", "panicked %s", times(h.Panics))
		}
		if h.Errors > 0 {
			x.add(levelWarning, about, "see the log", "failed %s", times(h.Errors))
		}
	}
}

// indexes looks for a value that most objects have: looking it up is looking at all.
func (x *examination) indexes(ctx context.Context, i *debug.Informer) error {
	all, err := x.process.Indexes(ctx, whichOf(i), 1)
	if _, refused := asRefused(err); refused { // it is no informer of Millrace, or there are two
		return nil
	}
	if err != nil {
		return err
	}
	for _, index := range all.Indexes {
		if len(index.Largest) > 0 && index.Largest[0].Objects >= hugeBucket && 2*index.Largest[0].Objects > i.Objects {
			x.add(levelWarning, i.Reflector.Resource+", index "+index.Name, "choose values that tell objects apart", "%d of %d objects are under one value", index.Largest[0].Objects, i.Objects)
		}
	}
	return nil
}

// queues compares how many keys wait.
func (x *examination) queues(before, now *debug.Status, period time.Duration) {
	had := map[string]int{}
	for _, c := range before.Controllers {
		had[c.Name] = c.Queue.Waiting
	}
	for _, q := range before.Queues {
		had[q.Name] = q.Waiting
	}
	look := func(name string, waiting, running int) {
		if more := waiting - had[name]; more >= growth {
			x.add(levelWarning, name, "give it more workers, or make a reconcile quicker", "its queue has grown by %d to %d keys within %s", more, waiting, period)
			return
		}
		x.add(levelOK, name, "", "%d keys wait, %d are worked on", waiting, running)
	}
	for _, c := range now.Controllers {
		look(c.Name, c.Queue.Waiting, c.Queue.Running)
		if c.Panics > 0 {
			x.add(levelProblem, c.Name, "see the log", "panicked %s", times(c.Panics))
		}
		if c.Terminal > 0 {
			x.add(levelWarning, c.Name, "informer-debug why says which", "gave up on %d requests", c.Terminal)
		}
	}
	for _, q := range now.Queues {
		look(q.Name, q.Waiting, q.Running)
	}
}

// busiest looks for keys that are reconciled over and over.
func (x *examination) busiest(ctx context.Context) error {
	busy, err := x.process.Busiest(ctx, oftenWithin, busiestShown)
	if err != nil {
		return err
	}
	for _, b := range busy.Keys {
		if b.Role == flight.Controller && b.Count >= oftenEnough {
			x.add(levelWarning, b.Name, "see whether it writes what it watches: informer-debug watch --attach shows its events", "reconciled %s %s within %s", object.FormatKey(b.Key), times(uint64(b.Count)), busy.Within)
		}
	}
	return nil
}

// asRefused reports whether a process has answered, and does not do what it was asked for.
func asRefused(err error) (*debug.RefusedError, bool) { return errors.AsType[*debug.RefusedError](err) }

// times says how often.
func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
