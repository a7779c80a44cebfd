package workqueue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/workqueue"
)

func waits(l workqueue.RateLimiter[string], key string, n int) []time.Duration {
	var all []time.Duration
	for range n {
		all = append(all, l.When(key))
	}
	return all
}

func TestExponential(t *testing.T) {
	l := workqueue.NewExponential[string](workqueue.ExponentialOptions{
		Base: time.Second, Max: 10 * time.Second, Jitter: -1,
	})
	const s = time.Second
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s}, waits(l, "a", 6))
	require.Equal(t, []time.Duration{s}, waits(l, "b", 1), "keys do not share their back-off")
	require.Equal(t, 6, l.NumRequeues("a"))
	l.Forget("a")
	require.Zero(t, l.NumRequeues("a"))
	require.Equal(t, s, l.When("a"))
	require.Equal(t, 10*s, waits(l, "c", 100)[99], "no overflow")
}

func TestExponentialJitterTakesOffButNeverAdds(t *testing.T) {
	l := workqueue.NewExponential[string](workqueue.ExponentialOptions{})
	want := workqueue.DefaultBase
	spread := map[time.Duration]bool{}
	for i, got := range waits(l, "a", 60) {
		low := time.Duration(float64(want) * (1 - workqueue.DefaultJitter))
		if got < low || got > want {
			t.Errorf("wait %d: got %v, want between %v and %v", i, got, low, want)
		}
		want = min(2*want, workqueue.DefaultMax)
		spread[got] = true
	}
	require.Greater(t, len(spread), 30, "waits at the ceiling must differ")
}

// 10,000 keys that fail at once must be retried soon, not after minutes.
func TestDefaultLimiterPilesUpNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		const n = 10_000
		for key := range n {
			q.AddRateLimited(key)
		}
		time.Sleep(workqueue.DefaultBase)
		synctest.Wait()
		require.Equal(t, n, q.Len())
		q.ShutDown()
	})
}

func TestFastSlow(t *testing.T) {
	l := workqueue.NewFastSlow[string](workqueue.FastSlowOptions{Fast: 1, Slow: 9, FastAttempts: 2})
	require.Equal(t, []time.Duration{1, 1, 9, 9}, waits(l, "a", 4))
	l.Forget("a")
	require.EqualValues(t, 1, l.When("a"))
	require.Equal(t, 1, l.NumRequeues("a"))
}

func TestBucketHoldsItsRateAndItsLongestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := workqueue.NewBucket[int](workqueue.BucketOptions{Limit: 10, Burst: 2, MaxDelay: -1})
		const ms = time.Millisecond
		require.Equal(t, []time.Duration{0, 0, 100 * ms, 200 * ms}, []time.Duration{l.When(1), l.When(2), l.When(3), l.When(4)})

		l = workqueue.NewBucket[int](workqueue.BucketOptions{})
		var longest time.Duration
		for n := range 10_000 {
			longest = max(longest, l.When(n))
		}
		require.LessOrEqual(t, longest, workqueue.DefaultMaxDelay)
		time.Sleep(workqueue.DefaultMaxDelay + time.Second)
		require.Zero(t, l.When(0), "who took no place must leave no debt")
		require.Zero(t, l.NumRequeues(0))
		l.Forget(0)
	})
}

// A key has one place in the line, however often it is added before its turn, and takes
// the next one afterwards.
func TestKeyHasOnePlaceInABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := workqueue.NewBucket[string](workqueue.BucketOptions{Limit: 10, Burst: 1})
		const ms = time.Millisecond
		require.Equal(t, []time.Duration{0, 100 * ms, 100 * ms, 100 * ms}, waits(l, "a", 4))
		require.Equal(t, 200*ms, l.When("b"))
		time.Sleep(50 * ms)
		require.Equal(t, 50*ms, l.When("a"))
		time.Sleep(50 * ms)
		require.Equal(t, 200*ms, l.When("a"), "its turn has come: it goes behind b")
	})
}

// A key that is added faster than the bucket allows is handed out as often as it does.
func TestBusyKeyKeepsTheRateOfItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{RateLimiter: workqueue.NewBucket[string](workqueue.BucketOptions{Limit: 5, Burst: 1})})
		defer q.ShutDown()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var adding sync.WaitGroup
		adding.Go(func() {
			for ctx.Err() == nil {
				q.AddRateLimited("same")
				time.Sleep(100 * time.Millisecond)
			}
		})
		last, longest, n := time.Now(), time.Duration(0), 0
		for key := range q.Work(ctx) {
			require.Equal(t, "same", key)
			longest, last, n = max(longest, time.Since(last)), time.Now(), n+1
		}
		adding.Wait()
		require.LessOrEqual(t, longest, 400*time.Millisecond)
		require.Greater(t, n, 10*60*3)
	})
}

// When many workers fail at once, keys without a place in the line leave no debt: the line is never
// longer than MaxDelay.
func TestConcurrentFailuresKeepABucketWithinMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := workqueue.NewBucket[int](workqueue.BucketOptions{Limit: 10, Burst: 1, MaxDelay: time.Second})
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for n := range 20_000 {
					l.When(n)
				}
			})
		}
		workers.Wait()
		time.Sleep(time.Second)
		require.LessOrEqual(t, l.When(0), 100*time.Millisecond, "the next place of the line")
	})
}

func TestMaxOfAndMaxWait(t *testing.T) {
	fast := workqueue.NewFastSlow[string](workqueue.FastSlowOptions{Fast: 1, Slow: 50, FastAttempts: 2})
	exp := workqueue.NewExponential[string](workqueue.ExponentialOptions{Base: 2, Max: 100, Jitter: -1})
	l := workqueue.NewMaxWait(workqueue.NewMaxOf[string](fast, exp), 60)
	require.Equal(t, []time.Duration{2, 4, 50, 50, 50, 60, 60}, waits(l, "a", 7))
	require.Equal(t, 7, l.NumRequeues("a"))
	l.Forget("a")
	require.Zero(t, fast.NumRequeues("a")+exp.NumRequeues("a"))
	require.Zero(t, workqueue.NewMaxOf[string]().When("a"))
}
