package controllerruntime_test

import (
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
)

type queue = workqueue.TypedRateLimitingInterface[string]

func limiter(first, last time.Duration) workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](first, last)
}

// queues are the stock queues and ours, by the shortest and the longest wait after a failure.
var queues = map[string]func(first, last time.Duration) queue{
	"client-go": func(first, last time.Duration) queue {
		return workqueue.NewTypedRateLimitingQueue(limiter(first, last))
	},
	"controller-runtime": func(first, last time.Duration) queue {
		q := priorityqueue.New("", func(o *priorityqueue.Opts[string]) { o.RateLimiter = limiter(first, last) })
		return stockPriority{q, sync.OnceFunc(q.ShutDown)}
	},
	"millrace": func(first, last time.Duration) queue { return controllerruntime.NewQueue("", limiter(first, last)) },
}

// the returns the queues with these names.
func the(names ...string) map[string]func(first, last time.Duration) queue {
	some := map[string]func(first, last time.Duration) queue{}
	for _, name := range names {
		some[name] = queues[name]
	}
	return some
}

// each runs a test with each queue, each in its own bubble.
func each(t *testing.T, of map[string]func(first, last time.Duration) queue, run func(*testing.T, queue)) {
	t.Helper()
	for name, newQueue := range of {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(time.Second, time.Minute)
				defer q.ShutDown()
				run(t, q)
			})
		})
	}
}

// stockPriority is a stock priority queue that may be shut down twice, which panics in the stock
// queue.
type stockPriority struct {
	priorityqueue.PriorityQueue[string]
	shutDown func()
}

func (s stockPriority) ShutDown() { s.shutDown() }

// ShutDownWithDrain is the same as ShutDown in this queue.
func (s stockPriority) ShutDownWithDrain() { s.shutDown() }

func take(t *testing.T, q queue) string {
	t.Helper()
	key, shutdown := q.Get()
	require.False(t, shutdown)
	return key
}

func TestQueueHandsOutInTheOrderOfAdding(t *testing.T) {
	each(t, queues, func(t *testing.T, q queue) {
		for _, key := range []string{"a", "b", "a", "c"} {
			q.Add(key)
		}
		require.Equal(t, 3, q.Len(), "a key that waits merges")
		for _, want := range []string{"a", "b", "c"} {
			require.Equal(t, want, take(t, q))
			q.Done(want)
		}
		require.Zero(t, q.Len())
	})
}

func TestQueueGivesAKeyToOneWorkerAtATime(t *testing.T) {
	each(t, queues, func(t *testing.T, q queue) {
		q.Add("a")
		take(t, q)
		q.Add("a")
		var second bool
		go func() {
			take(t, q)
			second = true
			q.Done("a")
		}()
		synctest.Wait()
		require.False(t, second, "the first is not done")
		q.Done("a")
		synctest.Wait()
		require.True(t, second, "what was added meanwhile is handed out")
	})
}

func TestQueueDelays(t *testing.T) {
	each(t, queues, func(t *testing.T, q queue) {
		begin := time.Now()
		q.AddAfter("a", 3*time.Second)
		q.AddAfter("a", time.Second)
		q.AddAfter("a", 2*time.Second)
		q.AddAfter("b", 0)
		require.Equal(t, "b", take(t, q))
		require.Equal(t, "a", take(t, q))
		require.Equal(t, time.Second, time.Since(begin), "the earliest counts")
		q.Done("a")
		q.Done("b")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, q.Len())
	})
}

// client-go hands the key out twice.
func TestQueueAddSupersedesADelay(t *testing.T) {
	each(t, the("controller-runtime", "millrace"), func(t *testing.T, q queue) {
		q.AddAfter("a", time.Second)
		q.Add("a")
		require.Equal(t, "a", take(t, q))
		q.Done("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, q.Len())
	})
}

func TestQueueBacksOffByKey(t *testing.T) {
	each(t, queues, func(t *testing.T, q queue) {
		for n, want := range []time.Duration{1, 2, 4, 8} {
			begin := time.Now()
			q.AddRateLimited("a")
			require.Equal(t, n+1, retries(q, "a"))
			require.Equal(t, "a", take(t, q))
			require.Equal(t, want*time.Second, time.Since(begin))
			q.Done("a")
		}
		q.Forget("a")
		require.Zero(t, retries(q, "a"))
	})
}

// retries returns the number of retries after all goroutines of q have blocked.
func retries(q queue, key string) int {
	synctest.Wait()
	return q.NumRequeues(key)
}

func TestQueueShutDownEndsEveryWait(t *testing.T) {
	for name, newQueue := range queues {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(time.Second, time.Minute)
				ended := make(chan bool, 3)
				for range cap(ended) {
					go func() {
						_, shutdown := q.Get()
						ended <- shutdown
					}()
				}
				synctest.Wait()
				q.ShutDown()
				for range cap(ended) {
					require.True(t, <-ended)
				}
				q.Add("a")
				require.True(t, q.ShuttingDown())
				_, shutdown := q.Get()
				require.True(t, shutdown, "what is added later is dropped")
			})
		})
	}
}

