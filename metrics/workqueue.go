package metrics

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/internal/trusted"
	"github.com/millrace-dev/millrace/workqueue"
)

// WorkQueueOptions configure [WorkQueues]. The zero value is usable.
type WorkQueueOptions struct {
	// Buckets are the upper bounds of the histograms, in seconds. The default is powers of ten from ten
	// nanoseconds to a thousand seconds, as Kubernetes work queue dashboards expect.
	Buckets []float64
	// ConstLabels are added to every metric.
	ConstLabels prometheus.Labels
}

// WorkQueues exports work queues. Pass it to each queue, and register it once:
//
//	queues := metrics.NewWorkQueues(metrics.WorkQueueOptions{})
//	prometheus.MustRegister(queues)
//	q := workqueue.New(workqueue.Options[K]{Name: "pods", Metrics: queues})
//
// Every metric has the labels name and controller, both with the queue's name, since dashboards select by
// either. Values of queues with the same name are added up. Their counters continue to be exported for 15
// minutes after the last of these queues is shut down, so that no counter drops when a controller is
// restarted.
//
//   - workqueue_depth: waiting keys, also by label priority
//   - workqueue_adds_total: requested hand-outs; merged adds are not counted, and delayed ones are counted
//     when they come due
//   - workqueue_retries_total: rate-limited adds
//   - workqueue_queue_duration_seconds: time from Add to Get
//   - workqueue_work_duration_seconds: time from Get to Done
//   - workqueue_unfinished_work_seconds: total time taken so far by all running keys;
//     if it keeps growing, a worker is stuck
//   - workqueue_longest_running_processor_seconds: the longest of these times
//
// Metrics specific to Millrace: workqueue_running, workqueue_delayed, workqueue_oldest_waiting_seconds and
// workqueue_dropped_total.
//
// Counters and gauges are read from the queues on each scrape. WorkQueues is safe for
// concurrent use.
type WorkQueues struct {
	queueDuration *prometheus.HistogramVec
	workDuration  *prometheus.HistogramVec
	depth         *prometheus.Desc
	figures       []figure

	mu     sync.Mutex // guards byName; a queue's lock and Prometheus's may be acquired while holding it
	byName map[string]*queuesOfName
}

// figure is one metric read from a Status.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*workqueue.Status) float64
}

// queuesOfName contains the queues with the same name.
type queuesOfName struct {
	live  []*queueMetrics
	gone  workqueue.Status // counters of queues that were shut down
	ended time.Time        // when the last one was shut down
}

// keptFor is how long series are kept after their source has stopped. That is long enough for any Prometheus
// to scrape the final values.
const keptFor = 15 * time.Minute

// otherPriorities is the label shared by all priorities beyond maxPriorities, to limit the number of series.
const (
	maxPriorities   = 16
	otherPriorities = "other"
)

// NewWorkQueues returns an exporter that has no queues yet.
func NewWorkQueues(opts WorkQueueOptions) *WorkQueues {
	if opts.Buckets == nil {
		opts.Buckets = powersOfTen()
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "workqueue", Name: name, Help: help, Buckets: opts.Buckets, ConstLabels: opts.ConstLabels,
		}, []string{"name", "controller"})
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("workqueue_"+name, help, append([]string{"name", "controller"}, labels...), opts.ConstLabels)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type status = workqueue.Status
	return &WorkQueues{
		byName:        map[string]*queuesOfName{},
		queueDuration: histogram("queue_duration_seconds", "How long a key waited in the queue before it was handed out, in seconds."),
		workDuration:  histogram("work_duration_seconds", "How long work on a key took, in seconds."),
		depth:         desc("depth", "Keys waiting in the queue, by priority.", "priority"),
		figures: []figure{
			{desc("adds_total", "Keys added to the queue; adds that merged do not count."), counter,
				func(s *status) float64 { return float64(s.Adds) }},
			{desc("retries_total", "Rate-limited adds."), counter,
				func(s *status) float64 { return float64(s.Retries) }},
			{desc("dropped_total", "Adds and keys dropped because the queue was shut down."), counter,
				func(s *status) float64 { return float64(s.Dropped) }},
			{desc("running", "Keys being worked on."), gauge,
				func(s *status) float64 { return float64(s.Running) }},
			{desc("delayed", "Keys whose delayed add is not due yet."), gauge,
				func(s *status) float64 { return float64(s.Delayed) }},
			{desc("unfinished_work_seconds", "Total time spent so far on the keys being worked on. Continuous growth indicates a stuck worker."), gauge,
				func(s *status) float64 { return s.UnfinishedWork.Seconds() }},
			{desc("longest_running_processor_seconds", "Longest time spent so far on a key being worked on."), gauge,
				func(s *status) float64 { return s.LongestRunning.Seconds() }},
			{desc("oldest_waiting_seconds", "How long the longest-waiting key has been waiting."), gauge,
				func(s *status) float64 { return s.OldestWaiting.Seconds() }},
		},
	}
}

