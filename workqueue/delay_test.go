package workqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/workqueue"
)

func TestL29_the_earlier_of_two_delayed_adds_wins(t *testing.T) {
	for name, delays := range map[string][2]time.Duration{
		"later first":   {10 * time.Second, 3 * time.Second},
		"earlier first": {3 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.New(workqueue.Options[string]{})
				start := time.Now()
				q.AddAfter("a", delays[0])
				q.AddAfter("a", delays[1])
				key, err := q.Get(t.Context())
				require.NoError(t, err)
				require.Equal(t, "a", key)
				require.Equal(t, 3*time.Second, time.Since(start))
				q.Done(key)
				time.Sleep(time.Minute)
				require.Zero(t, q.Len(), "the later one is void")
				q.ShutDown()
			})
		})
	}
}

func TestL29_an_immediate_add_supersedes_a_delayed_one(t *testing.T) {
	for name, add := range map[string]func(q *workqueue.Queue[string]){
		"delayed first":   func(q *workqueue.Queue[string]) { q.AddAfter("a", time.Second); q.Add("a") },
		"immediate first": func(q *workqueue.Queue[string]) { q.Add("a"); q.AddAfter("a", time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.New(workqueue.Options[string]{})
				add(q)
				q.Done(get(t, q))
				time.Sleep(time.Minute)
				require.Zero(t, q.Len(), "the delayed one is void")
				require.Zero(t, q.Status().Delayed)
				q.ShutDown()
			})
		})
	}
}

func TestL29_a_delayed_add_of_a_running_key_waits_for_time_and_done(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.Add("a")
		get(t, q)
		q.AddAfter("a", time.Second)
		q.Done("a")
		require.Zero(t, q.Len())
		time.Sleep(time.Second)
		synctest.Wait()
		get(t, q)
		q.AddAfter("a", time.Second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, q.Len(), "it is still running")
		q.Done("a")
		get(t, q)
		q.Done("a")
		q.ShutDown()
	})
}

func TestL29_forget_drops_the_backoff_and_optionally_the_delayed_add(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.AddRateLimited("a")
		q.AddRateLimited("b")
		require.Equal(t, 1, q.NumRequeues("a"))
		q.Forget("a")
		require.Zero(t, q.NumRequeues("a"))
		require.True(t, q.ForgetAndCancel("b"))
		require.Zero(t, q.NumRequeues("b"))
		require.False(t, q.ForgetAndCancel("b"), "nothing is left to cancel")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, q.Len())
		require.Equal(t, "a", get(t, q), "Forget alone keeps the delayed add")
		q.ShutDown()
	})
}

func TestL29_a_delayed_add_can_be_postponed_advanced_and_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		start := time.Now()
		q.AddAfter("postponed", time.Second)
		q.AddAfter("advanced", time.Hour)
		q.AddAfter("cancelled", 2*time.Second)
		q.AddAfter("now", time.Hour)
		require.True(t, q.Reschedule("postponed", time.Minute))
		require.True(t, q.Reschedule("advanced", 3*time.Second))
		require.True(t, q.Reschedule("now", 0))
		require.True(t, q.Cancel("cancelled"))
		require.False(t, q.Cancel("cancelled"))
		require.False(t, q.Reschedule("cancelled", time.Second))
		require.False(t, q.Reschedule("now", time.Second), "a waiting key is not delayed")
		for _, want := range []struct {
			key   string
			after time.Duration
		}{{"now", 0}, {"advanced", 3 * time.Second}, {"postponed", time.Minute}} {
			key, err := q.Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, want.key, key)
			require.Equal(t, want.after, time.Since(start))
			q.Done(key)
		}
		require.Zero(t, q.Status().Delayed)
		q.ShutDown()
	})
}

func TestDelayedAddsThatAreDueTogetherKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{Timestamps: true, FairEvery: 1})
		const n = 100
		for key := range n {
			q.AddAfter(key, time.Second)
		}
		for key := 0; key < n; key += 3 { // requested again
			require.True(t, q.Reschedule(key, time.Second))
		}
		for key := 1; key < n; key += 3 { // of two adds the first one counts
			q.AddAfter(key, time.Second)
		}
		var want []int
		for key := range n {
			if key%3 != 0 {
				want = append(want, key)
			}
		}
		for key := 0; key < n; key += 3 {
			want = append(want, key)
		}
		var listed, got []int
		for _, held := range q.Contents(n).Delayed {
			listed = append(listed, held.Key)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for range n {
			key := get(t, q)
			got = append(got, key)
			q.Done(key)
		}
		require.Equal(t, want, got)
		require.Equal(t, want, listed)
		q.ShutDown()
	})
}
