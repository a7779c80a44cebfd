package workqueue

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// stuckLimiter blocks in NumRequeues until it is closed.
type stuckLimiter chan struct{}

func (s stuckLimiter) When(int) time.Duration { return time.Hour }
func (s stuckLimiter) Forget(int)             {}
func (s stuckLimiter) NumRequeues(int) int    { <-s; return 7 }

// However often a viewer asks, a rate limiter that blocks costs a bounded number of goroutines (D01), and a
// second only once.
func TestD01_ABlockedLimiterIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(stuckLimiter)
		q := New(Options[int]{RateLimiter: stuck})
		defer q.ShutDown()
		q.Add(1)
		require.Equal(t, -1, q.Contents(1).Waiting[0].Requeues)
		before, began := runtime.NumGoroutine(), time.Now()
		for range 50 {
			require.Equal(t, -1, q.Contents(1).Waiting[0].Requeues)
		}
		after, took := runtime.NumGoroutine(), time.Since(began)
		close(stuck)
		synctest.Wait()
		require.Equal(t, 7, q.Contents(1).Waiting[0].Requeues, "it works again")
		require.LessOrEqual(t, after, before, "goroutines")
		require.Zero(t, took)
	})
}