// client-go's queue continues until it is empty; see ShutDownWithDrain.
func TestQueueShutDownDropsDelayedKeys(t *testing.T) {
	each(t, the("controller-runtime", "millrace"), func(t *testing.T, q queue) {
		q.Add("a")
		require.Equal(t, 1, q.Len())
		q.ShutDown()
		_, shutdown := q.Get()
		require.True(t, shutdown)
	})
}

// The stock priority queue's ShutDownWithDrain is the same as its ShutDown.
func TestQueueDrains(t *testing.T) {
	each(t, the("client-go", "millrace"), func(t *testing.T, q queue) {
		q.Add("a")
		q.Add("b")
		take(t, q)
		drained := make(chan struct{})
		go func() {
			q.ShutDownWithDrain()
			close(drained)
		}()
		synctest.Wait()
		q.Add("c")
		require.Equal(t, "b", take(t, q), "what waited is handed out")
		q.Done("b")
		synctest.Wait()
		select {
		case <-drained:
			t.Fatal("drained while a key is being worked on")
		default:
		}
		q.Done("a")
		<-drained
		_, shutdown := q.Get()
		require.True(t, shutdown, "what was added meanwhile is dropped")
	})
}

func TestQueueShutDownEndsADrain(t *testing.T) {
	each(t, the("client-go", "millrace"), func(t *testing.T, q queue) {
		q.Add("a")
		take(t, q)
		drained := make(chan struct{})
		go func() {
			q.ShutDownWithDrain()
			close(drained)
		}()
		synctest.Wait()
		q.ShutDown()
		<-drained
		q.Done("a")
	})
}

func prioritized(t *testing.T, q queue) priorityqueue.PriorityQueue[string] {
	t.Helper()
	p, ok := q.(priorityqueue.PriorityQueue[string])
	require.True(t, ok)
	return p
}

func TestQueueHandsOutByPriority(t *testing.T) {
	each(t, the("controller-runtime", "millrace"), func(t *testing.T, q queue) {
		p := prioritized(t, q)
		p.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, "low", "raised")
		p.AddWithOpts(priorityqueue.AddOpts{}, "none")
		p.AddWithOpts(priorityqueue.AddOpts{Priority: new(5)}, "high")
		p.AddWithOpts(priorityqueue.AddOpts{Priority: new(5)}, "raised")
		p.AddWithOpts(priorityqueue.AddOpts{Priority: new(-5)}, "raised")
		require.Equal(t, 4, p.Len())
		for _, want := range []struct {
			key      string
			priority int
		}{{"high", 5}, {"raised", 5}, {"none", 0}, {"low", -100}} {
			key, priority, shutdown := p.GetWithPriority()
			require.False(t, shutdown)
			require.Equal(t, want.key, key)
			require.Equal(t, want.priority, priority, key)
			p.Done(key)
		}
	})
}

func TestQueueTakesTheShorterOfTwoDelays(t *testing.T) {
	each(t, the("controller-runtime", "millrace"), func(t *testing.T, q queue) {
		p, begin := prioritized(t, q), time.Now()
		p.AddWithOpts(priorityqueue.AddOpts{After: time.Minute, RateLimited: true, Priority: new(3)}, "a")
		key, priority, _ := p.GetWithPriority()
		require.Equal(t, "a", key)
		require.Equal(t, 3, priority)
		require.Equal(t, time.Second, time.Since(begin))
		p.Done(key)
		p.AddWithOpts(priorityqueue.AddOpts{After: time.Millisecond, RateLimited: true}, "a")
		take(t, p)
		require.Equal(t, time.Second+time.Millisecond, time.Since(begin))
		require.Equal(t, 2, p.NumRequeues("a"))
		p.Done(key)
	})
}

