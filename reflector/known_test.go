package reflector

import (
	"context"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// repeater is a source that yields each object twice.
type repeater struct{ source.ListerWatcher }

func (r repeater) List(ctx context.Context, o source.Request) source.List[object.Head] {
	list := r.ListerWatcher.List(ctx, o)
	return source.List[object.Head]{Meta: list.Meta, Items: func(yield func(object.Head, error) bool) {
		for item, err := range list.Items {
			for range 2 {
				if !yield(item, err) {
					return
				}
			}
		}
	}}
}

// A source may yield a known object repeatedly. The object is in use each time.
func TestL16_KnownObjectIsNotTransformedAgain(t *testing.T) {
	have := obj("same", 1)
	from := repeater{&keeper{&script{lists: []answer{{items: []object.Head{obj("same", 1)}, rv: "5"}}}}}
	transformed := Transformed(from, func(o partial) (partial, error) {
		o.Labels = map[string]string{"seen": "true"}
		return o, nil
	})
	n := 0
	known := func(object.Key) (object.Head, bool) { return have, true }
	for item, err := range transformed.List(t.Context(), source.Request{Known: known}).Items {
		require.NoError(t, err)
		require.Same(t, have, item)
		require.Empty(t, item.GetLabels())
		n++
	}
	require.Equal(t, 2, n)
}

// A watch whose first events replace all known objects retains none of them, however long it lasts.
func TestWatchKeepsNoReplacedObject(t *testing.T) {
	const many, size = 1000, 64 << 10
	have := map[object.Key]partial{}
	var events []wire.Event[object.Head]
	for n := range many {
		o := obj(strings.Repeat("x", 1+n), 1)
		o.Annotations = map[string]string{"large": strings.Repeat("x", size)}
		have[object.KeyOf(o)] = o
		events = append(events, change(watch.Added, o.Name, 2))
	}
	from := &keeper{&script{watches: []answer{{events: events}}}}
	transformed := Transformed(from, func(o partial) (partial, error) { return o, nil })
	known := func(key object.Key) (object.Head, bool) { o, ok := have[key]; return o, ok }
	changes, err := transformed.Watch(t.Context(), source.Request{Known: known})
	require.NoError(t, err)
	next, stop := iter.Pull2(changes)
	defer stop()
	for range many - 1 { // it lasts
		e, err, ok := next()
		require.True(t, ok)
		require.NoError(t, err)
		delete(have, object.KeyOf(e.Object)) // as the cache does, which now has the new one
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	require.Less(t, m.HeapAlloc, uint64(many*size/2))
}

// The source looks up the known object of each event, in a watch of one object that changes.
// References to replaced states must be dropped, because each look-up scans all of them.
func TestWatchKeepsNothingOfOldStates(t *testing.T) {
	const many = 20000
	l := &knownObjects{known: func(object.Key) (object.Head, bool) { return obj("a", 1), true }}
	for n := range many {
		if l.lookup(object.Key{Name: "a"}); n%1000 == 0 {
			runtime.GC()
		}
	}
	noted := 0
	for _, lent := range l.given {
		noted += len(lent)
	}
	require.Less(t, noted, many/2, "of one object")
}
