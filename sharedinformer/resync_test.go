package sharedinformer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
)

// A resync that is due at the moment of a change is delivered after it.
func TestL11_AResyncInTheBatchOfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := informerOf(newFixed(thing("a", 1, 5)), Options{})
		var heard []string
		r := i.AddHandlerWith(HandlerFunc[partial](func(_ context.Context, e Event[partial]) error {
			heard = append(heard, e.Type.String()+" "+e.Object.ResourceVersion)
			return nil
		}), HandlerOptions{Resync: time.Hour})
		stop := runFor(t, i)
		synctest.Wait()
		r.of.(*delivery).resyncDue.Store(true)
		changed := thing("a", 1, 12)
		i.core.(*core).handleDeltas([]deltafifo.Delta{
			{Type: deltafifo.Updated, Key: object.KeyOf(changed), Object: changed, RV: "12"},
			{Type: deltafifo.Sync},
		})
		synctest.Wait()
		require.Equal(t, []string{"add 5", "update 12", "resync 12"}, heard)
		stop()
	})
}

// In a synctest bubble, Go's race detector may crash if several goroutines create timers that are
// already due. Here, a resync is due whenever the informer looks for blocked handlers.
func TestNewResyncTimerIsNotDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 16 {
			i := informerOf(newFixed(thing("a", 1, 5)), Options{})
			i.AddHandlerWith(HandlerFunc[partial](func(context.Context, Event[partial]) error { return nil }), HandlerOptions{Resync: slowCheckEvery})
			defer runFor(t, i)()
		}
		time.Sleep(500 * slowCheckEvery)
	})
}

// Resyncs that are due while the cache is blocked become one entry of the queue.
func TestL11_ResyncsDoNotPileUpInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := informerOf(newFixed(thing("a", 1, 5)), Options{})
		blocked := make(chan struct{})
		first := true
		AddIndex(i, "slow", func(partial) []string {
			if first {
				first = false
				<-blocked
			}
			return nil
		})
		resyncs := 0
		i.AddHandlerWith(HandlerFuncs[partial]{Resync: func(context.Context, partial) error { resyncs++; return nil }}, HandlerOptions{Resync: time.Second})
		stop := runFor(t, i)
		time.Sleep(time.Minute)
		require.Equal(t, 1, i.core.(*core).queue.Len())
		close(blocked)
		time.Sleep(10500 * time.Millisecond)
		synctest.Wait()
		require.Contains(t, []int{10, 11}, resyncs, "the queued one comes before or after the handler has synced")
		stop()
	})
}
