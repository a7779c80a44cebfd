package metrics

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/workqueue"
)

// WorkQueueOptions configure WorkQueues. The zero value works.
type WorkQueueOptions struct {
	// Buckets are the upper bounds of the histograms, in seconds. Nil is ten
	// nanoseconds to a thousand seconds by powers of ten, as dashboards for
	// Kubernetes work queues expect.
	Buckets []float64
	// ConstLabels are added to every metric.
	ConstLabels prometheus.Labels
}

// WorkQueues exports work queues. It is given to each queue and registered once:
//
//	queues := metrics.NewWorkQueues(metrics.WorkQueueOptions{})
//	prometheus.MustRegister(queues)
//	q := workqueue.New(workqueue.Options[K]{Name: "pods", Metrics: queues})
//
// Each metric has the labels name and controller, both with the queue's name: some
// dashboards select by the one, and others by the other. Queues of one name are
// added up. What they counted stays for a quarter of an hour after the last of them
// was shut down, so that no counter falls when a controller is started anew; then
// the series of that name end.
//
//   - workqueue_depth: keys that wait, also by label priority
//   - workqueue_adds_total: hand-outs asked for; adds that merge do not count,
//     delayed ones count when their time comes
//   - workqueue_retries_total: rate-limited adds
//   - workqueue_queue_duration_seconds: from Add to Get
//   - workqueue_work_duration_seconds: from Get to Done
//   - workqueue_unfinished_work_seconds: time of all running keys so far; one
//     that grows without end is a worker that hangs
//   - workqueue_longest_running_processor_seconds: the longest of these
//
// Beyond what other stacks have there are workqueue_running, workqueue_delayed,
// workqueue_oldest_waiting_seconds and workqueue_dropped_total.
//
// Counters and gauges are read from the queues when Prometheus asks. All
// methods may be called from any goroutine.
type WorkQueues struct {
	queueDuration *prometheus.HistogramVec
	workDuration  *prometheus.HistogramVec
	depth         *prometheus.Desc
	figures       []figure

	mu     sync.Mutex // guards byName; a queue's own lock and those of Prometheus may be taken under it
	byName map[string]*queuesOfName
}

// figure is one metric that is read from a Status.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*workqueue.Status) float64
}

// queuesOfName are the queues that share a name.
type queuesOfName struct {
	live  []*queueMetrics
	gone  workqueue.Status // counters of those that have been shut down
	ended time.Time        // when the last of them was
}

// keptFor is how long the series of something that has ended are kept: long enough
// for every Prometheus to read how it ended.
const keptFor = 15 * time.Minute

// otherPriorities is the label of the priorities beyond maxPriorities, so that
// a program which makes up priorities does not make up time series.
const (
	maxPriorities   = 16
	otherPriorities = "other"
)

// NewWorkQueues creates an exporter without queues.
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
		depth:         desc("depth", "Keys that wait in the queue, by priority.", "priority"),
		figures: []figure{
			{desc("adds_total", "Keys added to the queue; adds that merged do not count."), counter,
				func(s *status) float64 { return float64(s.Adds) }},
			{desc("retries_total", "Rate-limited adds."), counter,
				func(s *status) float64 { return float64(s.Retries) }},
			{desc("dropped_total", "Adds and keys dropped because the queue was shut down."), counter,
				func(s *status) float64 { return float64(s.Dropped) }},
			{desc("running", "Keys that are being worked on."), gauge,
				func(s *status) float64 { return float64(s.Running) }},
			{desc("delayed", "Keys whose delayed add is not due yet."), gauge,
				func(s *status) float64 { return float64(s.Delayed) }},
			{desc("unfinished_work_seconds", "How long the keys that are being worked on have taken so far, added up. Growth without end shows a worker that hangs."), gauge,
				func(s *status) float64 { return s.UnfinishedWork.Seconds() }},
			{desc("longest_running_processor_seconds", "How long the key that is worked on longest has taken so far."), gauge,
				func(s *status) float64 { return s.LongestRunning.Seconds() }},
			{desc("oldest_waiting_seconds", "How long the key that waits longest has waited."), gauge,
				func(s *status) float64 { return s.OldestWaiting.Seconds() }},
		},
	}
}

// powersOfTen are the buckets that dashboards for Kubernetes expect.
func powersOfTen() []float64 { return prometheus.ExponentialBuckets(10e-9, 10, 12) }

// Register implements workqueue.MetricsProvider. The queue calls it.
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

// unregister keeps the counters of a queue that has ended and drops the queue.
func (w *WorkQueues) unregister(r *queueMetrics) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.byName[r.name]
	if of == nil || !slices.Contains(of.live, r) {
		return // it has said so before
	}
	of.live = slices.DeleteFunc(of.live, func(other *queueMetrics) bool { return other == r })
	of.ended = time.Now()
	last := r.status()
	of.gone.Adds += last.Adds
	of.gone.Retries += last.Retries
	of.gone.Dropped += last.Dropped
}

// sweep ends the series of names that no queue has had for a while. It is called
// with mu held.
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

// sum is the figures of all queues of one name.
type sum struct {
	workqueue.Status
	depth map[string]int // waiting keys by the label of their priority
}

// sums reads all queues. Nothing is sent while the lock is held, because the
// reader of Collect's channel decides how long that takes.
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
		// Nothing was added yet, or an Order of its own keeps no levels.
		t.depth["0"] += s.Waiting
	}
}

// queueMetrics implements workqueue.Metrics for one queue.
type queueMetrics struct {
	owner         *WorkQueues
	name          string
	status        func() workqueue.Status
	queueDuration prometheus.Observer
	workDuration  prometheus.Observer
}

// QueueDuration implements workqueue.Metrics.
func (r *queueMetrics) QueueDuration(d time.Duration) {
	r.queueDuration.Observe(d.Seconds())
}

// WorkDuration implements workqueue.Metrics.
func (r *queueMetrics) WorkDuration(d time.Duration) {
	r.workDuration.Observe(d.Seconds())
}

// Unregister implements workqueue.Metrics.
func (r *queueMetrics) Unregister() {
	r.owner.unregister(r)
}
