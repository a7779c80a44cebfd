package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/workqueue"
)

// place is a location on the screen, with a title and tabs.
type place struct {
	title string
	tabs  []tab
}

// tab is one of a place's tables, with the function that loads it.
type tab struct {
	name    string
	load    func(context.Context, *asker) (table, error)
	trouble func(*debug.Status) bool // reports whether any rows are in trouble; nil if that never happens
}

// asker queries the process. It must not be used concurrently.
type asker struct {
	process *debug.Client
	rates   rates
	keep    time.Duration // how long a count that is no longer shown is kept
	status  *debug.Status // the latest
}

// ask requests a new status.
func (a *asker) ask(ctx context.Context) (*debug.Status, error) {
	s, err := a.process.Status(ctx)
	if err != nil {
		return nil, err
	}
	a.status = s
	a.rates.forget(s.At.Add(-a.keep))
	return s, nil
}

// home returns the place for the whole process.
func home(called string) *place {
	return &place{called, []tab{
		{name: "informers", load: loadInformers, trouble: func(s *debug.Status) bool {
			return slices.ContainsFunc(s.Informers, func(i debug.Informer) bool { return informerTrouble(&i, s.At) })
		}},
		{name: "controllers", load: loadControllers, trouble: func(s *debug.Status) bool {
			return slices.ContainsFunc(s.Controllers, func(c controller.Status) bool { return controllerTrouble(&c) }) ||
				slices.ContainsFunc(s.Queues, func(q workqueue.Status) bool { return hangs(&q, q.Sleeping == 0) })
		}},
		{name: "busiest", load: loadBusiest},
		{name: "stages", load: loadStages},
		{name: "goroutines", load: loadGoroutines},
	}}
}

func loadInformers(ctx context.Context, a *asker) (table, error) {
	s, err := a.ask(ctx)
	if err != nil {
		return table{}, err
	}
	t := table{columns: []column{
		{name: "INFORMER", long: true}, {name: "STATE"}, {name: "OBJECTS", right: true}, {name: "EV/S", right: true}, {name: "BEHIND", right: true},
		{name: "QUEUED", right: true}, {name: "PACKED", right: true}, {name: "RELISTS", right: true}, {name: "FAILURES", right: true}, {name: "RV", right: true}, {name: "TYPE", long: true},
	}}
	for n := range s.Informers {
		i := &s.Informers[n]
		id := fmt.Sprintf("informer %s %s %s %d", i.Cluster, i.Type, i.Reflector.Resource, sameBefore(s.Informers[:n], i))
		perSecond, known := a.rates.of(id, s.At, i.Reflector.Events)
		name := i.Reflector.Resource
		if i.Cluster != "" {
			name = i.Cluster + ": " + name
		}
		which := i.Which()
		t.rows = append(t.rows, row{id: id, trouble: informerTrouble(i, s.At), cells: []cell{
			word(name), word(i.Reflector.State.String()), count(i.Objects), rate(perSecond, known), lasting(behind(i)),
			countOrDash(i.QueueDepth), size(i.Packed.Bytes), count(i.Reflector.Relists), count(i.Reflector.Failures), word(orDash(i.RV)), word(orDash(i.Type)),
		}, about: informerAbout(i, s.At), enter: func() *place { return informer(which) }})
	}
	return t, nil
}

// behind returns how far an informer's cache or slowest handler is behind.
func behind(i *debug.Informer) time.Duration {
	most := i.QueueAge
	for _, h := range i.Handlers {
		most = max(most, h.Behind)
	}
	return most
}

func informerTrouble(i *debug.Informer, now time.Time) bool {
	return !i.Synced || i.Trouble(now) != "" || behind(i) > time.Second
}

