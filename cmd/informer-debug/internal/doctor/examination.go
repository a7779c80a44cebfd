package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
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
	longBehind   = 10 * time.Second // a handler lags
	longCall     = 5 * time.Second  // time after which a call's current function is reported
	longRunning  = time.Minute      // time after which a call seems to hang
	longWaiting  = time.Minute      // a key starves
	hugeBucket   = 1000             // number of objects under one index value, if that is the majority
	growth       = 10               // number of keys added to a queue
	oftenWithin  = 60               // seconds in which
	oftenEnough  = 60               // this many reconciles of a key look like a loop, and this many changes make it hot
	oftenRelists = 5                // too many lists in an hour
	failsInRow   = 3                // number of failures after which the cause seems permanent
	keysRead     = 100              // of a queue
	busiestShown = 5
)

// examination examines a process.
type examination struct {
	*findings
	process *debug.Client
	to      string // the --attach flag, for suggested commands
	status  *debug.Status
	names   []string      // unique names of the informers in status
	stacks  []debug.Stack // stacks of the calls in progress
}

// run examines the process twice, one period apart.
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
	if stacks, err := x.process.Stacks(ctx, ""); err == nil { // optional: without stacks, findings do not show where calls are
		x.stacks = stacks.Stacks
	}
	x.status, x.names = status, sight.Distinct(status.Informers)
	x.anything(status)
	x.election(status)
	x.groups(status)
	for n := range status.Informers {
		i := &status.Informers[n]
		x.informer(i, x.names[n], status.At)
		x.relists(before, i, period, status.Process.Uptime)
		if err := x.indexes(ctx, i); err != nil {
			return err
		}
	}
	if err := x.twice(ctx, status.Informers); err != nil {
		return err
	}
	if err := x.controllers(ctx, status); err != nil {
		return err
	}
	x.queues(before, status, period)
	return x.busiest(ctx)
}

// twice finds informers that cache the same objects: they have the same name, and their first objects
// have the same UID, even if their clusters have different names.
func (x *examination) twice(ctx context.Context, all []debug.Informer) error {
	type what struct{ informer, uid string }
	same := map[what][]debug.Which{}
	for n := range all {
		which := all[n].Which()
		key := what{informer: which.Informer}
		if objects, err := x.process.Objects(ctx, which, debug.Page{Limit: 1}); err == nil && len(objects.Heads) > 0 {
			key.uid = objects.Heads[0].UID
		} else if _, refused := asRefused(err); err != nil && !refused {
			return err
		} else {
			key.uid = "of cluster " + which.Cluster // two informers in a cluster cannot have the same name, and empty ones have no UID
		}
		same[key] = append(same[key], which)
	}
	for n := range all {
		for key, whichs := range same {
			if len(whichs) < 2 || whichs[0] != all[n].Which() {
				continue
			}
			delete(same, key) // report each set once
			var names []string
			for _, w := range whichs {
				name := w.Type
				if w.Cluster != "" {
					name += " of cluster " + w.Cluster
				}
				names = append(names, name)
			}
			slices.Sort(names)
			do := "share one informer: a factory returns the same one to all callers"
			if slices.ContainsFunc(whichs, func(w debug.Which) bool { return w.Type != whichs[0].Type }) {
				do = "use one Go type for them: a factory has one informer per type"
			}
			x.add(levelWarning, key.informer, do, "%d informers cache the same objects as %s", len(whichs), strings.Join(slices.Compact(names), ", "))
		}
	}
	return nil
}

// anything warns if a process exposes nothing, since an empty report would look like a clean bill of health.
func (x *examination) anything(s *debug.Status) {
	if len(s.Informers)+len(s.Controllers)+len(s.Queues)+len(s.Groups) == 0 && s.Election == nil {
		x.add(levelWarning, "process "+s.Process.Program, "pass its components to debug.Options; a manager does so automatically", "exposes no informers, controllers, queues or election")
	}
}

