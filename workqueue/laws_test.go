package workqueue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/workqueue"
)

// get returns the next key and fails the test if there is none at once. It is
// for use in a bubble, where it would be a deadlock otherwise.
func get[K comparable](t *testing.T, q *workqueue.Queue[K]) K {
	t.Helper()
	if q.Len() == 0 {
		t.Fatalf("no key waits: %+v", q.Status())
	}
	key, err := q.Get(t.Context())
	require.NoError(t, err)
	return key
}

func TestL26_a_key_is_never_in_the_hands_of_two_workers(t *testing.T) {
	const keys, workers, rounds = 5, 8, 4000
	q := workqueue.New(workqueue.Options[int]{})
	var holders [keys]sync.Mutex
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				q.Add(rng.IntN(keys))
			}
		})
		all.Go(func() {
			for key := range q.Work(t.Context()) {
				if !holders[key].TryLock() {
					t.Errorf("key %d is in the hands of two workers", key)
					continue
				}
				for range 20 {
					q.Len() // let others in while the key is held
				}
				holders[key].Unlock()
			}
		})
	}
	for q.Status().Merged+q.Status().Adds < workers*rounds {
		q.Len()
	}
	require.NoError(t, q.Drain(t.Context()))
	all.Wait()
}

func TestL26_added_while_running_it_is_handed_out_again_after_done(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.Add("a")
		require.Equal(t, "a", get(t, q))
		q.Add("a")
		q.Add("a")
		require.Zero(t, q.Len(), "a running key must not wait")
		q.Done("a")
		require.Equal(t, "a", get(t, q))
		q.Done("a")
		require.Zero(t, q.Len(), "adds of one run merge")
		q.ShutDown()
	})
}

func TestL26_done_of_a_key_that_is_not_running_panics(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{Name: "pods"})
	q.Add("a")
	require.PanicsWithValue(t,
		`workqueue "pods": Done(a) of a key that is not running: call Done once for each Get`,
		func() { q.Done("a") })
	require.Equal(t, "a", get(t, q), "the queue must live on")
}

// Each add of a key carries a version. When the key is handed out, all versions
// added before must be seen by that or a later hand-out.
func TestL27_every_add_is_followed_by_a_get(t *testing.T) {
	const keys, adders, workers, rounds = 7, 4, 4, 3000
	q := workqueue.New(workqueue.Options[int]{})
	var mu sync.Mutex
	var added, seen [keys]int
	var adding, working sync.WaitGroup
	for a := range adders {
		adding.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(a)))
			for i := range rounds {
				key := rng.IntN(keys)
				mu.Lock()
				added[key]++
				mu.Unlock()
				switch i % 4 {
				case 0:
					q.AddAfter(key, time.Microsecond)
				case 1:
					q.AddWith(workqueue.AddOptions{Priority: rng.IntN(3)}, key)
				default:
					q.Add(key)
				}
			}
		})
	}
	for range workers {
		working.Go(func() {
			for key := range q.Work(t.Context()) {
				mu.Lock()
				seen[key] = added[key]
				mu.Unlock()
			}
		})
	}
	adding.Wait()
	for q.Status().Delayed > 0 {
		q.Len()
	}
	require.NoError(t, q.Drain(t.Context()))
	working.Wait()
	require.Equal(t, added, seen)
}

func TestL27_a_wake_up_is_not_lost_when_its_receiver_gives_up(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		got := make(chan int, 2)
		go func() {
			for key := range q.Work(t.Context()) {
				got <- key
			}
		}()
		synctest.Wait()
		// The last to sleep is woken first, so the impatient worker is the one
		// that the add wakes; its context has ended by then.
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			gave := make(chan error)
			go func() {
				key, err := q.Get(ctx)
				if err == nil {
					q.Done(key)
					got <- key
				}
				gave <- err
			}()
			synctest.Wait()
			q.Add(i)
			cancel()
			<-gave
			synctest.Wait()
			select {
			case key := <-got:
				require.Equal(t, i, key)
			default:
				t.Fatalf("key %d waits although a worker sleeps: %+v", i, q.Status())
			}
		}
		q.ShutDown()
	})
}

