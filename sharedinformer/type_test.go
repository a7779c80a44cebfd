package sharedinformer

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// An object of another Go type than the informer's is a failure that names both types, from a list
// and from a watch, and is not delivered.
func TestL21_AnObjectOfAnotherTypeIsAFailure(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			called := 0
			i := New[*corev1.Pod](listing[*drawing]{drawn()}, Options{Store: of, Initial: reflector.List})
			i.AddHandler(HandlerFunc[*corev1.Pod](func(context.Context, Event[*corev1.Pod]) error { called++; return nil }))
			refuses(t, i, "a/0")
			require.Zero(t, called)
		})
		synctest.Test(t, func(t *testing.T) {
			from := &fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { return []podPtr{podAt("x", "5", nil)}, "10" }}
			called := 0
			i := New[*corev1.Pod](from, Options{Store: of, Initial: reflector.List})
			i.AddHandler(HandlerFunc[*corev1.Pod](func(context.Context, Event[*corev1.Pod]) error { called++; return nil }))
			go func() {
				other := drawn()
				other.ResourceVersion = "11"
				for {
					select {
					case from.events <- wire.Event[object.Head]{Type: watch.Added, Object: other}:
					case <-t.Context().Done():
						return
					}
				}
			}()
			refuses(t, i, "a/0")
			require.Equal(t, 1, called, "the Pod of the list")
		})
	})
}

// refuses runs an informer of Pods whose source yields drawings.
func refuses(t *testing.T, i *Informer[*corev1.Pod], key string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := i.Start(ctx)
	require.NoError(t, err)
	time.Sleep(5 * time.Second)
	f := i.Status().Reflector.Failure
	cancel()
	require.NoError(t, wait())
	var mistyped *source.TypeError
	require.ErrorAs(t, f, &mistyped)
	require.Equal(t, reflect.TypeFor[*drawing](), mistyped.Have)
	require.Equal(t, reflect.TypeFor[*corev1.Pod](), mistyped.Want)
	require.ErrorContains(t, f, key)
}

// An informer whose Go type differs from its source's does not start from a snapshot of that type.
func TestASnapshotOfAnotherTypeIsNotRead(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.put("a", "x", func(partial) {})
			stop := runFor(t, informerOf(traced{part{w}}, Options{Store: of, Snapshot: snapshot.In(dir, snapshot.Options{})}))
			time.Sleep(2 * time.Minute)
			stop()

			i := New[*corev1.Pod](traced{part{w}}, Options{Store: of, Initial: reflector.List, Snapshot: snapshot.In(dir, snapshot.Options{})})
			nils := 0
			i.AddHandler(HandlerFunc[*corev1.Pod](func(_ context.Context, e Event[*corev1.Pod]) error {
				if e.Object == nil {
					nils++
				}
				return nil
			}))
			ctx, cancel := context.WithCancel(t.Context())
			wait, err := i.Start(ctx)
			require.NoError(t, err)
			time.Sleep(5 * time.Second)
			require.Contains(t, i.Status().Snapshot.Off, "the informer needs *v1.Pod")
			cancel()
			require.NoError(t, wait())
			require.NotPanics(t, func() {
				for range i.Stale().All() {
				}
				for range i.Cache().All() {
				}
			})
			require.Zero(t, nils, "a handler was told of a nil object")
			require.False(t, i.HasSynced())
		})
	})
}

// promoted is a type without its own DeepCopyObject. The method of the embedded type is promoted.
type promoted struct{ corev1.Pod }

func TestACopyOfAnotherTypeIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := New[*promoted](listing[*promoted]{&promoted{corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "0", UID: "1", ResourceVersion: "5"}}}}, Options{Initial: reflector.List})
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		head, ok := i.Heads().Get(object.Key{Namespace: "a", Name: "0"})
		require.True(t, ok)
		o, err := i.Copy(head)
		require.ErrorContains(t, err, "returned a *v1.Pod")
		require.Nil(t, o)
		cancel()
		require.NoError(t, wait())
	})
}