// election reports the current leader. Not being the leader is not a problem.
func (x *examination) election(s *debug.Status) {
	e := s.Election
	switch {
	case e == nil:
	case e.Lost != nil:
		x.add(levelProblem, "lease "+object.FormatKey(e.Lease), "work that does not stop is keeping this replica running", "was lost while work is still running: %v", e.Lost)
	case e.Attempts > 0:
		x.add(levelProblem, "lease "+object.FormatKey(e.Lease), "", "cannot be read or renewed: %v", e.Failure)
	case e.Leading:
		x.add(levelOK, "lease "+object.FormatKey(e.Lease), "", "this replica is the leader")
	case e.Holder == "":
		x.add(levelWarning, "lease "+object.FormatKey(e.Lease), "", "no replica is the leader")
	default:
		x.add(levelNote, "lease "+object.FormatKey(e.Lease), "", "%s is the leader; this replica is on standby", e.Holder)
	}
}

// groups examines the groups that share work with this process.
func (x *examination) groups(s *debug.Status) {
	for n := range s.Groups {
		g := &s.Groups[n]
		about := fmt.Sprintf("group %s/%s", g.Namespace, g.Name)
		switch {
		case g.Refusal != "":
			x.add(levelProblem, about, "", "this process does not participate: %s", g.Refusal)
			continue
		case g.Attempts > 0:
			x.add(levelProblem, about, "", "its Leases cannot be read or renewed: %s", g.Failure)
			continue
		case g.Orphaned > 0:
			x.add(levelWarning, about, "the remaining members take over after a while", "no member works on %d of %d slots", g.Orphaned, g.Slots)
		default:
			x.add(levelOK, about, "", "this process works on slots %s", terminal.OrDash(g.Owned))
		}
		for _, m := range g.Members {
			if m.Trouble != "" {
				x.add(levelWarning, about, "", "%s does not participate: %s", m.Identity, m.Trouble)
			}
		}
	}
}

// relists finds informers that repeatedly list all objects.
func (x *examination) relists(before *debug.Status, i *debug.Informer, period, uptime time.Duration) {
	const do = "the server drops changes before the watch requests them: check the size of its watch cache, and what interrupts watches"
	var had uint64
	for n := range before.Informers {
		if b := &before.Informers[n]; b.Which() == i.Which() {
			had = max(had, b.Reflector.Relists) // a lower bound if several informers have the same name
		}
	}
	switch all := i.Reflector.Relists; {
	case all > had+1:
		x.add(levelWarning, i.Reflector.Resource, do, "all objects were listed again %d times within %s", all-had, period)
	case all > oftenRelists && float64(all) > oftenRelists*uptime.Hours():
		x.add(levelWarning, i.Reflector.Resource, do, "all objects were listed again %d times in %s", all, terminal.Duration(uptime))
	}
}

// informer examines one informer and its handlers.
func (x *examination) informer(i *debug.Informer, name string, now time.Time) {
	switch r := i.Reflector; {
	case !i.Synced && i.Leaving != "" && r.Attempts == 0:
		x.add(levelProblem, name, "its source, transform or hook must return when the context is done", "cannot sync until the source returns from %s", i.Leaving)
	case !i.Synced:
		x.add(levelProblem, name, howToAllow(i), "has no complete initial list: %s", missing(r))
	case r.Attempts > 0 && !r.Polling:
		old := ""
		if age := r.Age(now); age > 0 {
			old = "; it is " + terminal.Duration(age) + " old"
		}
		x.add(levelProblem, name, "", "the cache is stale, at version %s: %s%s", terminal.OrDash(i.RV), missing(r), old)
	case r.State == reflector.Stopped:
		x.add(levelProblem, name, "", "%s; %d objects, complete up to version %s", i.Trouble(now), i.Objects, terminal.OrDash(i.RV))
	case i.Trouble(now) != "":
		x.add(levelWarning, name, x.command("check")+" compares the cache with the server", "%s; %d objects, complete up to version %s", i.Trouble(now), i.Objects, terminal.OrDash(i.RV))
	default:
		x.add(levelOK, name, "", "%s, %d objects, complete up to version %s", r.State, i.Objects, terminal.OrDash(i.RV))
	}
	if i.Failure != nil {
		x.add(levelWarning, name, "", "%v", i.Failure)
	}
	if i.Reflector.Unordered {
		x.add(levelWarning, name, "do not rely on waiting for a version", "the server's versions do not increase across objects")
	}
	switch {
	case i.Blocked != "":
		x.add(levelProblem, name, "make the function depend only on the object, and return quickly", "%s; %d changes are queued", i.Blocked, i.QueueDepth)
	case i.QueueAge >= longBehind:
		x.add(levelWarning, name, "check whether an index function is slow", "%d changes are queued for the cache, the oldest for %s", i.QueueDepth, terminal.Duration(i.QueueAge))
	}
	for _, h := range i.Handlers {
		about := name + ", handler " + h.Name
		if h.Place != h.Name {
			about += " (" + h.Place + ")"
		}
		if h.Behind >= longBehind || h.Busy >= longCall {
			level, what, do := levelWarning, fmt.Sprintf("is %s behind, with %d pending events; ", terminal.Duration(h.Behind), h.Pending), "make it only add to a queue, or coalesce events"
			if h.Busy >= longCall {
				what += fmt.Sprintf("it has been handling %s for %s%s", object.FormatKey(h.Key), terminal.Duration(h.Busy), x.where(func(s *debug.Stack) bool { return s.Handler == h.Name && s.Informer == i.Reflector.Resource }))
			} else {
				what += "its longest call has taken " + terminal.Duration(h.Slowest)
			}
			if h.Busy >= longRunning {
				level = levelProblem
			}
			x.add(level, about, do, "%s", what)
		}
		if h.Panics > 0 {
			x.add(levelProblem, about, "see the log for its stack", "panicked %s%s", terminal.Times(h.Panics), last(h.Failure))
		}
		if h.Errors > 0 {
			x.add(levelWarning, about, "", "failed %s%s", terminal.Times(h.Errors), last(h.Failure))
		}
	}
}

