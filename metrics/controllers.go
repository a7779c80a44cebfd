package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/controller"
)

// ControllerOptions configure Controllers. The zero value works.
type ControllerOptions struct {
	// Buckets are the upper bounds of the histogram of reconcile times, in
	// seconds. Nil is 5 ms to a minute, as dashboards for controllers expect.
	Buckets []float64
	// ConstLabels are added to every metric.
	ConstLabels prometheus.Labels
}

// Controllers exports controllers, under the names by which dashboards know them.
// It is given to each controller and registered once:
//
//	controllers := metrics.NewControllers(metrics.ControllerOptions{})
//	prometheus.MustRegister(controllers)
//	c, err := controller.New("pods", r, controller.Options{Metrics: controllers})
//
// Each metric has the label controller. Controllers of one name are added up.
//
//   - controller_runtime_reconcile_total: reconciles that ended, by label result:
//     success, requeue, requeue_after, error
//   - controller_runtime_reconcile_errors_total: those with an error, and of these
//     controller_runtime_terminal_reconcile_errors_total,
//     controller_runtime_reconcile_panics_total and
//     controller_runtime_reconcile_timeouts_total
//   - controller_runtime_reconcile_time_seconds: how long one took
//   - controller_runtime_max_concurrent_reconciles, controller_runtime_active_workers
//
// Beyond what other stacks have:
//
//   - millrace_controller_running: 1 while it reconciles, 0 while it waits for a
//     source or does not run
//   - millrace_controller_source_synced, _source_added_total,
//     _source_failures_total: by label source
//   - millrace_controller_parked: requests that wait for the cache to see their
//     own writes; _parked_total, and _stale_total for those that did not wait to
//     the end
//
// All but the histogram is read from the controllers when Prometheus asks. All
// methods may be called from any goroutine.
type Controllers struct {
	times   *prometheus.HistogramVec
	results *prometheus.Desc
	figures []metric[*controller.Status]
	sources []metric[*controller.SourceStatus]

	mu       sync.Mutex // guards statuses; nothing is called while it is held
	statuses []func() controller.Status
}

// NewControllers creates an exporter without controllers.
func NewControllers(opts ControllerOptions) *Controllers {
	if opts.Buckets == nil {
		opts.Buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60}
	}
	c := &Controllers{
		times: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "How long a reconcile took.",
			Buckets: opts.Buckets, ConstLabels: opts.ConstLabels,
		}, []string{"controller"}),
		results: prometheus.NewDesc("controller_runtime_reconcile_total", "Reconciles that ended, by what they came to.", []string{"controller", "result"}, opts.ConstLabels),
	}
	type s = *controller.Status
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	figure := func(name, help string, kind prometheus.ValueType, merge merge, value func(s) float64) {
		c.figures = append(c.figures, metric[s]{prometheus.NewDesc(name, help, []string{"controller"}, opts.ConstLabels), kind, value, merge})
	}
	figure("controller_runtime_reconcile_errors_total", "Reconciles that failed.", counter, add, func(s s) float64 { return float64(s.Errors) })
	figure("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed and are not tried again.", counter, add, func(s s) float64 { return float64(s.Terminal) })
	figure("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", counter, add, func(s s) float64 { return float64(s.Panics) })
	figure("controller_runtime_reconcile_timeouts_total", "Reconciles that took too long.", counter, add, func(s s) float64 { return float64(s.Timeouts) })
	figure("controller_runtime_max_concurrent_reconciles", "Reconciles that may be in progress.", gauge, add, func(s s) float64 { return float64(s.Concurrency) })
	figure("controller_runtime_active_workers", "Reconciles that are in progress.", gauge, add, func(s s) float64 { return float64(s.Active) })
	figure("millrace_controller_running", "1 while the controller reconciles.", gauge, all, func(s s) float64 { return truth(s.State == controller.Running) })
	figure("millrace_controller_parked", "Requests that wait for the cache to see their own writes.", gauge, add, func(s s) float64 { return float64(s.Parked) })
	figure("millrace_controller_parked_total", "How often a request had to.", counter, add, func(s s) float64 { return float64(s.ParkedTotal) })
	figure("millrace_controller_stale_total", "How often one was reconciled though the cache had not seen them.", counter, add, func(s s) float64 { return float64(s.Stale) })

	type r = *controller.SourceStatus
	source := func(name, help string, kind prometheus.ValueType, merge merge, value func(r) float64) {
		c.sources = append(c.sources, metric[r]{prometheus.NewDesc("millrace_controller_source_"+name, help, []string{"controller", "source"}, opts.ConstLabels), kind, value, merge})
	}
	source("synced", "1 when the source has asked for all that was there, or need not be waited for.", gauge, all, func(s r) float64 { return truth(s.Synced) })
	source("added_total", "Requests that the source has asked for.", counter, add, func(s r) float64 { return float64(s.Added) })
	source("failures_total", "Failures of the source.", counter, add, func(s r) float64 { return float64(s.Failures) })
	return c
}

// Register implements controller.Metrics. The controller calls it.
func (c *Controllers) Register(name string, status func() controller.Status) controller.Recorder {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses = append(c.statuses, status)
	return reconcileTimes{c.times.WithLabelValues(name)}
}

// reconcileTimes implements controller.Recorder.
type reconcileTimes struct{ prometheus.Observer }

// ReconcileTime implements controller.Recorder.
func (t reconcileTimes) ReconcileTime(d time.Duration) { t.Observe(d.Seconds()) }

// Describe implements prometheus.Collector.
func (c *Controllers) Describe(out chan<- *prometheus.Desc) {
	c.times.Describe(out)
	out <- c.results
	for _, m := range c.figures {
		out <- m.desc
	}
	for _, m := range c.sources {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector. Prometheus wants each series once, so
// controllers of one name become one, and so do sources of one name.
func (c *Controllers) Collect(out chan<- prometheus.Metric) {
	c.times.Collect(out)
	merged := make(map[controllerSeries]float64)
	put := func(s controllerSeries, value float64, merge merge) {
		if before, ok := merged[s]; ok {
			value = merge(before, value)
		}
		merged[s] = value
	}
	for _, s := range c.read() {
		for result, n := range map[string]uint64{"success": s.Successes, "requeue": s.Requeues, "requeue_after": s.RequeuesAfter, "error": s.Errors} {
			put(controllerSeries{c.results, prometheus.CounterValue, s.Name, result}, float64(n), add)
		}
		for _, m := range c.figures {
			put(controllerSeries{m.desc, m.kind, s.Name, ""}, m.value(&s), m.merge)
		}
		for _, source := range s.Sources {
			for _, m := range c.sources {
				put(controllerSeries{m.desc, m.kind, s.Name, source.Name}, m.value(&source), m.merge)
			}
		}
	}
	for s, value := range merged {
		labels := []string{s.controller}
		if s.second != "" {
			labels = append(labels, s.second)
		}
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
	}
}

// read returns the status of every controller.
func (c *Controllers) read() []controller.Status {
	c.mu.Lock()
	statuses := c.statuses[:len(c.statuses):len(c.statuses)]
	c.mu.Unlock()
	read := make([]controller.Status, len(statuses))
	for n, status := range statuses {
		read[n] = status()
	}
	return read
}

// controllerSeries is one time series: a metric and its labels, of which the
// second may be missing.
type controllerSeries struct {
	desc               *prometheus.Desc
	kind               prometheus.ValueType
	controller, second string
}
