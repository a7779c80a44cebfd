package workqueue_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/workqueue"
)

// broken is an order and metrics that panic, whatever is asked of them.
type broken struct{}

func (broken) Push(workqueue.Waiting[int])  { panic("push") }
func (broken) Touch(workqueue.Waiting[int]) { panic("touch") }
func (broken) Pop() int                     { panic("pop") }
func (broken) Remove(int)                   { panic("remove") }

func (broken) Register(string, func() workqueue.Status) workqueue.Metrics { return broken{} }
func (broken) QueueDuration(time.Duration)                                { panic("queue duration") }
func (broken) WorkDuration(time.Duration)                                 { panic("work duration") }
func (broken) Unregister()                                                { panic("unregister") }

// leaving is an order, metrics and a limiter that end their goroutine.
type leaving struct{}

func (leaving) Push(workqueue.Waiting[int])  { runtime.Goexit() }
func (leaving) Touch(workqueue.Waiting[int]) { runtime.Goexit() }
func (leaving) Pop() int                     { runtime.Goexit(); return 0 }
func (leaving) Remove(int)                   { runtime.Goexit() }

func (leaving) Register(string, func() workqueue.Status) workqueue.Metrics { return leaving{} }
func (leaving) QueueDuration(time.Duration)                                { runtime.Goexit() }
func (leaving) WorkDuration(time.Duration)                                 { runtime.Goexit() }
func (leaving) Unregister()                                                { runtime.Goexit() }

func (leaving) When(int) time.Duration { runtime.Goexit(); return 0 }
func (leaving) Forget(int)             { runtime.Goexit() }
func (leaving) NumRequeues(int) int    { runtime.Goexit(); return 0 }

func TestHooksThatCallGoexitLoseNoKey(t *testing.T) {
	for name, opts := range map[string]workqueue.Options[int]{
		"the order":        {Order: leaving{}},
		"the metrics":      {Metrics: leaving{}},
		"the rate limiter": {RateLimiter: leaving{}},
		"the metrics ":     {Metrics: registerExits{}}, // the provider
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.New(opts)
				var worked []int
				go func() {
					for key := range q.Work(t.Context()) {
						worked = append(worked, key)
						if len(worked) <= 3 {
							q.AddRateLimited(key)
						} else {
							q.Forget(key)
						}
					}
				}()
				go func() {
					q.AddWith(workqueue.AddOptions{}, 0, 1, 1)
					q.AddAfter(2, time.Second)
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Len(t, worked, 6)
				require.Subset(t, worked, []int{0, 1, 2})
				require.Equal(t, strings.TrimSpace(name)+" called runtime.Goexit, as testing.T.FailNow does", q.Status().HookFailure)
				require.NoError(t, q.Drain(t.Context()))
			})
		})
	}
}

// registerExits calls runtime.Goexit when a queue is registered.
type registerExits struct{}

func (registerExits) Register(string, func() workqueue.Status) workqueue.Metrics {
	runtime.Goexit()
	return nil
}

func TestHooksThatPanicLoseNoKey(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{Order: broken{}, Metrics: broken{}})
	for key := range 10 {
		q.Add(key)
		q.Add(key)
	}
	want := 0
	for key := range q.Work(t.Context()) {
		require.Equal(t, want, key, "first come first served")
		if want++; want == 9 {
			break
		}
	}
	key, err := q.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, 9, key)
	q.Done(key)
	s := q.Status()
	require.Positive(t, s.OrderFaults)
	require.Contains(t, s.HookFailure, "the metrics panicked: work duration")
	q.Add(1)
	require.Contains(t, q.Status().HookFailure, "the order panicked: push")
	q.ShutDown()
	require.NoError(t, q.Drain(t.Context()))
}

// A key that is not hashable, such as a slice in an interface, panics in its caller and does not leave
// the queue locked.
func TestUnhashableKeyLeavesTheQueueUnlocked(t *testing.T) {
	q := workqueue.New(workqueue.Options[any]{Order: keyless{}})
	require.Panics(t, func() { q.Done([]int{1}) })
	q.Add("a")
	require.Equal(t, "a", get(t, q), "first come first served")
	require.EqualValues(t, 1, q.Status().OrderFaults)
	q.Done("a")
	q.ShutDown()
}

// keyless is an order that hands out what can be no key.
type keyless struct{}

func (keyless) Push(workqueue.Waiting[any])  {}
func (keyless) Touch(workqueue.Waiting[any]) {}
func (keyless) Pop() any                     { return []int{1} }
func (keyless) Remove(any)                   {}

// silent provides no metrics.
type silent struct{}

func (silent) Register(string, func() workqueue.Status) workqueue.Metrics { return nil }

func TestProviderWithoutMetrics(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{Metrics: silent{}})
	q.Add(1)
	q.Done(get(t, q))
	q.ShutDown()
}

// brokenLimiter is a limiter that always panics.
type brokenLimiter struct{}

func (brokenLimiter) When(string) time.Duration { panic("when") }
func (brokenLimiter) Forget(string)             { panic("forget") }
func (brokenLimiter) NumRequeues(string) int    { panic("requeues") }

// The limiter is the user's, and is called by the workers: a panic in it must neither
// end the process nor lose the key.
func TestALimiterThatPanicsLosesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{RateLimiter: brokenLimiter{}})
		defer q.ShutDown()
		began := time.Now()
		q.AddRateLimited("a")
		key, err := q.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", key)
		require.Equal(t, time.Second, time.Since(began), "it does not come back at once")
		require.Equal(t, "the rate limiter panicked: when", q.Status().HookFailure)
		require.Zero(t, q.NumRequeues("a"))
		require.Len(t, q.Contents(1).Running, 1)
		q.Forget("a")
		require.False(t, q.ForgetAndCancel("a"))
		require.Equal(t, "the rate limiter panicked: forget", q.Status().HookFailure)
	})
}