// faulty is a limiter whose When panics.
type faulty struct {
	workqueue.TypedRateLimiter[string]
}

func (faulty) When(string) time.Duration { panic("no wait") }

// With After, too, a panicking limiter loses no key, and a queue that is shut down counts no
// failure.
func TestQueueWithTwoDelaysGuardsItsLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := controllerruntime.NewQueue("", faulty{limiter(time.Second, time.Minute)}).(*controllerruntime.Queue[string])
		defer q.ShutDown()
		q.AddWithOpts(priorityqueue.AddOpts{After: time.Minute, RateLimited: true}, "a", "b")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 2, q.Len())
	})
	q := controllerruntime.NewQueue("", limiter(time.Second, time.Minute)).(*controllerruntime.Queue[string])
	q.ShutDown()
	q.AddWithOpts(priorityqueue.AddOpts{After: time.Minute, RateLimited: true}, "a")
	require.Zero(t, q.NumRequeues("a"))
}

// TestQueueHandsOutInTheSameOrderAsControllerRuntimes adds random keys to a stock priority queue
// and to ours, one of them always with a delay. Both hand out the same keys with the same
// priorities at the same times, until starving keys get their turn.
func TestQueueHandsOutInTheSameOrderAsControllerRuntimes(t *testing.T) {
	t.Logf("-seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 0))
	// A bubble whose goroutines wait for a mutex never ends. Panic before go test times out.
	stuck := time.AfterFunc(2*time.Minute, func() { debug.SetTraceback("all"); panic("a bubble is stuck") })
	defer stuck.Stop()
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			theirs, ours := prioritized(t, queues["controller-runtime"](time.Second, time.Minute)), prioritized(t, queues["millrace"](time.Second, time.Minute))
			defer theirs.ShutDown()
			defer ours.ShutDown()
			add := func() {
				opts, key := priorityqueue.AddOpts{Priority: new(rng.IntN(4) - 2)}, string(rune('a'+rng.IntN(4)))
				if key == "a" {
					opts.After, opts.RateLimited = time.Duration(rng.IntN(3))*time.Second, true
				}
				for _, q := range []priorityqueue.PriorityQueue[string]{theirs, ours} {
					q.AddWithOpts(opts, key)
				}
				synctest.Wait()
			}
			const before = 7 // the eighth is the one that has waited longest
			for handed := 0; handed < before; {
				for range rng.IntN(4) {
					add()
				}
				time.Sleep(time.Duration(rng.IntN(2500)) * time.Millisecond)
				synctest.Wait()
				require.Equal(t, theirs.Len(), ours.Len())
				if theirs.Len() == 0 {
					continue
				}
				key, priority, _ := ours.GetWithPriority()
				want, wantPriority, _ := theirs.GetWithPriority()
				require.Equal(t, want, key)
				require.Equal(t, wantPriority, priority, key)
				add() // while it is being processed
				ours.Done(key)
				theirs.Done(key)
				handed++
			}
		})
	}
}

// Stock queues starve the key.
func TestQueueStarvesNoKey(t *testing.T) {
	each(t, the("millrace"), func(t *testing.T, q queue) {
		p := prioritized(t, q)
		p.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, "low")
		for range 1000 {
			p.Add("high")
			key := take(t, p)
			p.Done(key)
			if key == "low" {
				return
			}
		}
		t.Fatal("low was never handed out (L30)")
	})
}

func TestQueueStrayDoneIsHarmless(t *testing.T) {
	each(t, queues, func(t *testing.T, q queue) {
		q.Done("a")
		q.Add("a")
		require.Equal(t, "a", take(t, q))
		q.Done("a")
		q.Done("a")
	})
}

func TestQueueHasMetrics(t *testing.T) {
	before := added(t, "metered")
	for range 2 { // the second queue uses the metrics that the first has registered
		q := controllerruntime.NewQueue("metered", limiter(time.Second, time.Minute))
		q.Add("a")
		q.ShutDown()
	}
	require.Equal(t, 2.0, added(t, "metered")-before)
}

// added returns how many keys were added to a queue, according to its metrics.
func added(t *testing.T, queue string) float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.(prometheus.Gatherer).Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "millrace_workqueue_adds_total" && m.GetLabel()[0].GetValue() == queue {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
