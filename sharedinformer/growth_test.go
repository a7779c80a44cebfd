package sharedinformer

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// nothing is a source without objects and with quiet watches.
func nothing() *scripted {
	return &scripted{
		list: func() ([]podPtr, string) { return nil, "10" },
		watch: func(ctx context.Context, _ source.Request, _ func(wire.Event[object.Head], error) bool) error {
			<-ctx.Done()
			return nil
		},
	}
}

func numbered(prefix string, n int) (names []string) {
	for k := range n {
		names = append(names, fmt.Sprint(prefix, k))
	}
	return names
}

// The work for one namespace does not grow with the number of namespaces, whether or not other callers
// wait.
func TestWaitersDoNotMultiplyTheWorkOfASync(t *testing.T) {
	statuses := func(namespaces int) (perNamespace int64) {
		synctest.Test(t, func(t *testing.T) {
			from := nothing()
			turn := make(chan struct{}, 1)
			from.list = func() ([]podPtr, string) { // the server answers one list after the other
				turn <- struct{}{}
				defer func() { <-turn }()
				time.Sleep(time.Millisecond)
				return nil, "10"
			}
			i := New[podPtr](from, Options{Initial: reflector.List, Namespaces: numbered("n", namespaces)})
			ctx, cancel := context.WithCancel(t.Context())
			wait, err := i.Start(ctx)
			require.NoError(t, err)
			var waiters sync.WaitGroup
			for range 10 {
				waiters.Go(func() { _ = i.WaitForSync(ctx) })
			}
			waiters.Wait()
			require.True(t, i.HasSynced())
			perNamespace = from.described.Load() / int64(namespaces)
			cancel()
			require.NoError(t, wait())
		})
		return perNamespace
	}
	require.InEpsilon(t, statuses(50), statuses(500), 0.5)
}

func TestTheCostOfOtherNamespacesIsLinear(t *testing.T) {
	bytes := func(namespaces int) (perNamespace uint64) {
		synctest.Test(t, func(t *testing.T) {
			i := New[podPtr](nothing(), Options{Initial: reflector.List, Namespaces: numbered("a", namespaces)})
			ctx, cancel := context.WithCancel(t.Context())
			wait, err := i.Start(ctx)
			require.NoError(t, err)
			require.NoError(t, i.WaitForSync(ctx))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.NoError(t, i.SetNamespaces(numbered("b", namespaces)))
			require.NoError(t, i.WaitForSync(ctx))
			runtime.ReadMemStats(&after)
			perNamespace = (after.TotalAlloc - before.TotalAlloc) / uint64(namespaces)
			cancel()
			require.NoError(t, wait())
		})
		return perNamespace
	}
	require.InEpsilon(t, bytes(100), bytes(2000), 0.5)
}

// A source that does not return delays added namespaces. Namespaces that are removed again before they
// start leave nothing behind.
func TestNamespacesChangeWhileTheSourceIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		from := nothing()
		from.watch = func(ctx context.Context, req source.Request, _ func(wire.Event[object.Head], error) bool) error {
			if req.Namespace == "stuck" {
				<-let
			}
			<-ctx.Done()
			return nil
		}
		i := New[podPtr](from, Options{Initial: reflector.List, Namespaces: []string{"stuck"}})
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		require.NoError(t, i.WaitForSync(ctx))
		synctest.Wait() // until the watch is stuck
		before := runtime.NumGoroutine()
		for n := range 1000 {
			require.NoError(t, i.SetNamespaces(numbered("n", n%2+1)))
			synctest.Wait()
		}
		require.Less(t, runtime.NumGoroutine(), before+10)
		require.False(t, i.HasSynced())
		require.Equal(t, "things in namespace stuck, which was cancelled", i.Status().Leaving)
		i.core.(*core).mu.Lock()
		held := len(i.core.(*core).feeds.leaving) + len(i.core.(*core).feeds.waiting)
		i.core.(*core).mu.Unlock()
		require.Less(t, held, 10)
		close(let)
		require.NoError(t, i.WaitForSync(ctx))
		cancel()
		require.NoError(t, wait())
	})
}