// forbidden matches the API server's response if a user is not allowed to list or watch.
var forbidden = regexp.MustCompile(`is forbidden: User "([\w:.@-]+)" cannot (?:list|watch) `)

// howToAllow returns the command that prints a role allowing the informer's user to list and watch, or "".
func howToAllow(i *debug.Informer) string {
	user := forbidden.FindStringSubmatch(missing(i.Reflector))
	scopes, err := sight.Scopes(i)
	if user == nil || err != nil || i.Cluster != "" {
		return ""
	}
	where := " -A"
	if scopes[0].Namespace != "" {
		where = " -n " + scopes[0].Namespace
	}
	return "informer-debug doctor " + sight.Resource(i.Reflector.Resource) + where + " --as " + user[1] + " prints a role that allows it"
}

// where completes a sentence with the functions that the matching calls are currently in.
func (x *examination) where(match func(*debug.Stack) bool) string {
	var places []string
	for n := range x.stacks {
		if s := &x.stacks[n]; match(s) && !slices.Contains(places, s.Where()) && len(places) < busiestShown {
			places = append(places, s.Where())
		}
	}
	if len(places) == 0 {
		return ""
	}
	return ", in " + strings.Join(places, " or ")
}

// missing explains why there is no list, without repeating the resource's name.
func missing(r reflector.Status) string {
	return strings.TrimPrefix(r.Missing().Error(), r.Resource+": ")
}

// last describes the last failure, if known.
func last(f *failure.Failure) string {
	if f == nil {
		return ""
	}
	return ", last with: " + failure.Reason(f.Err)
}

// indexes finds index values shared by most objects. Looking one up returns most of the cache.
func (x *examination) indexes(ctx context.Context, i *debug.Informer) error {
	all, err := x.process.Indexes(ctx, i.Which(), 1)
	if _, refused := asRefused(err); refused { // not a Millrace informer, or two with the same name
		return nil
	}
	if err != nil {
		return err
	}
	for _, index := range all.Indexes {
		if len(index.Largest) > 0 && index.Largest[0].Objects >= hugeBucket && 2*index.Largest[0].Objects > i.Objects {
			x.add(levelWarning, i.Reflector.Resource+", index "+index.Name, "choose values that distinguish objects", "%d of %d objects share one value", index.Largest[0].Objects, i.Objects)
		}
	}
	return nil
}

// controllers finds controllers that are not running and keys that are stuck.
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
			x.add(levelWarning, c.Name, "see the log for their keys; a change or a resync triggers the next attempt", "gave up on %d requests", c.Terminal)
		}
		if c.Stale > 0 {
			x.add(levelWarning, c.Name, "check whether its informers' watches are behind", "reconciled %s without seeing its own last write", terminal.Times(c.Stale))
		}
		x.leftOut(c, s.Informers)
		keys, err := x.process.Queue(ctx, c.Name, keysRead)
		if _, refused := asRefused(err); refused { // it has finished in the meantime
			continue
		}
		if err != nil {
			return err
		}
		x.keys(c, keys)
	}
	return nil
}

