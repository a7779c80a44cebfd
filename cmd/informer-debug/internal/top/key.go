package top

import (
	"context"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

// queue returns the place for a controller's queue, or for another work queue.
func queue(name string) *place {
	return &place{name, []tab{{name: "keys", load: func(ctx context.Context, a *asker) (table, error) {
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

// parseKey parses a key formatted by object.FormatKey. It ignores the cluster, except of an object without a namespace,
// whose name may contain a colon too.
func parseKey(text string) object.Key {
	if namespace, name, ok := strings.Cut(text, "/"); ok {
		return object.Key{Namespace: namespace[strings.LastIndexByte(namespace, ':')+1:], Name: name}
	}
	return object.Key{Name: text}
}

// key returns the place for one object: the explanation of its state, its history and, if which is known, its
// cached contents.
func key(which debug.Which, at object.Key) *place {
	p := &place{object.FormatKey(at), []tab{
		{name: "why", load: func(ctx context.Context, a *asker) (table, error) {
			if _, err := a.ask(ctx); err != nil {
				return table{}, err
			}
			why, err := a.process.Why(ctx, fullName(which), "", at)
			if err != nil {
				return table{}, err
			}
			t := table{}
			for _, r := range why.Reasons {
				t.line(r.Text)
			}
			t.line("")
			for _, e := range slices.Backward(why.Entries) { // newest first
				t.line(e.At.Local().Format("15:04:05.000") + "  " + strings.TrimSpace(string(e.Role)+" "+e.Name) + "  " + e.What())
			}
			return t, nil
		}},
	}}
	if which.Informer != "" {
		p.tabs = append(p.tabs, tab{name: "object", load: func(ctx context.Context, a *asker) (table, error) { return loadObject(ctx, a, which, at) }})
	}
	return p
}

// fullName returns an informer's name with its type and cluster, if known.
func fullName(which debug.Which) string {
	if which.Type == "" {
		return which.Informer
	}
	i := debug.Informer{Cluster: which.Cluster}
	i.Type, i.Reflector.Resource = which.Type, which.Informer
	return i.String()
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
