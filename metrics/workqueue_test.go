package metrics_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/workqueue"
)

const queueFigures = `
# HELP workqueue_adds_total Keys added to the queue; adds that merged do not count.
# TYPE workqueue_adds_total counter
workqueue_adds_total{controller="pods",name="pods"} 5
# HELP workqueue_delayed Keys whose delayed add is not due yet.
# TYPE workqueue_delayed gauge
workqueue_delayed{controller="pods",name="pods"} 1
# HELP workqueue_depth Keys waiting in the queue, by priority.
# TYPE workqueue_depth gauge
workqueue_depth{controller="pods",name="pods",priority="-100"} 1
workqueue_depth{controller="pods",name="pods",priority="0"} 1
# HELP workqueue_dropped_total Adds and keys dropped because the queue was shut down.
# TYPE workqueue_dropped_total counter
workqueue_dropped_total{controller="pods",name="pods"} 0
# HELP workqueue_longest_running_processor_seconds Longest time spent so far on a key being worked on.
# TYPE workqueue_longest_running_processor_seconds gauge
workqueue_longest_running_processor_seconds{controller="pods",name="pods"} 2
# HELP workqueue_oldest_waiting_seconds How long the longest-waiting key has been waiting.
# TYPE workqueue_oldest_waiting_seconds gauge
workqueue_oldest_waiting_seconds{controller="pods",name="pods"} 3
# HELP workqueue_queue_duration_seconds How long a key waited in the queue before it was handed out, in seconds.
# TYPE workqueue_queue_duration_seconds histogram
workqueue_queue_duration_seconds_bucket{controller="pods",name="pods",le="0.5"} 0
workqueue_queue_duration_seconds_bucket{controller="pods",name="pods",le="5"} 2
workqueue_queue_duration_seconds_bucket{controller="pods",name="pods",le="+Inf"} 2
workqueue_queue_duration_seconds_sum{controller="pods",name="pods"} 2
workqueue_queue_duration_seconds_count{controller="pods",name="pods"} 2
# HELP workqueue_retries_total Rate-limited adds.
# TYPE workqueue_retries_total counter
workqueue_retries_total{controller="pods",name="pods"} 1
# HELP workqueue_running Keys being worked on.
# TYPE workqueue_running gauge
workqueue_running{controller="pods",name="pods"} 1
# HELP workqueue_unfinished_work_seconds Total time spent so far on the keys being worked on. Continuous growth indicates a stuck worker.
# TYPE workqueue_unfinished_work_seconds gauge
workqueue_unfinished_work_seconds{controller="pods",name="pods"} 2
# HELP workqueue_work_duration_seconds How long work on a key took, in seconds.
# TYPE workqueue_work_duration_seconds histogram
workqueue_work_duration_seconds_bucket{controller="pods",name="pods",le="0.5"} 0
workqueue_work_duration_seconds_bucket{controller="pods",name="pods",le="5"} 1
workqueue_work_duration_seconds_bucket{controller="pods",name="pods",le="+Inf"} 1
workqueue_work_duration_seconds_sum{controller="pods",name="pods"} 2
workqueue_work_duration_seconds_count{controller="pods",name="pods"} 1
`

func TestWorkQueueMetricsHaveTheUsualNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := metrics.NewWorkQueues(metrics.WorkQueueOptions{Buckets: []float64{0.5, 5}})
		q := workqueue.New(workqueue.Options[string]{Name: "pods", Metrics: queues})
		q.AddWith(workqueue.AddOptions{}, "a", "b", "c", "a")
		q.AddWith(workqueue.AddOptions{Priority: -100}, "low")
		time.Sleep(time.Second)
		a, _ := q.Get(t.Context())
		b, _ := q.Get(t.Context())
		q.AddRateLimited("slow")
		require.True(t, q.Reschedule("slow", time.Hour))
		time.Sleep(2 * time.Second)
		q.Done(a)
		q.Add(b)
		require.NoError(t, testutil.CollectAndCompare(queues, strings.NewReader(queueFigures)))
		q.Done(b)
		q.ShutDown()
		problems, err := testutil.CollectAndLint(queues)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
}

func TestWorkQueuesOfOneNameAddUpAndCountersNeverFall(t *testing.T) {
	queues := metrics.NewWorkQueues(metrics.WorkQueueOptions{ConstLabels: prometheus.Labels{"app": "x"}})
	adds := func(want string) {
		t.Helper()
		require.NoError(t, testutil.CollectAndCompare(queues, strings.NewReader(`
# HELP workqueue_adds_total Keys added to the queue; adds that merged do not count.
# TYPE workqueue_adds_total counter
workqueue_adds_total{app="x",controller="pods",name="pods"} `+want+"\n"), "workqueue_adds_total"))
	}
	opts := workqueue.Options[int]{Name: "pods", Metrics: queues}
	first, second := workqueue.New(opts), workqueue.New(opts)
	first.AddWith(workqueue.AddOptions{}, 1, 2)
	second.Add(1)
	adds("3")
	first.ShutDown()
	adds("3")
	third := workqueue.New(opts)
	third.Add(1)
	adds("4")
	second.ShutDown()
	third.ShutDown()
	adds("4")
	require.NoError(t, prometheus.NewPedanticRegistry().Register(queues))
}

func TestMadeUpPrioritiesMakeNoEndlessTimeSeries(t *testing.T) {
	queues := metrics.NewWorkQueues(metrics.WorkQueueOptions{})
	q := workqueue.New(workqueue.Options[int]{Name: "pods", Metrics: queues})
	defer q.ShutDown()
	for key := range 1000 {
		q.AddWith(workqueue.AddOptions{Priority: key}, key)
	}
	require.Equal(t, 17, testutil.CollectAndCount(queues, "workqueue_depth"))
}

func ExampleNewWorkQueues() {
	registry := prometheus.NewRegistry()
	queues := metrics.NewWorkQueues(metrics.WorkQueueOptions{})
	registry.MustRegister(queues)
	q := workqueue.New(workqueue.Options[string]{Name: "pods", Metrics: queues})
	q.Add("default/web")
	q.ShutDown()
	// Output:
}

// TestDurationsOfAQueueCostNoGoroutine counts allocations, of which a goroutine takes several.
func TestDurationsOfAQueueCostNoGoroutine(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{Name: "pods", Metrics: metrics.NewWorkQueues(metrics.WorkQueueOptions{})})
	defer q.ShutDown()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		q.Add("a")
		key, err := q.Get(t.Context())
		if err == nil {
			q.Done(key)
		}
	}))
}