// leftOut notes changes that did not lead to requests, since a controller that filters out its changes looks
// idle.
func (x *examination) leftOut(c *controller.Status, informers []debug.Informer) {
	const few = 3
	for _, source := range c.Sources {
		for n := range informers {
			for _, h := range informers[n].Handlers {
				if h.Name == "controller "+c.Name+": "+source.Name && h.Delivered >= source.Added+few {
					x.add(levelNote, c.Name, x.command("why TYPE/NAME")+" explains it for one object", "%d of %d changes to %s led to no reconcile: a predicate or the map function dropped them", h.Delivered-source.Added, h.Delivered, source.Name)
				}
			}
		}
	}
}

// stopped reports a controller that is not running, unless it is only waiting for the lease.
func (x *examination) stopped(c *controller.Status, e *leaderelection.Status) {
	what, level := fmt.Sprintf("is %s", c.State), levelWarning
	for _, source := range c.Sources {
		if !source.Synced && source.Waiting != nil {
			level = levelProblem
			what += fmt.Sprintf("; %s is not synced: %v", source.Name, source.Waiting)
		}
	}
	if waits := c.State == controller.Waiting && level == levelProblem; e != nil && !e.Leading && !waits {
		level, what = levelOK, fmt.Sprintf("is %s, because this replica is not the leader", c.State)
	}
	x.add(level, c.Name, "", "%s", what)
}

// keys finds keys that hang, starve or keep failing.
func (x *examination) keys(c *controller.Status, keys *debug.Keys) {
	name, workers := c.Name, c.Concurrency
	var hang []string
	for _, k := range keys.Running {
		if k.For >= longCall && len(hang) < busiestShown {
			hang = append(hang, fmt.Sprintf("%s for %s", k.Key, terminal.Duration(k.For)))
		}
	}
	all := workers > 0 && len(keys.Running) >= workers && keys.Running[workers-1].For >= longCall
	if waiting := keys.Queue.Waiting; len(hang) > 0 && (keys.Running[0].For >= longRunning || all && waiting > 0) {
		level, busy := levelWarning, "has been reconciling "
		if keys.Running[0].For >= longRunning {
			level = levelProblem
		}
		if all && waiting > 0 {
			busy = fmt.Sprintf("every worker is busy, and %d keys wait: it has been reconciling ", keys.Queue.Waiting)
		}
		x.add(level, name, "find out what it is waiting for; controller.Options.Timeout limits a reconcile", "%s%s%s", busy, strings.Join(hang, " and "), x.where(func(s *debug.Stack) bool { return s.Controller == name }))
	}
	if len(keys.Waiting) > 0 && keys.Waiting[0].For >= longWaiting {
		x.add(levelWarning, name, "find out what keeps its workers busy: "+x.askWhy(keys.Waiting[0].Key), "%s has been waiting for a worker for %s", keys.Waiting[0].Key, terminal.Duration(keys.Waiting[0].For))
	}
	var worst *debug.Key
	for _, held := range [][]debug.Key{keys.Running, keys.Waiting, keys.Delayed, keys.Parked} {
		for n := range held {
			if k := &held[n]; k.Requeues >= failsInRow && (worst == nil || k.Requeues > worst.Requeues) {
				worst = k
			}
		}
	}
	if worst != nil {
		with := ""
		if c.Failure != nil && c.Failure.Request.String() == worst.Key {
			with = ", last with: " + failure.Reason(c.Failure.Err)
		}
		x.add(levelWarning, name, x.askWhy(worst.Key)+" shows when it will retry", "failed on %s %d times in a row%s", worst.Key, worst.Requeues, with)
	}
}

// askWhy returns the why command for a key.
func (x *examination) askWhy(key string) string { return x.command("why " + key) }

// command returns an informer-debug command for this process.
func (x *examination) command(verb string) string {
	command := "informer-debug " + verb
	if x.to != "" {
		command += " --attach " + x.to
	}
	return command
}

