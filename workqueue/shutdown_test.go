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

func TestL28_drain_waits_for_queued_and_running_work(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		var mu sync.Mutex
		done := map[int]int{}
		for range 2 {
			go func() {
				for key := range q.Work(context.Background()) {
					mu.Lock()
					first := done[key] == 0
					mu.Unlock()
					if key == 0 && first {
						q.Add(0) // accepted: the queue is still open
					}
					time.Sleep(time.Second)
					mu.Lock()
					done[key]++
					mu.Unlock()
					q.AddRateLimited(key + 100) // too late
				}
			}()
		}
		q.AddWith(workqueue.AddOptions{}, 0, 1, 2, 3, 4)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, q.Drain(t.Context()))
		require.Equal(t, map[int]int{0: 2, 1: 1, 2: 1, 3: 1, 4: 1}, done)
		require.Equal(t, 3*time.Second, time.Since(start), "6 pieces of a second on 2 workers")
		s := q.Status()
		require.Equal(t, workqueue.Draining, s.State)
		require.Zero(t, s.Waiting+s.Again+s.Running+s.Delayed)
		require.EqualValues(t, 6, s.Dropped, "retries while draining")
		synctest.Wait()
		_, err := q.Get(t.Context())
		require.ErrorIs(t, err, workqueue.ErrShutDown)
		// The bubble ends only if workers and timers have.
	})
}

func TestL28_a_worker_stays_while_a_running_key_will_wait_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		q.Add(1)
		get(t, q)
		q.Add(1)
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		got := make(chan int, 1)
		go func() {
			for key := range q.Work(t.Context()) {
				got <- key
			}
		}()
		synctest.Wait()
		q.Done(1) // by a worker that does not come back
		require.Equal(t, 1, <-got)
		require.NoError(t, <-drained)
	})
}

func TestL28_drain_honours_its_context_and_can_be_called_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{Name: "pods"})
		q.AddWith(workqueue.AddOptions{}, 1, 2, 3)
		key := get(t, q)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := q.Drain(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, `drain work queue "pods": 2 keys waiting, 1 running: context deadline exceeded`)
		require.Equal(t, time.Minute, time.Since(start))

		drained := make(chan error, 2)
		for range 2 {
			go func() { drained <- q.Drain(t.Context()) }()
		}
		q.Done(key)
		q.Done(get(t, q))
		last := get(t, q)
		synctest.Wait()
		require.Empty(t, drained, "drain must wait for the running key")
		q.Done(last)
		require.NoError(t, <-drained)
		require.NoError(t, <-drained)
	})
}

func TestL28_drain_drops_delayed_adds_and_leaves_no_timer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		q.AddAfter(1, 10*time.Hour)
		q.AddRateLimited(2)
		start := time.Now()
		require.NoError(t, q.Drain(t.Context()))
		require.Zero(t, time.Since(start), "drain must not wait for delayed adds")
		require.EqualValues(t, 2, q.Status().Dropped)
		time.Sleep(20 * time.Hour)
		require.Zero(t, q.Len())
		require.Zero(t, q.Status().Adds)
	})
}

func TestL28_shut_down_returns_at_once_and_ends_every_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		ended := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := q.Get(context.Background())
				ended <- err
			}()
		}
		synctest.Wait()
		q.ShutDown()
		for range 3 {
			require.ErrorIs(t, <-ended, workqueue.ErrShutDown)
		}
	})
}

func TestL28_shut_down_drops_queued_keys_and_drain_then_waits_for_running_work(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		q.AddWith(workqueue.AddOptions{}, 1, 2, 3)
		q.AddAfter(4, time.Hour)
		key := get(t, q)
		q.Add(key) // would wait after Done
		draining := make(chan error, 1)
		go func() { draining <- q.Drain(t.Context()) }()
		synctest.Wait()
		q.ShutDown()
		q.ShutDown()
		synctest.Wait()
		require.Empty(t, draining, "the key that runs is not done")
		_, err := q.Get(t.Context())
		require.ErrorIs(t, err, workqueue.ErrShutDown)
		q.Done(key)
		require.NoError(t, <-draining)
		q.Add(9)
		q.AddAfter(9, time.Hour)
		q.AddRateLimited(9)
		s := q.Status()
		require.EqualValues(t, 4+3, s.Dropped, "2, 3, again 1, delayed 4; three adds too late")
		require.Zero(t, s.Retries)
		require.Zero(t, q.NumRequeues(9), "a dropped add must not grow the back-off")
		require.Equal(t, workqueue.ShutDown, s.State)
		require.True(t, q.ShuttingDown())
		require.Zero(t, s.Waiting+s.Again+s.Running+s.Delayed+s.Sleeping)
	})
}
