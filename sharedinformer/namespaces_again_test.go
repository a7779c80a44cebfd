package sharedinformer

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// buffered is a source whose first stream had arrived before it was cancelled: its initial state is read once let
// is closed. Each later stream waits for its own channel.
type buffered struct {
	streams *atomic.Int64
	let     []chan struct{}
}

func (buffered) Describe() source.Description {
	return source.Description{Name: "things", Narrows: true}
}

func (buffered) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{}, Items: func(yield func(object.Head, error) bool) { yield(nil, errors.New("unused")) }}
}

func (s buffered) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	n := int(s.streams.Add(1))
	return func(yield func(wire.Event[object.Head], error) bool) {
		if n == 1 {
			<-s.let[0]
		} else {
			select {
			case <-s.let[n-1]:
			case <-ctx.Done():
				return
			}
		}
		end := inNamespace("", 10*n)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		if yield(wire.Event[object.Head]{Type: watch.Added, Object: inNamespace("shop", 10*n)}, nil) &&
			yield(wire.Event[object.Head]{Type: watch.Bookmark, Object: end}, nil) {
			<-ctx.Done()
		}
	}, nil
}

// If a namespace is removed and added again, the last list from before, which was on its way, does not sync the
// informer: the server has not answered for the namespace since it was added.
func TestL18_ANamespaceAddedAgainWaitsForItsOwnList(t *testing.T) {
	for name, namespaces := range map[string][]string{"one": {"shop"}, "all": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := buffered{new(atomic.Int64), []chan struct{}{make(chan struct{}), make(chan struct{})}}
				i := New[partial](from, Options{Initial: reflector.WatchList, Namespaces: namespaces})
				defer runFor(t, i)()
				synctest.Wait() // the first stream is being read
				require.NoError(t, i.SetNamespaces([]string{}))
				require.NoError(t, i.SetNamespaces(namespaces))
				close(from.let[0])
				synctest.Wait()
				require.EqualValues(t, 2, from.streams.Load())
				require.False(t, i.HasSynced(), "only the list from before is in the cache")
				close(from.let[1])
				require.NoError(t, i.WaitForSync(t.Context()))
				require.Equal(t, "20", i.Cache().RV())
			})
		})
	}
}

// The same holds for the namespace alone: a controller reconciles the namespace's requests once HasSyncedIn returns true,
// and the server may refuse to list it by then.
func TestL18_ANamespaceAddedAgainHasNotSyncedBeforeItsOwnList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := buffered{new(atomic.Int64), []chan struct{}{make(chan struct{}), make(chan struct{})}}
		i := New[partial](from, Options{Initial: reflector.WatchList, Namespaces: []string{"shop"}})
		defer runFor(t, i)()
		synctest.Wait() // the first stream is being read
		require.NoError(t, i.SetNamespaces([]string{}))
		require.NoError(t, i.SetNamespaces([]string{"shop"}))
		require.False(t, i.HasSyncedIn("shop"))
		close(from.let[0])
		synctest.Wait()
		require.EqualValues(t, 2, from.streams.Load())
		require.False(t, i.HasSyncedIn("shop"), "only the list from before is in the cache, at version %s", i.Cache().NamespaceRV("shop"))
		close(from.let[1])
		require.NoError(t, i.WaitForSync(t.Context()))
		require.True(t, i.HasSyncedIn("shop"))
	})
}
