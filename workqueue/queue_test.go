package workqueue_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/workqueue"
)

func TestFIFO(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{Name: "numbers"})
	q.AddWith(workqueue.AddOptions{}, 3, 1, 2, 1, 3)
	require.Equal(t, 3, q.Len())
	for _, want := range []int{3, 1, 2} {
		key := get(t, q)
		require.Equal(t, want, key)
		q.Done(key)
	}
	s := q.Status()
	require.EqualValues(t, 3, s.Adds)
	require.EqualValues(t, 2, s.Merged)
	require.Equal(t, "numbers", q.Name())
}

func TestPriorities(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{FairEvery: 1000})
	q.AddWith(workqueue.AddOptions{Priority: -100}, "low", "raised")
	q.Add("middle")
	q.AddWith(workqueue.AddOptions{Priority: 5}, "high", "raised")
	q.AddWith(workqueue.AddOptions{Priority: -7}, "high") // the higher one holds
	require.Equal(t, []workqueue.PriorityDepth{{5, 2}, {0, 1}, {-100, 1}}, q.Status().ByPriority)
	for _, want := range []string{"high", "raised", "middle", "low"} {
		require.Equal(t, want, get(t, q))
	}
	q.AddWith(workqueue.AddOptions{KeepPriority: true}, "middle", "high")
	q.Add("low")
	for _, key := range []string{"low", "middle", "high"} {
		q.Done(key)
	}
	require.Equal(t, []workqueue.PriorityDepth{{5, 1}, {0, 2}, {-100, 0}}, q.Status().ByPriority,
		"high keeps its priority; low has that of its new add")
}

func TestManyPrioritiesLeaveNothingBehind(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{FairEvery: 1 << 30})
	for key := range 1000 {
		q.AddWith(workqueue.AddOptions{Priority: key * 7919 % 1000}, key)
	}
	last := 1000
	for range 1000 {
		key := get(t, q)
		if p := key * 7919 % 1000; p >= last {
			t.Fatalf("priority %d came after %d", p, last)
		} else {
			last = p
		}
		q.Done(key)
	}
	require.LessOrEqual(t, len(q.Status().ByPriority), 16)
}

func TestAfterAndRateLimitedWaitForTheLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{
			RateLimiter: workqueue.NewFastSlow[string](workqueue.FastSlowOptions{Slow: 10 * time.Second}),
		})
		start := time.Now()
		q.AddWith(workqueue.AddOptions{RateLimited: true, After: time.Minute}, "after")
		q.AddWith(workqueue.AddOptions{RateLimited: true, After: time.Second}, "limit")
		for _, want := range []struct {
			key  string
			wait time.Duration
		}{{"limit", 10 * time.Second}, {"after", time.Minute}} {
			key, err := q.Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, want.key, key)
			require.Equal(t, want.wait, time.Since(start))
			q.Done(key)
		}
		require.EqualValues(t, 2, q.Status().Retries)
		q.ShutDown()
	})
}

func TestEndlessDelayDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.AddAfter("a", 1<<63-1)
		time.Sleep(1000 * time.Hour)
		require.Zero(t, q.Len())
		require.True(t, q.Cancel("a"))
	})
}

func TestWorkEndsAKeyHoweverTheLoopIsLeft(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{})
	q.AddWith(workqueue.AddOptions{}, 1, 2, 3)
	for range q.Work(t.Context()) {
		break
	}
	require.Zero(t, q.Status().Running)
	require.Panics(t, func() {
		for range q.Work(t.Context()) {
			panic("worker")
		}
	})
	require.Zero(t, q.Status().Running)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range q.Work(ctx) {
		cancel()
	}
	require.Zero(t, q.Status().Running)
	for range q.Work(ctx) {
		t.Error("a context that has ended gets no key")
	}
	q.ShutDown()
	for range q.Work(t.Context()) {
		t.Error("a queue that is shut down hands out no key")
	}
}

