package workqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A timer that is set keeps its queue in memory until it rings. So it must go
// with the last delayed add, in whatever way that goes.
func TestNoTimerIsSetWithoutADelayedAdd(t *testing.T) {
	for name, end := range map[string]func(context.Context, *Queue[string]){
		"cancelled":   func(_ context.Context, q *Queue[string]) { q.Cancel("a") },
		"superseded":  func(_ context.Context, q *Queue[string]) { q.Add("a") },
		"rescheduled": func(_ context.Context, q *Queue[string]) { q.Reschedule("a", 0) },
		"due":         func(context.Context, *Queue[string]) { time.Sleep(time.Hour); synctest.Wait() },
		"drained":     func(ctx context.Context, q *Queue[string]) { _ = q.Drain(ctx) },
		"shut down":   func(_ context.Context, q *Queue[string]) { q.ShutDown() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(Options[string]{})
				q.AddAfter("b", time.Minute)
				q.AddAfter("a", time.Hour)
				q.Cancel("b")
				end(t.Context(), q)
				q.mu.Lock()
				defer q.mu.Unlock()
				require.False(t, q.alarm.armed)
				require.False(t, q.alarm.timer.Stop(), "the timer was set")
			})
		})
	}
}

func TestL28_shut_down_returns_after_a_ring_in_progress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{})
		begun, release := make(chan struct{}), make(chan struct{})
		q.alarm.ring = func() {
			close(begun)
			<-release
			q.ring()
		}
		q.AddAfter("a", time.Second)
		<-begun
		ended := make(chan struct{})
		go func() {
			q.ShutDown()
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("ShutDown returned while a goroutine of the queue was at work")
		default:
		}
		close(release)
		<-ended
		require.EqualValues(t, 1, q.Status().Dropped)
		require.Zero(t, q.Len())
	})
}
