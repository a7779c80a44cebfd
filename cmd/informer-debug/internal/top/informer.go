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
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// informer returns the place for an informer.
func informer(which debug.Which) *place {
	return &place{which.Informer, []tab{
		{name: "handlers", load: func(ctx context.Context, a *asker) (table, error) { return loadHandlers(ctx, a, which) }},
		{name: "objects", load: func(ctx context.Context, a *asker) (table, error) { return loadObjects(ctx, a, which) }},
		{name: "indexes", load: func(ctx context.Context, a *asker) (table, error) { return loadIndexes(ctx, a, which) }},
		{name: "state", load: func(ctx context.Context, a *asker) (table, error) { return loadState(ctx, a, which) }},
	}}
}

// find returns the informer's entry in a newer status.
func (a *asker) find(ctx context.Context, which debug.Which) (*debug.Informer, error) {
	s, err := a.ask(ctx)
	if err != nil {
		return nil, err
	}
	for n := range s.Informers {
		i := &s.Informers[n]
		if i.Which() == which {
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
		{name: "HANDLER", long: true, ends: true}, {name: "CALLS/S", right: true}, {name: "PENDING", right: true}, {name: "BEHIND", right: true},
		{name: "SLOWEST", right: true}, {name: "ERRORS", right: true}, {name: "PANICS", right: true}, {name: "PLACE", long: true, ends: true},
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
	switch {
	case h.Behind > time.Second && h.Busy > time.Second:
		return "it has been handling " + object.FormatKey(h.Key) + " for " + short(h.Busy)
	case h.Failure != nil:
		return "last failure: " + h.Failure.Error()
	case h.Behind > time.Second:
		return fmt.Sprintf("%d events are pending, and its longest call took %s", h.Pending, short(h.Slowest))
	}
	return ""
}

// handler returns the place for a handler, which is identified by its name and where it was added.
func handler(which debug.Which, h sharedinformer.HandlerStatus) *place {
	return &place{h.Name, []tab{{name: "state", load: func(ctx context.Context, a *asker) (table, error) {
		i, err := a.find(ctx, which)
		if err != nil {
			return table{}, err
		}
		at := slices.IndexFunc(i.Handlers, func(o sharedinformer.HandlerStatus) bool { return o.Name == h.Name && o.Place == h.Place })
		if at < 0 {
			return table{}, fmt.Errorf("the handler %s was removed", h.Name)
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
		"type", orDash(i.Type), "state", r.State.String()+" for "+short(a.status.At.Sub(r.Since)), "synced", yes(i.Synced).text,
		"waits for", orDash(cmp.Or(r.Waiting, i.Leaving)), "retry", retry, "last failure", failureText(r.Failure), "failures", count(r.Failures).text,
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
	t := table{columns: []column{{name: "NAMESPACE", long: true}, {name: "NAME", long: true, ends: true}, {name: "RV", right: true}, {name: "OWNER", long: true}, {name: "LABELS", long: true}}}
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