func TestStatusAndContents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{Name: "pods", Timestamps: true})
		start := time.Now()
		q.AddWith(workqueue.AddOptions{Priority: 2}, "r1")
		q.Add("r2")
		get(t, q)
		time.Sleep(time.Second)
		get(t, q)
		q.Add("r1")
		q.AddRateLimited("r2")
		q.AddWith(workqueue.AddOptions{}, "w1", "w2", "w3")
		q.AddAfter("d1", time.Hour)
		q.Reschedule("r2", 2*time.Hour)
		time.Sleep(time.Second)
		s := q.Status()
		require.Equal(t, workqueue.Status{
			Name: "pods", State: workqueue.Open,
			Waiting: 3, Again: 1, Running: 2, Delayed: 2,
			ByPriority: []workqueue.PriorityDepth{{2, 0}, {0, 3}},
			Adds:       6, Gets: 2, Retries: 1,
			OldestWaiting: time.Second, LongestRunning: 2 * time.Second, UnfinishedWork: 3 * time.Second,
		}, s)
		at := func(after time.Duration) time.Time { return start.Add(after) }
		c := q.Contents(2)
		equalHeld(t, []workqueue.Held[string]{
			{Key: "r1", Priority: 2, Since: at(0), Again: true},
			{Key: "r2", Since: at(time.Second), Requeues: 1},
		}, c.Running)
		equalHeld(t, []workqueue.Held[string]{
			{Key: "w1", Since: at(time.Second)}, {Key: "w2", Since: at(time.Second)},
		}, c.Waiting)
		equalHeld(t, []workqueue.Held[string]{
			{Key: "d1", Due: at(time.Hour + time.Second)}, {Key: "r2", Due: at(2*time.Hour + time.Second), Requeues: 1},
		}, c.Delayed)
		q.Done("r1")
		require.Equal(t, time.Second, q.Status().UnfinishedWork)
		q.ShutDown()
		require.Equal(t, "shut down", q.Status().State.String())
	})
}

func equalHeld(t *testing.T, want, got []workqueue.Held[string]) {
	t.Helper()
	equal := slices.EqualFunc(want, got, func(a, b workqueue.Held[string]) bool {
		same := a.Since.Equal(b.Since) && a.Due.Equal(b.Due)
		a.Since, a.Due, b.Since, b.Due = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		return same && a == b
	})
	if !equal {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// probe is Metrics and Recorder of one queue.
type probe struct {
	mu           sync.Mutex
	name         string
	status       func() workqueue.Status
	queued, work []time.Duration
	unregistered int
}

func (p *probe) Register(name string, status func() workqueue.Status) workqueue.Metrics {
	p.name, p.status = name, status
	return p
}

func (p *probe) QueueDuration(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued = append(p.queued, d)
}

func (p *probe) WorkDuration(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.work = append(p.work, d)
}

func (p *probe) Unregister() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unregistered++
	p.status() // may be called from here
}

func TestMetricsReceiveEachDurationAndTheEnd(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *workqueue.Queue[string]){
		"drain":     func(t *testing.T, q *workqueue.Queue[string]) { require.NoError(t, q.Drain(t.Context())) },
		"shut down": func(_ *testing.T, q *workqueue.Queue[string]) { q.ShutDown() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &probe{}
				q := workqueue.New(workqueue.Options[string]{Name: "pods", Metrics: p})
				require.Equal(t, "pods", p.name)
				q.Add("a")
				q.AddAfter("b", time.Second)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				get(t, q)
				get(t, q)
				time.Sleep(time.Second)
				q.Done("b")
				q.Add("a")
				time.Sleep(time.Second)
				q.Done("a")
				get(t, q)
				const s = time.Second
				require.Equal(t, []time.Duration{3 * s, 2 * s, s}, p.queued)
				require.Equal(t, []time.Duration{s, 2 * s}, p.work)
				if name == "shut down" {
					end(t, q)
					require.Zero(t, p.unregistered, "a key is still running")
				}
				go func() {
					time.Sleep(s)
					q.Done("a")
				}()
				require.NoError(t, q.Drain(t.Context()))
				synctest.Wait()
				require.Equal(t, 1, p.unregistered)
				end(t, q)
				require.Equal(t, 1, p.unregistered)
				require.EqualValues(t, 3, p.status().Gets)
			})
		})
	}
}

func TestNothingIsAllocatedAtSteadyState(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{})
	defer q.ShutDown()
	ctx := t.Context()
	next := 0
	round := func() {
		for i := range 100 {
			q.AddWith(workqueue.AddOptions{Priority: i % 3}, next+i)
			q.AddAfter(next+i+1000, time.Hour)
			q.Cancel(next + i + 1000)
		}
		for range 100 {
			key, _ := q.Get(ctx)
			q.Done(key)
		}
		next += 100
	}
	for range 20 {
		round()
	}
	if got := testing.AllocsPerRun(50, round); got >= 1 {
		t.Errorf("got %v allocations for 100 keys, want none", got)
	}
}
