package reflector

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// keeper is a source that looks up the known object of each object, and yields it if the version is
// the same.
type keeper struct{ *script }

func (k *keeper) Describe() source.Description {
	d := k.script.Describe()
	d.Reuses = true
	return d
}

func instead(known wire.Cached, o object.Head) object.Head {
	if known != nil && o != nil {
		if have, ok := known(object.KeyOf(o)); ok && have.GetResourceVersion() == o.GetResourceVersion() {
			return have
		}
	}
	return o
}

func (k *keeper) List(ctx context.Context, o source.Request) source.List[object.Head] {
	list := k.script.List(ctx, o)
	return source.List[object.Head]{Meta: list.Meta, Items: func(yield func(object.Head, error) bool) {
		for item, err := range list.Items {
			if !yield(instead(o.Known, item), err) {
				return
			}
		}
	}}
}

func (k *keeper) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := k.script.Watch(ctx, o)
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			e.Object = instead(o.Known, e.Object)
			if !yield(e, err) {
				return
			}
		}
	}, err
}

// Known objects were transformed before and are in use, so they are not transformed again, whatever
// happens to the cache.
func TestTransformSkipsKnownObjects(t *testing.T) {
	have := map[object.Key]partial{{Name: "same"}: obj("same", 1), {Name: "changed"}: obj("changed", 1)}
	from := &keeper{&script{
		lists: []answer{{items: []object.Head{obj("same", 1), obj("changed", 2), obj("new", 3), obj("same", 1)}, rv: "5"}},
		watches: []answer{{events: []wire.Event[object.Head]{
			change(watch.Added, "same", 1), change(watch.Bookmark, "", 5), change(watch.Added, "changed", 2)}}},
	}}
	transformed := Transformed(from, func(o partial) (partial, error) {
		o.Labels = map[string]string{"seen": "true"}
		return o, nil
	})
	known := source.Request{Known: func(key object.Key) (object.Head, bool) {
		o, ok := have[key]
		if key.Name == "same" {
			have[key] = obj("same", 1) // a second look-up returns something else
		}
		return o, ok
	}}
	require.Equal(t, "things", transformed.Describe().Name)
	kept := 0
	look := func(head object.Head) {
		switch o := head.(partial); {
		case o.Name == "same":
			require.Empty(t, o.Labels)
			kept++
		default:
			require.NotEmpty(t, o.Labels, o.Name)
		}
	}
	for item, err := range transformed.List(t.Context(), known).Items {
		require.NoError(t, err)
		look(item)
	}
	events, err := transformed.Watch(t.Context(), known)
	require.NoError(t, err)
	for e, err := range events {
		require.NoError(t, err)
		if e.Type != watch.Bookmark {
			look(e.Object)
		}
	}
	require.Equal(t, 3, kept)
}

// If a source reuses nothing, it decodes every object, and the transform sees all of them.
func TestTransformOfAPlainSourceSeesEverything(t *testing.T) {
	from := &script{lists: []answer{{items: []object.Head{obj("a", 1)}, rv: "5"}}}
	seen := 0
	transformed := Transformed(from, func(o partial) (partial, error) { seen++; return o, nil })
	known := func(object.Key) (object.Head, bool) { return obj("a", 1), true }
	for _, err := range transformed.List(t.Context(), source.Request{Known: known}).Items {
		require.NoError(t, err)
	}
	require.Equal(t, 1, seen)
}

func slim(o partial) (partial, error) { return nil, errors.New("no") }

// The message names the wrapped function, not its wrapper.
func TestWrappedTransformIsNamedAfterTheFunctionItCalls(t *testing.T) {
	s := &script{lists: []answer{{items: []object.Head{obj("a", 1)}, rv: "5"}}}
	from := TransformedBy(s, func(o partial) (partial, error) { return slim(o) }, slim)
	for _, err := range from.List(t.Context(), source.Request{}).Items {
		var failed *TransformError
		require.ErrorAs(t, err, &failed)
		require.Regexp(t, `reflector\.slim \(reflector/transform_test\.go:\d+\)`, failed.Transform)
	}
	require.NotPanics(t, func() { TransformedBy(s, slim, 7) })
}