// queues finds queues that have grown.
func (x *examination) queues(before, now *debug.Status, period time.Duration) {
	had := map[string]int{}
	for _, c := range before.Controllers {
		had[c.Name] = c.Queue.Waiting
	}
	for _, q := range before.Queues {
		had[q.Name] = q.Waiting
	}
	look := func(name string, waiting, running int, more ...string) {
		if grown := waiting - had[name]; grown >= growth {
			x.add(levelWarning, name, "give it more workers, or make reconciles faster", "its queue has grown by %d to %d keys within %s", grown, waiting, period)
			return
		}
		x.add(levelOK, name, "", "%d queued, %d in progress%s", waiting, running, strings.Join(more, ""))
	}
	for _, c := range now.Controllers {
		if c.State == controller.Running {
			var parked []string
			if c.Parked > 0 {
				parked = []string{fmt.Sprintf(", %d parked until a cache has their writes", c.Parked)}
			}
			look(c.Name, c.Queue.Waiting, c.Queue.Running, parked...)
		}
	}
	for _, q := range now.Queues {
		look(q.Name, q.Waiting, q.Running)
	}
}

// busiest finds keys that are reconciled too often, and objects that change too often.
func (x *examination) busiest(ctx context.Context) error {
	const do = "informer-debug churn %s shows who writes which fields"
	busy, err := x.process.Busiest(ctx, oftenWithin, busiestShown)
	if err != nil {
		return err
	}
	told := map[object.Key]bool{}
	for _, b := range busy.Keys {
		if b.Role != flight.Controller || b.Count < oftenEnough {
			continue
		}
		written, err := x.writtenBy(ctx, b.Name, b.Key)
		if err != nil {
			return err
		}
		if told[b.Key] = written; written {
			x.add(levelWarning, b.Name, "check whether it writes objects that it watches: "+fmt.Sprintf(do, "TYPE"), "reconciled %s %s within %s", object.FormatKey(b.Key), terminal.Times(uint64(b.Count)), busy.Within)
		}
	}
	for _, b := range busy.Keys {
		if b.Role == flight.Informer && b.Count >= oftenEnough && !told[b.Key] {
			by := ""
			if _, reconciled := told[b.Key]; reconciled {
				by = ", mostly while no reconcile of it was in progress: something else writes it"
			}
			x.add(levelWarning, b.Name, fmt.Sprintf(do, typeOf(b.Name, b.Key)), "%s changed %s within %s%s", object.FormatKey(b.Key), terminal.Times(uint64(b.Count)), busy.Within, by)
		}
	}
	return nil
}

// typeOf returns the command-line arguments that select the informer's objects in key's namespace.
func typeOf(informer string, key object.Key) string {
	name := sight.Resource(informer)
	if _, err := object.ParseResourceArg(name); err != nil {
		return "TYPE"
	}
	if key.Namespace != "" {
		name += " -n " + key.Namespace
	}
	return name
}

// writtenBy reports whether a controller seems to cause the changes to an object it reconciles: at least half
// of them arrived during a reconcile or just after. It also returns true if there were no changes, because
// then the controller must be requeuing the key itself.
func (x *examination) writtenBy(ctx context.Context, name string, key object.Key) (bool, error) {
	line, err := x.process.Timeline(ctx, "", key)
	if err != nil {
		return false, err
	}
	changes, inside := 0, 0
	var taken, until time.Time
	for _, e := range line.Entries {
		switch {
		case e.Role == flight.Controller && e.Name == name && e.Kind == flight.Taken:
			taken, until = e.At, time.Time{}
		case e.Role == flight.Controller && e.Name == name && e.Kind == flight.Done:
			until = e.At.Add(e.Took) // the event may take as long to arrive as the response to the write
		case e.Role == flight.Informer && e.Kind == flight.Applied && e.Change == "update":
			changes++
			if at := e.At.Add(-max(e.Received, 0)); !taken.IsZero() && !at.Before(taken) && (until.IsZero() || !at.After(until)) {
				inside++
			}
		}
	}
	return 2*inside >= changes, nil
}

// asRefused reports whether err is an error response from the process.
func asRefused(err error) (*debug.RefusedError, bool) { return errors.AsType[*debug.RefusedError](err) }
