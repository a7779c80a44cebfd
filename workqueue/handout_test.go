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

func TestL26_a_key_is_never_processed_by_two_workers(t *testing.T) {
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

func TestL26_done_within_the_loop_panics_and_affects_no_other_key(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{})
	q.AddWith(workqueue.AddOptions{}, 1, 2)
	require.Panics(t, func() {
		for key := range q.Work(t.Context()) {
			q.Done(key) // is the loop's business
		}
	})
	s := q.Status()
	require.Equal(t, 1, s.Waiting)
	require.Zero(t, s.Running)
	require.Equal(t, 2, get(t, q))
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
		// The last to sleep is woken first, so the add wakes the impatient worker, whose context has
		// ended by then.
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

func TestL27_workers_that_give_up_do_not_lose_a_wake_up(t *testing.T) {
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

// While urgent keys keep coming faster than they are worked on, a key with n

// older ones before it is handed out within FairEvery*(n+1) Gets.

// lifo hands out the youngest key.

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
