package sharedinformer

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// A closed handler has no pending events, whatever happens afterwards.
func TestL09_NothingIsPendingForAClosedHandler(t *testing.T) {
	for _, lag := range []Lag{Unbounded, Coalesce} {
		synctest.Test(t, func(t *testing.T) {
			from := newFixed(things(3)...)
			i := informerOf(from, Options{})
			defer runFor(t, i)()
			r := i.AddHandlerWith(HandlerFuncs[partial]{}, HandlerOptions{Lag: lag})
			require.NoError(t, i.WaitForSync(t.Context()))
			require.NoError(t, r.CloseAndWait(t.Context()))
			for rv := 20; rv < 25; rv++ {
				from.change("t0", 100, rv)
			}
			synctest.Wait()
			s := r.Status()
			require.Zero(t, s.Pending)
			require.EqualValues(t, 3, s.Delivered)
		})
	}
}

// A handler that was closed during a call that never returns holds only the event of that call.
func TestL09_NothingIsHeldForAClosedHandlerThatBlocks(t *testing.T) {
	for _, lag := range []Lag{Unbounded, Coalesce} {
		for _, late := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				from := newFixed(things(3)...)
				i := informerOf(from, Options{})
				defer runFor(t, i)()
				if late {
					require.NoError(t, i.WaitForSync(t.Context()))
				}
				block, synced := make(chan struct{}), 0
				r := i.AddHandlerWith(HandlerFunc[partial](func(context.Context, Event[partial]) error { <-block; return nil }),
					HandlerOptions{Lag: lag, OnSync: func() { synced++ }})
				synctest.Wait()
				require.Equal(t, 3, r.Status().Pending)
				from.change("t1", 101, 20)
				synctest.Wait()
				cached, _ := i.Cache().Get(object.Key{Name: "t1"})
				before := weak.Make(cached)
				cached = nil
				r.Close()
				from.change("t1", 101, 21)
				synctest.Wait()
				runtime.GC()
				require.Nil(t, before.Value(), "lag %d, late %v", lag, late)
				close(block)
				require.NoError(t, r.CloseAndWait(t.Context()))
				s := r.Status()
				require.EqualValues(t, 1, s.Delivered, "the call in progress")
				require.Zero(t, s.Pending)
				require.Zero(t, synced)
			})
		}
	}
}

// If there is nothing to wait for, a context that is done is not an error.
func TestL07_CloseAndWaitWithAContextThatHasEnded(t *testing.T) {
	i := informerOf(newFixed(things(1)...), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 64 {
		require.NoError(t, i.AddHandler(HandlerFuncs[partial]{}).CloseAndWait(ctx), "there is no call in progress")
	}
}
