package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

const (
	longBehind   = 10 * time.Second // from here on, a handler lags
	longRunning  = time.Minute      // from here on, a reconcile looks as if it hung
	longWaiting  = time.Minute      // from here on, a key starves
	hugeBucket   = 1000             // objects under one value of an index, and most of all
	growth       = 10               // keys that a queue has more than before
	oftenWithin  = 60               // seconds in which a key
	oftenEnough  = 60               // is reconciled so often that it looks like a loop, or changes so often that it is hot
	oftenRelists = 5                // lists in an hour that are no exception any more
	failsInRow   = 3                // from here on, a key fails for a reason that stays
	keysRead     = 100              // of a queue
	busiestShown = 5
)

// examination looks for what is wrong in a process.
type examination struct {
	*findings
	process *debug.Client
	to      string // --attach of the commands that it advises
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
	x.anything(status)
	x.election(status)
	same := map[debug.Which]int{}
	for n := range status.Informers {
		same[status.Informers[n].Which()]++
	}
	for n := range status.Informers {
		i := &status.Informers[n]
		x.informer(i, status.At)
		x.relists(before, i, period, status.Process.Uptime)
		if err := x.indexes(ctx, i); err != nil {
			return err
		}
		which := i.Which()
		if same[which] > 1 {
			x.add(levelWarning, which.Informer, "share one: a factory gives the same to all who ask", "%d informers cache the same objects as %s", same[which], which.Type)
			delete(same, which) // it is said once
		}
	}
	if err := x.controllers(ctx, status); err != nil {
		return err
	}
	x.queues(before, status, period)
	return x.busiest(ctx)
}

// anything tells of a process that shows nothing of its own, since silence would mean that all is
// well with it.
func (x *examination) anything(s *debug.Status) {
	if len(s.Informers)+len(s.Controllers)+len(s.Queues)+len(s.Groups) == 0 && s.Election == nil {
		x.add(levelWarning, "process "+s.Process.Program, "give debug.Options what it has; a manager does so itself", "shows no informer, no controller, no queue and no election")
	}
}

// election says who works. A replica that does not is no problem.
func (x *examination) election(s *debug.Status) {
	e := s.Election
	switch {
	case e == nil:
	case e.Lost != nil:
		x.add(levelProblem, "lease "+object.FormatKey(e.Lease), "work that does not end keeps this replica from ending", "was lost while the work still runs: %v", e.Lost)
	case e.Attempts > 0:
		x.add(levelProblem, "lease "+object.FormatKey(e.Lease), "", "cannot be read or renewed: %v", e.Failure)
	case e.Leading:
		x.add(levelOK, "lease "+object.FormatKey(e.Lease), "", "this replica leads")
	case e.Holder == "":
		x.add(levelWarning, "lease "+object.FormatKey(e.Lease), "", "nobody leads")
	default:
		x.add(levelOK, "lease "+object.FormatKey(e.Lease), "", "%s leads, and this replica waits", e.Holder)
	}
}

// relists tells of an informer that has to read all objects again and again.
func (x *examination) relists(before *debug.Status, i *debug.Informer, period, uptime time.Duration) {
	const do = "the server forgets changes sooner than the watch asks for them: see how large its watch cache is, and what cuts watches on the way"
	var had uint64
	for n := range before.Informers {
		if b := &before.Informers[n]; b.Which() == i.Which() {
			had = max(had, b.Reflector.Relists) // of equal ones, what is certain
		}
	}
	switch all := i.Reflector.Relists; {
	case all > had+1:
		x.add(levelWarning, i.Reflector.Resource, do, "all objects were listed again %d times within %s", all-had, period)
	case all > oftenRelists && float64(all) > oftenRelists*uptime.Hours():
		x.add(levelWarning, i.Reflector.Resource, do, "all objects were listed again %d times in %s", all, terminal.Duration(uptime))
	}
}