// informerAbout describes the problem with an informer, or returns "".
func informerAbout(i *debug.Informer, now time.Time) string {
	r := &i.Reflector
	switch {
	case r.Waiting != "":
		return r.Waiting
	case r.Failure != nil && (r.Attempts > 0 || !i.Synced):
		return r.Failure.Error()
	case i.Failure != nil:
		return i.Failure.Error()
	case !i.Synced && i.Leaving != "":
		return "not synced: waiting for the source to return from " + i.Leaving
	case !i.Synced:
		return "not synced: " + r.State.String()
	}
	for _, h := range i.Handlers {
		if h.Behind > time.Second {
			return "handler " + h.Name + " is " + short(h.Behind) + " behind: " + handlerAbout(&h)
		}
	}
	if i.QueueAge > time.Second {
		return cmp.Or(i.Blocked, fmt.Sprintf("%d changes are queued for the cache, the oldest for %s", i.QueueDepth, short(i.QueueAge)))
	}
	return i.Trouble(now)
}

// stuck is how long the workers must have been busy, with keys waiting, to look stuck.
const stuck = 5 * time.Second

// hangs reports whether work has been running or waiting so long that doctor would warn about it. all means
// that no worker is free.
func hangs(q *workqueue.Status, all bool) bool {
	return max(q.OldestWaiting, q.LongestRunning) > time.Minute || all && q.Waiting > 0 && min(q.OldestWaiting, q.LongestRunning) > stuck
}

func controllerTrouble(c *controller.Status) bool {
	return c.State != controller.Running || hangs(&c.Queue, c.Active >= c.Concurrency)
}

// queueAbout describes the problem with a queue that hangs.
func queueAbout(q *workqueue.Status) string {
	return fmt.Sprintf("%d of its keys are waiting, the oldest for %s; a worker has been busy with one for %s", q.Waiting, short(q.OldestWaiting), short(q.LongestRunning))
}

// sameBefore counts the preceding informers with the same name, which makes IDs unique.
func sameBefore(before []debug.Informer, i *debug.Informer) (n int) {
	for _, b := range before {
		if b.Cluster == i.Cluster && b.Type == i.Type && b.Reflector.Resource == i.Reflector.Resource {
			n++
		}
	}
	return n
}

func loadControllers(ctx context.Context, a *asker) (table, error) {
	s, err := a.ask(ctx)
	if err != nil {
		return table{}, err
	}
	t := table{columns: []column{
		{name: "CONTROLLER", long: true}, {name: "STATE"}, {name: "REC/S", right: true}, {name: "BUSY", right: true}, {name: "WAITING", right: true},
		{name: "OLDEST", right: true}, {name: "LONGEST", right: true}, {name: "DELAYED", right: true}, {name: "PARKED", right: true}, {name: "ERRORS", right: true},
	}}
	for n := range s.Controllers {
		c := &s.Controllers[n]
		id := "controller " + c.Name
		perSecond, known := a.rates.of(id, s.At, c.Successes+c.Requeues+c.RequeuesAfter+c.Errors)
		last := ""
		if c.Failure != nil {
			last = "last failure: " + c.Failure.Error()
		}
		if controllerTrouble(c) {
			if last = queueAbout(&c.Queue); c.State != controller.Running {
				last = "is " + c.State.String()
				for _, source := range c.Sources {
					if source.Waiting != nil {
						last += "; " + source.Name + ": " + source.Waiting.Error()
					}
				}
			}
		}
		t.rows = append(t.rows, row{id: id, trouble: controllerTrouble(c), cells: []cell{
			word(c.Name), word(c.State.String()), rate(perSecond, known), {fmt.Sprintf("%d/%d", c.Active, c.Concurrency), float64(c.Active)}, countOrDash(c.Queue.Waiting),
			lasting(c.Queue.OldestWaiting), lasting(c.Queue.LongestRunning), countOrDash(c.Queue.Delayed), countOrDash(c.Parked), count(c.Errors),
		}, about: last, enter: func() *place { return queue(c.Name) }})
	}
	for n := range s.Queues {
		q := &s.Queues[n]
		id := "queue " + q.Name
		perSecond, known := a.rates.of(id, s.At, q.Gets)
		about := q.HookFailure
		if hangs(q, q.Sleeping == 0) {
			about = cmp.Or(about, queueAbout(q))
		}
		t.rows = append(t.rows, row{id: id, trouble: hangs(q, q.Sleeping == 0), cells: []cell{
			word(q.Name), word(q.State.String()), rate(perSecond, known), {fmt.Sprintf("%d/%d", q.Running, q.Running+q.Sleeping), float64(q.Running)}, countOrDash(q.Waiting),
			lasting(q.OldestWaiting), lasting(q.LongestRunning), countOrDash(q.Delayed), {text: "-"}, count(q.Retries),
		}, about: about, enter: func() *place { return queue(q.Name) }})
	}
	return t, nil
}

