package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// place is where one can be: what it is called, and its tabs.
type place struct {
	title string
	tabs  []tab
}

// tab is a table of a place, and how to come by it.
type tab struct {
	name string
	load func(context.Context, *asker) (table, error)
}

// asker asks the process. It is used by one goroutine at a time.
type asker struct {
	process *debug.Client
	rates   rates
	status  *debug.Status // the last one
}

// ask gets a new status.
func (a *asker) ask(ctx context.Context) (*debug.Status, error) {
	s, err := a.process.Status(ctx)
	if err != nil {
		return nil, err
	}
	a.status = s
	a.rates.forget(s.At.Add(-time.Minute))
	return s, nil
}

// home is the whole process.
func home(called string) *place {
	return &place{called, []tab{
		{"informers", loadInformers},
		{"controllers", loadControllers},
		{"busiest", loadBusiest},
		{"stages", loadStages},
		{"goroutines", loadGoroutines},
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
		behind := i.QueueAge
		for _, h := range i.Handlers {
			behind = max(behind, h.Behind)
		}
		id := fmt.Sprintf("informer %s %s %s %d", i.Cluster, i.Type, i.Reflector.Resource, sameBefore(s.Informers[:n], i))
		perSecond, known := a.rates.of(id, s.At, i.Reflector.Events)
		name := i.Reflector.Resource
		if i.Cluster != "" {
			name = i.Cluster + ": " + name
		}
		which := debug.Which{Informer: i.Reflector.Resource, Type: i.Type, Cluster: i.Cluster}
		t.rows = append(t.rows, row{id: id, trouble: !i.Synced || i.Reflector.Attempts > 0, cells: []cell{
			word(name), word(i.Reflector.State.String()), count(i.Objects), rate(perSecond, known), lasting(behind),
			countOrDash(i.QueueDepth), size(i.Packed.Bytes), count(i.Reflector.Relists), count(i.Reflector.Failures), word(orDash(i.RV)), word(orDash(i.Type)),
		}, about: informerAbout(i), enter: func() *place { return informer(which) }})
	}
	return t, nil
}

// informerAbout says what is wrong with an informer, if anything is.
func informerAbout(i *debug.Informer) string {
	r := &i.Reflector
	switch {
	case r.Waiting != "":
		return r.Waiting
	case r.Failure != nil && (r.Attempts > 0 || !i.Synced):
		return r.Failure.Error()
	case i.Failure != nil:
		return i.Failure.Error()
	case !i.Synced:
		return "not synced: " + r.State.String()
	}
	return ""
}

// sameBefore counts informers of one name, so that each has an id of its own.
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
		t.rows = append(t.rows, row{id: id, trouble: c.State.String() != "Running", cells: []cell{
			word(c.Name), word(c.State.String()), rate(perSecond, known), {fmt.Sprintf("%d/%d", c.Active, c.Concurrency), float64(c.Active)}, countOrDash(c.Queue.Waiting),
			lasting(c.Queue.OldestWaiting), lasting(c.Queue.LongestRunning), countOrDash(c.Queue.Delayed), countOrDash(c.Parked), count(c.Errors),
		}, about: last, enter: func() *place { return queue(c.Name) }})
	}
	for n := range s.Queues {
		q := &s.Queues[n]
		id := "queue " + q.Name
		perSecond, known := a.rates.of(id, s.At, q.Gets)
		t.rows = append(t.rows, row{id: id, cells: []cell{
			word(q.Name), word(q.State.String()), rate(perSecond, known), {fmt.Sprintf("%d/%d", q.Running, q.Running+q.Sleeping), float64(q.Running)}, countOrDash(q.Waiting),
			lasting(q.OldestWaiting), lasting(q.LongestRunning), countOrDash(q.Delayed), {text: "-"}, count(q.Retries),
		}, about: q.HookFailure, enter: func() *place { return queue(q.Name) }})
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
	t := table{columns: []column{{name: "KEY", long: true}, {name: "CHANGES", right: true}, {name: "OF"}, {name: "NAME", long: true}}}
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
		{name: "OF", long: true}, {name: "STAGE"}, {name: "1M", right: true}, {name: "P50", right: true}, {name: "P90", right: true},
		{name: "P99", right: true}, {name: "MAX", right: true}, {name: "1H", right: true}, {name: "P50", right: true}, {name: "P99", right: true},
	}, note: "how long each stage took within the last minute, and the last hour"}
	for _, track := range s.Recorder.Tracks {
		of := string(track.Role) + " " + track.Name
		for _, stage := range track.Stages {
			t.rows = append(t.rows, row{id: fmt.Sprint(track.Track, stage.Stage), cells: []cell{
				word(of), word(string(stage.Stage)), count(stage.Minute.Count), lasting(stage.Minute.P50), lasting(stage.Minute.P90),
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
	t := table{columns: []column{{name: "PACKAGE", long: true}, {name: "GOROUTINES", right: true}, {name: "MOST OF THEM IN", long: true}}}
	for _, o := range g.Owners {
		most := "-"
		if len(o.Functions) > 0 {
			most = o.Functions[0].Name
		}
		t.rows = append(t.rows, row{id: o.Package, cells: []cell{word(o.Package), count(o.Count), word(most)}})
	}
	return t, nil
}

// informer is one informer.
func informer(which debug.Which) *place {
	return &place{which.Informer, []tab{
		{"handlers", func(ctx context.Context, a *asker) (table, error) { return loadHandlers(ctx, a, which) }},
		{"objects", func(ctx context.Context, a *asker) (table, error) { return loadObjects(ctx, a, which) }},
		{"indexes", func(ctx context.Context, a *asker) (table, error) { return loadIndexes(ctx, a, which) }},
		{"state", func(ctx context.Context, a *asker) (table, error) { return loadState(ctx, a, which) }},
	}}
}

// find returns the informer in a new status.
func (a *asker) find(ctx context.Context, which debug.Which) (*debug.Informer, error) {
	s, err := a.ask(ctx)
	if err != nil {
		return nil, err
	}
	for n := range s.Informers {
		i := &s.Informers[n]
		if i.Reflector.Resource == which.Informer && i.Type == which.Type && i.Cluster == which.Cluster {
			return i, nil
		}
	}
	return nil, fmt.Errorf("the informer %s (%s) is gone", which.Informer, which.Type)
}

func loadHandlers(ctx context.Context, a *asker, which debug.Which) (table, error) {
	i, err := a.find(ctx, which)
	if err != nil {
		return table{}, err
	}
	t := table{columns: []column{
		{name: "HANDLER", long: true}, {name: "CALLS/S", right: true}, {name: "PENDING", right: true}, {name: "BEHIND", right: true},
		{name: "SLOWEST", right: true}, {name: "ERRORS", right: true}, {name: "PANICS", right: true}, {name: "PLACE", long: true},
	}}
	for n, h := range i.Handlers {
		id := fmt.Sprintf("handler %s %s %s %s %d", which.Cluster, which.Informer, which.Type, h.Name, n)
		perSecond, known := a.rates.of(id, a.status.At, h.Delivered)
		t.rows = append(t.rows, row{id: id, trouble: h.Behind > time.Second, cells: []cell{
			word(h.Name), rate(perSecond, known), countOrDash(h.Pending), lasting(h.Behind),
			lasting(h.Slowest), count(h.Errors), count(h.Panics), word(orDash(h.Place)),
		}, about: handlerAbout(&h), enter: func() *place { return handler(which, h) }})
	}
	return t, nil
}

func handlerAbout(h *sharedinformer.HandlerStatus) string {
	if h.Failure != nil {
		return "last failure: " + h.Failure.Error()
	}
	return ""
}

// handler is one handler as it was when it was entered, and the events it is told of.
func handler(which debug.Which, h sharedinformer.HandlerStatus) *place {
	return &place{h.Name, []tab{{"state", func(ctx context.Context, a *asker) (table, error) {
		i, err := a.find(ctx, which)
		if err != nil {
			return table{}, err
		}
		at := slices.IndexFunc(i.Handlers, func(o sharedinformer.HandlerStatus) bool { return o.Name == h.Name && o.Place == h.Place })
		if at < 0 {
			return table{}, fmt.Errorf("the handler %s has left", h.Name)
		}
		h := i.Handlers[at]
		return facts(
			"added at", orDash(h.Place), "synced", yes(h.Synced).text, "pending", countOrDash(h.Pending).text,
			"behind", lasting(h.Behind).text, "delivered", count(h.Delivered).text, "coalesced", count(h.Coalesced).text,
			"slowest call", lasting(h.Slowest).text, "errors", count(h.Errors).text, "panics", count(h.Panics).text, "last failure", failureText(h.Failure),
		), nil
	}}}}
}

func loadState(ctx context.Context, a *asker, which debug.Which) (table, error) {
	i, err := a.find(ctx, which)
	if err != nil {
		return table{}, err
	}
	r := &i.Reflector
	retry := "-"
	if !r.RetryAt.IsZero() {
		retry = "in " + short(max(0, r.RetryAt.Sub(a.status.At)))
	}
	return facts(
		"type", orDash(i.Type), "state", r.State.String()+" since "+short(a.status.At.Sub(r.Since)), "synced", yes(i.Synced).text,
		"waits for", orDash(r.Waiting), "tries again", retry, "last failure", failureText(r.Failure), "failures", count(r.Failures).text,
		"cache complete to", orDash(i.RV), "received to", orDash(r.RV), "objects", count(i.Objects).text, "store", i.Store.String(),
		"packed", size(i.Packed.Bytes).text, "queued changes", count(i.QueueDepth).text, "oldest of them", lasting(i.QueueAge).text,
		"lists", count(r.Lists).text, "relists", count(r.Relists).text, "watches", count(r.Watches).text, "events", count(r.Events).text,
		"bookmarks", count(r.Bookmarks).text, "duplicates", count(r.Duplicates).text,
	), nil
}

func loadObjects(ctx context.Context, a *asker, which debug.Which) (table, error) {
	if _, err := a.find(ctx, which); err != nil {
		return table{}, err
	}
	const most = 500
	page, err := a.process.Objects(ctx, which, debug.Page{Limit: most})
	if err != nil {
		return table{}, err
	}
	t := table{columns: []column{{name: "NAMESPACE", long: true}, {name: "NAME", long: true}, {name: "RV", right: true}, {name: "OWNER", long: true}, {name: "LABELS", long: true}}}
	if page.Continue != "" {
		t.note = fmt.Sprintf("the first %d of %d", len(page.Heads), page.Cached)
	}
	for _, h := range page.Heads {
		owner := "-"
		for _, o := range h.Owners {
			if o.Controller || len(h.Owners) == 1 {
				owner = o.Kind + "/" + o.Name
			}
		}
		at := object.Key{Namespace: h.Namespace, Name: h.Name}
		t.rows = append(t.rows, row{id: object.FormatKey(at), trouble: h.Deleting, cells: []cell{
			word(orDash(h.Namespace)), word(h.Name), word(h.RV), word(owner), word(labelsText(h.Labels)),
		}, enter: func() *place { return key(which, at) }})
	}
	return t, nil
}

func loadIndexes(ctx context.Context, a *asker, which debug.Which) (table, error) {
	if _, err := a.find(ctx, which); err != nil {
		return table{}, err
	}
	all, err := a.process.Indexes(ctx, which, 10)
	if err != nil {
		return table{}, err
	}
	t := table{columns: []column{{name: "INDEX", long: true}, {name: "VALUES", right: true}, {name: "ENTRIES", right: true}, {name: "LARGEST", right: true}, {name: "VALUE", long: true}}, note: all.Withheld}
	for _, i := range all.Indexes {
		cells := []cell{word(i.Name), count(i.Values), count(i.Entries), {text: "-"}, {text: "-"}}
		if len(i.Largest) > 0 {
			cells[3], cells[4] = count(i.Largest[0].Objects), word(orDash(i.Largest[0].Value))
		}
		t.rows = append(t.rows, row{id: i.Name, cells: cells})
	}
	return t, nil
}

// queue is what a controller or a queue has to do.
func queue(name string) *place {
	return &place{name, []tab{{"keys", func(ctx context.Context, a *asker) (table, error) {
		if _, err := a.ask(ctx); err != nil {
			return table{}, err
		}
		keys, err := a.process.Queue(ctx, name, 200)
		if err != nil {
			return table{}, err
		}
		t := table{columns: []column{{name: "KEY", long: true}, {name: "IS"}, {name: "FOR", right: true}, {name: "DUE IN", right: true}, {name: "FAILED", right: true}, {name: "PRIORITY", right: true}, {name: "WAITS FOR", long: true}}}
		for _, part := range []struct {
			is   string
			keys []debug.Key
		}{{"running", keys.Running}, {"waiting", keys.Waiting}, {"parked", keys.Parked}, {"delayed", keys.Delayed}} {
			for _, k := range part.keys {
				at := parseKey(k.Key)
				t.rows = append(t.rows, row{id: k.Key, cells: []cell{
					word(k.Key), word(part.is), lasting(k.For), lasting(k.Due), countOrDash(k.Requeues), count(k.Priority), word(orDash(k.Write)),
				}, enter: func() *place { return key(debug.Which{}, at) }})
			}
		}
		return t, nil
	}}}}
}

// parseKey reads what FormatKey writes. The key of another cluster is taken for that of the
// own one.
func parseKey(text string) object.Key {
	if namespace, name, ok := strings.Cut(text, "/"); ok {
		return object.Key{Namespace: namespace, Name: name}
	}
	return object.Key{Name: text}
}

// key is one object: why it is where it is, what happened to it, and what the cache has of
// it, if it is known which.
func key(which debug.Which, at object.Key) *place {
	p := &place{object.FormatKey(at), []tab{
		{"why", func(ctx context.Context, a *asker) (table, error) {
			if _, err := a.ask(ctx); err != nil {
				return table{}, err
			}
			why, err := a.process.Why(ctx, which.Informer, "", at)
			if err != nil {
				return table{}, err
			}
			t := table{}
			for _, r := range why.Reasons {
				t.line(r.Text)
			}
			t.line("")
			for _, e := range slices.Backward(why.Entries) { // the newest first
				t.line(e.At.Local().Format("15:04:05.000") + "  " + strings.TrimSpace(string(e.Role)+" "+e.Name) + "  " + e.What())
			}
			return t, nil
		}},
	}}
	if which.Informer != "" {
		p.tabs = append(p.tabs, tab{"object", func(ctx context.Context, a *asker) (table, error) { return loadObject(ctx, a, which, at) }})
	}
	return p
}

func loadObject(ctx context.Context, a *asker, which debug.Which, at object.Key) (t table, err error) {
	if _, err := a.ask(ctx); err != nil {
		return table{}, err
	}
	o, err := a.process.Object(ctx, which, at)
	if err != nil {
		return table{}, err
	}
	var b strings.Builder
	if err := debug.WriteJSON(&b, o); err != nil {
		return table{}, err
	}
	for text := range strings.Lines(b.String()) {
		t.line(strings.TrimRight(text, "\n"))
	}
	return t, nil
}

// line adds a line of text.
func (t *table) line(text string) {
	t.rows = append(t.rows, row{id: fmt.Sprint(len(t.rows)), cells: []cell{word(text)}})
}

// facts is a table of names and what is said of them.
func facts(pairs ...string) table {
	t := table{columns: []column{{name: "WHAT"}, {name: "IS", long: true}}}
	for pair := range slices.Chunk(pairs, 2) {
		t.rows = append(t.rows, row{id: pair[0], cells: []cell{word(pair[0]), word(pair[1])}})
	}
	return t
}

func failureText(f *failure.Failure) string {
	if f == nil {
		return "-"
	}
	return f.Error()
}

func labelsText(all map[string]string) string {
	var b []string
	for name, value := range all {
		b = append(b, name+"="+value)
	}
	slices.Sort(b)
	return cmp.Or(strings.Join(b, ","), "-")
}
