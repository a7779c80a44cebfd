package sharedinformer

import (
	"context"
	"iter"
	"sync"
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

// besides is a source that streams the namespace "aside" from a channel, and others from another source.
type besides struct {
	buffered
	aside chan object.Head
}

func (s besides) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if req.Namespace != "aside" {
		return s.buffered.Watch(ctx, req)
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		end := inNamespace("", 1)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		for ok := yield(wire.Event[object.Head]{Type: watch.Bookmark, Object: end}, nil); ok; {
			select {
			case o := <-s.aside:
				ok = yield(wire.Event[object.Head]{Type: watch.Modified, Object: o}, nil)
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// A namespace is removed and added again while the cache is behind. The last list from before was taken from the queue but
// is not in the cache when the namespace's own list is queued; it does not count as that list either.
func TestL18_ANamespaceAddedAgainWhileTheCacheIsBehindWaitsForItsOwnList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := besides{buffered{new(atomic.Int64), []chan struct{}{make(chan struct{}), make(chan struct{})}}, make(chan object.Head)}
		i := New[partial](from, Options{Initial: reflector.WatchList, Namespaces: []string{"aside", "shop"}})
		gates := map[string]chan struct{}{"2": make(chan struct{}), "3": make(chan struct{}), "20": make(chan struct{})}
		AddIndex(i, "slow", func(o partial) []string {
			if gate := gates[o.ResourceVersion]; gate != nil {
				<-gate
			}
			return nil
		})
		defer runFor(t, i)()
		open := sync.OnceFunc(func() { close(gates["20"]) })
		defer open()
		synctest.Wait() // the first stream is being read
		require.NoError(t, i.SetNamespaces([]string{"aside"}))
		require.NoError(t, i.SetNamespaces([]string{"aside", "shop"}))
		from.aside <- inNamespace("aside", 2) // blocks the cache
		synctest.Wait()
		from.aside <- inNamespace("aside", 3) // will block it again, with the following in the same batch
		synctest.Wait()
		close(from.let[0]) // the list from before
		synctest.Wait()
		require.EqualValues(t, 2, from.streams.Load())
		close(gates["2"])
		synctest.Wait()
		close(from.let[1]) // its own
		synctest.Wait()
		close(gates["3"])
		synctest.Wait()
		require.False(t, i.HasSynced(), "only the list from before is in the cache")
		open()
		require.NoError(t, i.WaitForSync(t.Context()))
		require.Equal(t, "20", i.Cache().NamespaceRV("shop"))
	})
}