func TestL27_workers_that_give_up_leave_the_others_to_be_woken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rounds := range uint64(50) {
			rng := rand.New(rand.NewPCG(3, rounds))
			q := workqueue.New(workqueue.Options[int]{})
			const workers = 6
			var give [workers]context.CancelFunc
			got := make(chan int, workers)
			for w := range workers {
				ctx, cancel := context.WithCancel(t.Context())
				give[w] = cancel
				go func() {
					key, err := q.Get(ctx)
					if err == nil {
						got <- key
					}
				}()
				synctest.Wait()
			}
			for i, w := range rng.Perm(workers) {
				if i == workers/2 {
					break
				}
				give[w]()
				synctest.Wait()
				require.Equal(t, workers-i-1, q.Status().Sleeping)
			}
			for key := range workers / 2 {
				q.Add(key)
			}
			synctest.Wait()
			require.Len(t, got, workers/2, "round %d: %+v", rounds, q.Status())
			for _, cancel := range give {
				cancel()
			}
			q.ShutDown()
		}
	})
}

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

func TestL28_shut_down_drops_what_waits_and_drain_then_waits_for_running_work(t *testing.T) {
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

func TestL29_forget_drops_the_backoff_and_if_asked_the_delayed_add(t *testing.T) {
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

// While urgent keys keep coming faster than they are worked on, a key with n
// older ones before it is handed out within FairEvery*(n+1) Gets.
func TestL30_no_key_starves_while_urgent_ones_keep_coming(t *testing.T) {
	for name, opts := range map[string]workqueue.Options[int]{
		"priorities":  {},
		"fair 3":      {FairEvery: 3},
		"own order":   {Order: &lifo[int]{}},
		"wrong order": {Order: forgetful{}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.New(opts)
			defer q.ShutDown()
			every := opts.FairEvery
			if every == 0 {
				every = workqueue.DefaultFairEvery
			}
			const patient = 20
			for key := range patient {
				q.AddWith(workqueue.AddOptions{Priority: -key}, key)
			}
			left := patient
			for gets := 1; left > 0; gets++ {
				q.AddWith(workqueue.AddOptions{Priority: 1000}, 1000+2*gets, 1001+2*gets)
				key := get(t, q)
				q.Done(key)
				if key >= patient {
					if gets > every*patient {
						t.Fatalf("after %d gets %d keys still wait", gets, left)
					}
					continue
				}
				left--
				if limit := every * (key + 1); gets > limit {
					t.Errorf("key %d came after %d gets, want at most %d", key, gets, limit)
				}
			}
		})
	}
}

func TestL30_a_key_raised_again_and_again_keeps_its_age(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{FairEvery: 4})
	q.Add("old")
	for i := range 3 {
		q.AddWith(workqueue.AddOptions{Priority: 10 + i}, "urgent")
		q.AddWith(workqueue.AddOptions{Priority: 1 + i}, "old")
		require.Equal(t, "urgent", get(t, q))
		q.Done("urgent")
	}
	q.AddWith(workqueue.AddOptions{Priority: 99}, "urgent")
	require.Equal(t, "old", get(t, q), "the fourth get takes the oldest")
}

// lifo hands out the youngest key.
type lifo[K comparable] struct{ keys []K }

func (l *lifo[K]) Push(w workqueue.Waiting[K]) { l.keys = append(l.keys, w.Key) }
func (l *lifo[K]) Touch(workqueue.Waiting[K])  {}
func (l *lifo[K]) Pop() K {
	key := l.keys[len(l.keys)-1]
	l.keys = l.keys[:len(l.keys)-1]
	return key
}
func (l *lifo[K]) Remove(key K) {
	for i, k := range l.keys {
		if k == key {
			l.keys = append(l.keys[:i], l.keys[i+1:]...)
			return
		}
	}
}

// forgetful is an order with a bug: it names a key that does not wait.
type forgetful struct{}

func (forgetful) Push(workqueue.Waiting[int])  {}
func (forgetful) Touch(workqueue.Waiting[int]) {}
func (forgetful) Pop() int                     { return -1 }
func (forgetful) Remove(int)                   {}

func TestOwnOrder(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{Order: &lifo[int]{}})
	q.AddWith(workqueue.AddOptions{}, 1, 2, 3)
	for _, want := range []int{3, 2, 1} {
		key := get(t, q)
		require.Equal(t, want, key)
		q.Done(key)
	}
	wrong := workqueue.New(workqueue.Options[int]{Order: forgetful{}})
	wrong.Add(7)
	require.Equal(t, 7, get(t, wrong), "nothing is lost to a broken order")
	require.EqualValues(t, 1, wrong.Status().OrderFaults)
	require.Nil(t, wrong.Status().ByPriority)
}

func TestGetHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		stop := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		_, err := q.Get(ctx)
		require.ErrorIs(t, err, stop)
		q.Add(1)
		_, err = q.Get(ctx)
		require.ErrorIs(t, err, stop, "a context that has ended gets no key")
		require.Equal(t, 1, q.Len())
		require.Zero(t, q.Status().Sleeping)
	})
}