// informer looks at one informer and its handlers.
func (x *examination) informer(i *debug.Informer, now time.Time) {
	name := i.Reflector.Resource
	switch r := i.Reflector; {
	case !i.Synced && i.Leaving != "" && r.Attempts == 0:
		x.add(levelProblem, name, "its source, transform or hook must return when the context is done", "is not synced before the source lets go of %s", i.Leaving)
	case !i.Synced:
		x.add(levelProblem, name, "", "has no whole initial list: %s", missing(r))
	case r.Attempts > 0 && !r.Polling:
		old := ""
		if age := r.Age(now); age > 0 {
			old = "; it is " + terminal.Duration(age) + " old"
		}
		x.add(levelProblem, name, "", "the cache is stale, as of version %s: %s%s", terminal.OrDash(i.RV), missing(r), old)
	case i.Trouble(now) != "":
		x.add(levelWarning, name, x.command("check")+" compares the cache with the server", "%s; %d objects, complete up to version %s", i.Trouble(now), i.Objects, terminal.OrDash(i.RV))
	default:
		x.add(levelOK, name, "", "%s, %d objects, complete up to version %s", r.State, i.Objects, terminal.OrDash(i.RV))
	}
	if i.Failure != nil {
		x.add(levelWarning, name, "", "%v", i.Failure)
	}
	if i.Reflector.Unordered {
		x.add(levelWarning, name, "do not rely on waiting for a version", "the versions of the server do not grow over all objects")
	}
	switch {
	case i.Blocked != "":
		x.add(levelProblem, name, "make the function depend on the object alone, and return soon", "%s; %d changes wait", i.Blocked, i.QueueDepth)
	case i.QueueAge >= longBehind:
		x.add(levelWarning, name, "see whether an index function is slow", "%d changes wait for the cache, the oldest for %s", i.QueueDepth, terminal.Duration(i.QueueAge))
	}
	for _, h := range i.Handlers {
		about := name + ", handler " + h.Name + " (" + h.Place + ")"
		if h.Behind >= longBehind {
			x.add(levelWarning, about, "make it only add to a queue, or coalesce", "is %s behind, with %d events to hear; its longest call takes or took %s", terminal.Duration(h.Behind), h.Pending, terminal.Duration(h.Slowest))
		}
		if h.Panics > 0 {
			x.add(levelProblem, about, "the log has its stack", "panicked %s%s", terminal.Times(h.Panics), last(h.Failure))
		}
		if h.Errors > 0 {
			x.add(levelWarning, about, "", "failed %s%s", terminal.Times(h.Errors), last(h.Failure))
		}
	}
}

// missing is why there is no list, without the name before it.
func missing(r reflector.Status) string {
	return strings.TrimPrefix(r.Missing().Error(), r.Resource+": ")
}

// last is what failed last, if that is known.
func last(f *failure.Failure) string {
	if f == nil {
		return ""
	}
	return ", last with: " + failure.Reason(f.Err)
}