// powersOfTen returns the buckets that Kubernetes dashboards expect.
func powersOfTen() []float64 { return prometheus.ExponentialBuckets(10e-9, 10, 12) }

// Register implements workqueue.MetricsProvider.
func (w *WorkQueues) Register(name string, status func() workqueue.Status) workqueue.Metrics {
	name = text(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	r := &queueMetrics{
		owner:         w,
		name:          name,
		status:        status,
		queueDuration: w.queueDuration.WithLabelValues(name, name),
		workDuration:  w.workDuration.WithLabelValues(name, name),
	}
	if w.byName[name] == nil {
		w.byName[name] = &queuesOfName{}
	}
	w.byName[name].live = append(w.byName[name].live, r)
	return r
}

// unregister removes a queue that was shut down and keeps its counters.
func (w *WorkQueues) unregister(r *queueMetrics) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.byName[r.name]
	if of == nil || !slices.Contains(of.live, r) {
		return // unregistered before
	}
	of.live = slices.DeleteFunc(of.live, func(other *queueMetrics) bool { return other == r })
	of.ended = time.Now()
	last := r.status()
	of.gone.Adds += last.Adds
	of.gone.Retries += last.Retries
	of.gone.Dropped += last.Dropped
}

// sweep removes the series for names that no queue has used for a while. The caller must hold mu.
func (w *WorkQueues) sweep() {
	for name, of := range w.byName {
		if len(of.live) == 0 && time.Since(of.ended) > keptFor {
			delete(w.byName, name)
			w.queueDuration.DeleteLabelValues(name, name)
			w.workDuration.DeleteLabelValues(name, name)
		}
	}
}

// Describe implements prometheus.Collector.
func (w *WorkQueues) Describe(out chan<- *prometheus.Desc) {
	w.queueDuration.Describe(out)
	w.workDuration.Describe(out)
	out <- w.depth
	for _, f := range w.figures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (w *WorkQueues) Collect(out chan<- prometheus.Metric) {
	found := figures{}
	for name, s := range w.sums() {
		for priority, waiting := range s.depth {
			found.put(w.depth, prometheus.GaugeValue, float64(waiting), add, name, name, priority)
		}
		for _, f := range w.figures {
			found.put(f.desc, f.kind, f.of(&s.Status), add, name, name)
		}
	}
	w.queueDuration.Collect(out)
	w.workDuration.Collect(out)
	found.send(out)
}

// sum contains the combined values of all queues with the same name.
type sum struct {
	workqueue.Status
	depth map[string]int // waiting keys by priority label
}

// sums reads all queues. Collect's channel may block, so sums does not send to it and holds the lock only
// briefly.
func (w *WorkQueues) sums() map[string]*sum {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	all := make(map[string]*sum, len(w.byName))
	for name, of := range w.byName {
		total := &sum{Status: of.gone, depth: map[string]int{}}
		for _, r := range of.live {
			total.add(r.status())
		}
		all[name] = total
	}
	return all
}

func (t *sum) add(s workqueue.Status) {
	t.Adds += s.Adds
	t.Retries += s.Retries
	t.Dropped += s.Dropped
	t.Running += s.Running
	t.Delayed += s.Delayed
	t.UnfinishedWork += s.UnfinishedWork
	t.LongestRunning = max(t.LongestRunning, s.LongestRunning)
	t.OldestWaiting = max(t.OldestWaiting, s.OldestWaiting)
	for _, p := range s.ByPriority {
		label := strconv.Itoa(p.Priority)
		if _, known := t.depth[label]; !known && len(t.depth) >= maxPriorities {
			label = otherPriorities
		}
		t.depth[label] += p.Waiting
	}
	if len(s.ByPriority) == 0 {
		// Either nothing has been added yet, or the queue's Order has no levels.
		t.depth["0"] += s.Waiting
	}
}

type queueMetrics struct {
	trusted.Hook
	owner         *WorkQueues
	name          string
	status        func() workqueue.Status
	queueDuration prometheus.Observer
	workDuration  prometheus.Observer
}

func (r *queueMetrics) QueueDuration(d time.Duration) {
	r.queueDuration.Observe(d.Seconds())
}

func (r *queueMetrics) WorkDuration(d time.Duration) {
	r.workDuration.Observe(d.Seconds())
}

func (r *queueMetrics) Unregister() {
	r.owner.unregister(r)
}
