package workqueue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/workqueue"
)

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

type lifo[K comparable] struct{ keys []K }

func (l *lifo[K]) Push(w workqueue.Waiting[K]) { l.keys = append(l.keys, w.Key) }

func (l *lifo[K]) Touch(workqueue.Waiting[K]) {}

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

func (forgetful) Push(workqueue.Waiting[int]) {}

func (forgetful) Touch(workqueue.Waiting[int]) {}

func (forgetful) Pop() int { return -1 }

func (forgetful) Remove(int) {}

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

func TestRunningPriorityIsThatOfTheHandOut(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{})
	q.AddWith(workqueue.AddOptions{Priority: -3}, "a")
	_, running := q.RunningPriority("a")
	require.False(t, running, "it waits")
	get(t, q)
	q.AddWith(workqueue.AddOptions{Priority: 7}, "a")
	priority, running := q.RunningPriority("a")
	require.True(t, running)
	require.Equal(t, -3, priority, "the hand-out to come has another")
	q.Done("a")
	_, running = q.RunningPriority("a")
	require.False(t, running)
}