// indexes looks for a value that most objects have: looking it up is looking at all.
func (x *examination) indexes(ctx context.Context, i *debug.Informer) error {
	all, err := x.process.Indexes(ctx, i.Which(), 1)
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

// controllers looks for those that do not run, and for keys that are stuck.
func (x *examination) controllers(ctx context.Context, s *debug.Status) error {
	for n := range s.Controllers {
		c := &s.Controllers[n]
		if c.State != controller.Running {
			x.stopped(c, s.Election)
			continue
		}
		if c.Panics > 0 {
			x.add(levelProblem, c.Name, "see the log", "panicked %s", terminal.Times(c.Panics))
		}
		if c.Terminal > 0 {
			x.add(levelWarning, c.Name, "the log names them; a change or a resync leads to the next try", "gave up on %d requests", c.Terminal)
		}
		if c.Stale > 0 {
			x.add(levelWarning, c.Name, "see whether the watches of its informers are behind", "reconciled %s without seeing its own last write", terminal.Times(c.Stale))
		}
		keys, err := x.process.Queue(ctx, c.Name, keysRead)
		if _, refused := asRefused(err); refused { // it has gone meanwhile
			continue
		}
		if err != nil {
			return err
		}
		x.keys(c.Name, keys)
	}
	return nil
}

// stopped tells of a controller that does not run. One that waits for the lease is no problem.
func (x *examination) stopped(c *controller.Status, e *leaderelection.Status) {
	what := fmt.Sprintf("is %s", c.State)
	if e != nil && !e.Leading {
		x.add(levelOK, c.Name, "", "%s, as this replica does not lead", what)
		return
	}
	level := levelWarning
	for _, source := range c.Sources {
		if !source.Synced && source.Waiting != nil {
			level = levelProblem
			what += fmt.Sprintf("; %s is not synced: %v", source.Name, source.Waiting)
		}
	}
	x.add(level, c.Name, "", "%s", what)
}

// keys looks for those that hang, starve or keep failing.
func (x *examination) keys(name string, keys *debug.Keys) {
	if len(keys.Running) > 0 && keys.Running[0].For >= longRunning {
		x.add(levelWarning, name, "see what it waits for; controller.Options.Timeout bounds a reconcile", "has been reconciling %s for %s", keys.Running[0].Key, terminal.Duration(keys.Running[0].For))
	}
	if len(keys.Waiting) > 0 && keys.Waiting[0].For >= longWaiting {
		x.add(levelWarning, name, "see what keeps its workers busy: "+x.askWhy(keys.Waiting[0].Key), "%s has waited for a worker for %s", keys.Waiting[0].Key, terminal.Duration(keys.Waiting[0].For))
	}
	var worst *debug.Key
	for _, held := range [][]debug.Key{keys.Running, keys.Waiting, keys.Delayed} {
		for n := range held {
			if k := &held[n]; k.Requeues >= failsInRow && (worst == nil || k.Requeues > worst.Requeues) {
				worst = k
			}
		}
	}
	if worst != nil {
		x.add(levelWarning, name, x.askWhy(worst.Key)+" says why", "failed on %s %d times in a row", worst.Key, worst.Requeues)
	}
}

// askWhy is the command that asks why about a key.
func (x *examination) askWhy(key string) string {
	verb := "why " + key
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		verb = "why " + name + " -n " + namespace
	}
	return x.command(verb)
}

// command is a command about the process.
func (x *examination) command(verb string) string {
	command := "informer-debug " + verb
	if x.to != "" {
		command += " --attach " + x.to
	}
	return command
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
		if c.State == controller.Running {
			look(c.Name, c.Queue.Waiting, c.Queue.Running)
		}
	}
	for _, q := range now.Queues {
		look(q.Name, q.Waiting, q.Running)
	}
}

// busiest looks for keys that are reconciled over and over, and for objects that change so often.
// Where a controller reconciles it as often, that is said alone: it is the cause, or has the work.
func (x *examination) busiest(ctx context.Context) error {
	busy, err := x.process.Busiest(ctx, oftenWithin, busiestShown)
	if err != nil {
		return err
	}
	told := map[object.Key]bool{}
	for _, b := range busy.Keys {
		if b.Role == flight.Controller && b.Count >= oftenEnough {
			told[b.Key] = true
			x.add(levelWarning, b.Name, "see whether it writes what it watches: informer-debug churn TYPE says who writes which fields", "reconciled %s %s within %s", object.FormatKey(b.Key), terminal.Times(uint64(b.Count)), busy.Within)
		}
	}
	for _, b := range busy.Keys {
		if b.Role == flight.Informer && b.Count >= oftenEnough && !told[b.Key] {
			x.add(levelWarning, b.Name, "informer-debug churn TYPE says who writes which fields", "%s changed %s within %s", object.FormatKey(b.Key), terminal.Times(uint64(b.Count)), busy.Within)
		}
	}
	return nil
}

// asRefused reports whether a process has answered, and does not do what it was asked for.
func asRefused(err error) (*debug.RefusedError, bool) { return errors.AsType[*debug.RefusedError](err) }
