package sharedinformer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/snapshot"
)

// An informer that is given another Go type than its source has does not begin with a snapshot of that
// type.
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
			require.Contains(t, i.Status().Snapshot.Off, "the informer is one of *v1.Pod")
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

// promoted is a type whose author forgot DeepCopyObject: that of the embedded one is promoted.
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
		require.ErrorContains(t, err, "returns a *v1.Pod")
		require.Nil(t, o)
		cancel()
		require.NoError(t, wait())
	})
}
