package source_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// plain is a source that supports no part of a request, and records the requests.
type plain struct {
	source.Description
	asked *source.Request
}

func (p plain) Describe() source.Description { return p.Description }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u", ResourceVersion: "5"}}
}

func (p plain) List(_ context.Context, req source.Request) source.List[object.Head] {
	*p.asked = req
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "7"}, Items: func(yield func(object.Head, error) bool) {
		_ = yield(pod("a"), nil) && yield(pod("b"), nil)
	}}
}

func (p plain) Watch(_ context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	*p.asked = req
	return func(yield func(wire.Event[object.Head], error) bool) {
		_ = yield(wire.Event[object.Head]{Type: watch.Modified, Object: pod("a")}, nil) &&
			yield(wire.Event[object.Head]{Type: watch.Deleted, Object: pod("b")}, nil) &&
			yield(wire.Event[object.Head]{Type: watch.Bookmark, Object: pod("")}, nil)
	}, nil
}

func onlyA(o object.Head) bool { return o.GetName() == "a" }

// Whichever parts of a request a source supports, the caller gets the same result.
func TestCompleteDoesTheRest(t *testing.T) {
	packer := wire.NewPacker(nil)
	for name, from := range map[string]source.Description{"nothing": {}, "narrows": {Narrows: true}} {
		t.Run(name, func(t *testing.T) {
			asked := new(source.Request)
			complete := source.Complete(plain{from, asked})
			req := source.Request{Wanted: onlyA, Packer: packer, ListOptions: metav1.ListOptions{LabelSelector: "x"}}

			list := complete.List(t.Context(), req)
			var items []object.Head
			for o, err := range list.Items {
				require.NoError(t, err)
				items = append(items, o)
			}
			require.Len(t, items, 1)
			require.IsType(t, (*wire.Packed)(nil), items[0])
			require.Equal(t, "7", list.Meta.ResourceVersion)
			require.Equal(t, source.Request{ListOptions: req.ListOptions}, *asked, "it is asked for what it does")

			events, err := complete.Watch(t.Context(), req)
			require.NoError(t, err)
			var told []wire.Event[object.Head]
			for e, err := range events {
				require.NoError(t, err)
				told = append(told, e)
			}
			require.Len(t, told, 3)
			require.IsType(t, (*wire.Packed)(nil), told[0].Object)
			require.Nil(t, told[1].Object)
			require.Equal(t, "b", told[1].Passed.Key.Name)
			require.Equal(t, watch.Deleted, told[1].Type)
			require.Nil(t, told[2].Passed, "a bookmark is no object")
		})
	}
}

// A source that filters sees the heads of the packed objects that the caller knows, and gets
// placeholders for them.
func TestCompleteLendsPackedObjects(t *testing.T) {
	packer := wire.NewPacker(nil)
	have, err := packer.Pack(pod("a"))
	require.NoError(t, err)
	asked := new(source.Request)
	complete := source.Complete(plain{source.Description{Reuses: true, Filters: true}, asked})
	var heads []object.Head
	complete.List(t.Context(), source.Request{
		Packer: packer,
		Known:  func(object.Key) (object.Head, bool) { return have, true },
		Wanted: func(o object.Head) bool { heads = append(heads, o); return true },
	})
	bare, ok := asked.Known(object.Key{Namespace: "shop", Name: "a"})
	require.True(t, ok)
	require.IsType(t, (*corev1.Pod)(nil), bare)
	require.True(t, asked.Wanted(bare))
	require.Equal(t, []object.Head{have}, heads)
}

func TestCompleteNamesTheUnsupportedNamespace(t *testing.T) {
	for want, from := range map[string]source.Description{
		"pods cannot be limited to a namespace: its Description does not set Narrows": {Name: "pods"},
		"pods in bank does not reach namespace shop: use a source for all namespaces": {Name: "pods in bank", Namespace: "bank", Narrows: true},
	} {
		complete := source.Complete(plain{from, new(source.Request)})
		for _, err := range complete.List(t.Context(), source.Request{Namespace: "shop"}).Items {
			require.EqualError(t, err, want)
		}
		_, err := complete.Watch(t.Context(), source.Request{Namespace: "shop"})
		require.EqualError(t, err, want)
	}
	all := source.Description{Narrows: true, Reuses: true, Filters: true, Packs: true}
	from := plain{all, nil}
	require.Equal(t, source.ListerWatcher(from), source.Complete(from), "there is nothing left to do")
}