func loadBusiest(ctx context.Context, a *asker) (table, error) {
	if _, err := a.ask(ctx); err != nil {
		return table{}, err
	}
	b, err := a.process.Busiest(ctx, 60, 100)
	if err != nil {
		return table{}, err
	}
	t := table{columns: []column{{name: "KEY", long: true}, {name: "CHANGES", right: true}, {name: "OF"}, {name: "NAME", long: true, ends: true}}}
	t.note = "changes and reconciles in the last " + short(b.Within)
	for _, k := range b.Keys {
		informer := k.Informer
		if k.Role == flight.Informer {
			informer = k.Name
		}
		t.rows = append(t.rows, row{id: fmt.Sprint(k.Track, k.Key), cells: []cell{
			word(object.FormatKey(k.Key)), count(k.Count), word(string(k.Role)), word(k.Name),
		}, enter: func() *place { return key(debug.Which{Informer: informer}, k.Key) }})
	}
	return t, nil
}

func loadStages(ctx context.Context, a *asker) (table, error) {
	s, err := a.ask(ctx)
	if err != nil {
		return table{}, err
	}
	t := table{columns: []column{
		{name: "OF", long: true, ends: true}, {name: "STAGE"}, {name: "1M", right: true}, {name: "P50", right: true}, {name: "P90", right: true},
		{name: "P99", right: true}, {name: "MAX", right: true}, {name: "1H", right: true}, {name: "P50", right: true}, {name: "P99", right: true},
	}, note: "how long each stage took within the last minute, and the last hour"}
	for _, track := range s.Recorder.Tracks {
		for _, stage := range track.Stages {
			t.rows = append(t.rows, row{id: fmt.Sprint(track.Track, stage.Stage), cells: []cell{
				word(track.Name), word(string(stage.Stage)), count(stage.Minute.Count), lasting(stage.Minute.P50), lasting(stage.Minute.P90),
				lasting(stage.Minute.P99), lasting(stage.Minute.Max), count(stage.Hour.Count), lasting(stage.Hour.P50), lasting(stage.Hour.P99),
			}})
		}
	}
	return t, nil
}

func loadGoroutines(ctx context.Context, a *asker) (table, error) {
	if _, err := a.ask(ctx); err != nil {
		return table{}, err
	}
	g, err := a.process.Goroutines(ctx)
	if err != nil {
		return table{}, err
	}
	t := table{columns: []column{{name: "PACKAGE", long: true, ends: true}, {name: "GOROUTINES", right: true}, {name: "MOST OF THEM IN", long: true, ends: true}}}
	for _, o := range g.Owners {
		most := "-"
		if len(o.Functions) > 0 {
			most = o.Functions[0].Name
		}
		t.rows = append(t.rows, row{id: o.Package, cells: []cell{word(o.Package), count(o.Count), word(most)}})
	}
	return t, nil
}

// line adds a line of text.
func (t *table) line(text string) {
	t.rows = append(t.rows, row{id: fmt.Sprint(len(t.rows)), cells: []cell{word(text)}})
}

// facts returns a table of names and values.
func facts(pairs ...string) table {
	t := table{columns: []column{{name: "WHAT"}, {name: "IS", long: true}}}
	for pair := range slices.Chunk(pairs, 2) {
		t.rows = append(t.rows, row{id: pair[0], cells: []cell{word(pair[0]), word(pair[1])}})
	}
	return t
}
