package metrics

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/internal/trusted"
)

// ControllerOptions configure [Controllers]. The zero value is usable.
type ControllerOptions struct {
	// Buckets are the upper bounds of the reconcile time histogram, in seconds. The default buckets range
	// from 5 ms to a minute, as controller dashboards expect.
	Buckets []float64
	// ConstLabels are added to every metric.
	ConstLabels prometheus.Labels
}

// Controllers exports controllers under the metric names that dashboards expect. Pass it to each
// controller, and register it once:
//
//	controllers := metrics.NewControllers(metrics.ControllerOptions{})
//	prometheus.MustRegister(controllers)
//	c, err := controller.New("pods", r, controller.Options{Metrics: controllers})
//
// Every metric has the label controller. Values of controllers with the same name are added up. Their
// counters continue to be exported for 15 minutes after the last of these controllers has stopped.
//
//   - controller_runtime_reconcile_total: finished reconciles, by label result:
//     success, requeue, requeue_after, error
//   - controller_runtime_reconcile_errors_total: reconciles that failed, and of these
//     controller_runtime_terminal_reconcile_errors_total,
//     controller_runtime_reconcile_panics_total and
//     controller_runtime_reconcile_timeouts_total
//   - controller_runtime_reconcile_time_seconds: duration of a reconcile
//   - controller_runtime_max_concurrent_reconciles, controller_runtime_active_workers
//
// Metrics specific to Millrace:
//
//   - millrace_controller_running: 1 while it is reconciling, 0 while it is waiting for a source
//     or is not running
//   - millrace_controller_source_synced, _source_added_total, _source_failures_total:
//     by label source
//   - millrace_controller_parked: requests waiting until the cache contains their own writes; _parked_total,
//     and _stale_total for requests that stopped waiting early
//
// Everything except the histogram is read from the controllers on each scrape. Controllers is safe for
// concurrent use.
type Controllers struct {
	times   *prometheus.HistogramVec
	results *prometheus.Desc
	figures []metric[*controller.Status]
	sources []metric[*controller.SourceStatus]

	mu   sync.Mutex // guards the fields below and their contents; only Prometheus is called while holding it
	live []*controllerMetrics
	past map[string]*past // by controller name
}

// past contains the counters of controllers that stopped long ago but whose name is still in use. If the
// counters disappeared, the sum would drop, and Prometheus would take that for a counter reset.
type past struct{ counters figures }

// NewControllers returns an exporter that has no controllers yet.
func NewControllers(opts ControllerOptions) *Controllers {
	if opts.Buckets == nil {
		opts.Buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60}
	}
	c := &Controllers{
		times: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "How long a reconcile took.",
			Buckets: opts.Buckets, ConstLabels: opts.ConstLabels,
		}, []string{"controller"}),
		past:    map[string]*past{},
		results: prometheus.NewDesc("controller_runtime_reconcile_total", "Finished reconciles, by result.", []string{"controller", "result"}, opts.ConstLabels),
	}
	type s = *controller.Status
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	figure := func(name, help string, kind prometheus.ValueType, merge merge, value func(s) float64) {
		c.figures = append(c.figures, metric[s]{prometheus.NewDesc(name, help, []string{"controller"}, opts.ConstLabels), kind, value, merge})
	}
	figure("controller_runtime_reconcile_errors_total", "Reconciles that failed.", counter, add, func(s s) float64 { return float64(s.Errors) })
	figure("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed and are not retried.", counter, add, func(s s) float64 { return float64(s.Terminal) })
	figure("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", counter, add, func(s s) float64 { return float64(s.Panics) })
	figure("controller_runtime_reconcile_timeouts_total", "Reconciles that took too long.", counter, add, func(s s) float64 { return float64(s.Timeouts) })
	figure("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles.", gauge, add, func(s s) float64 { return float64(s.Concurrency) })
	figure("controller_runtime_active_workers", "Reconciles in progress.", gauge, add, func(s s) float64 { return float64(s.Active) })
	figure("millrace_controller_running", "1 while the controller is reconciling.", gauge, all, func(s s) float64 { return truth(s.State == controller.Running) })
	figure("millrace_controller_parked", "Requests waiting for the cache to see their own writes.", gauge, add, func(s s) float64 { return float64(s.Parked) })
	figure("millrace_controller_parked_total", "How often a request waited for the cache to see its own writes.", counter, add, func(s s) float64 { return float64(s.ParkedTotal) })
	figure("millrace_controller_stale_total", "How often a request was reconciled although the cache had not seen its own writes.", counter, add, func(s s) float64 { return float64(s.Stale) })

	type r = *controller.SourceStatus
	source := func(name, help string, kind prometheus.ValueType, merge merge, value func(r) float64) {
		c.sources = append(c.sources, metric[r]{prometheus.NewDesc("millrace_controller_source_"+name, help, []string{"controller", "source"}, opts.ConstLabels), kind, value, merge})
	}
	source("synced", "1 once the source has requested all existing objects, or is not waited for.", gauge, all, func(s r) float64 { return truth(s.Synced) })
	source("added_total", "Requests added by the source.", counter, add, func(s r) float64 { return float64(s.Added) })
	source("failures_total", "Source failures.", counter, add, func(s r) float64 { return float64(s.Failures) })
	return c
}

// Register implements controller.MetricsProvider.
func (c *Controllers) Register(view controller.View) controller.Metrics {
	r := &controllerMetrics{owner: c, name: text(view.Name())}
	r.Started(view)
	return r
}

// controllerMetrics implements controller.Metrics.
type controllerMetrics struct {
	trusted.Hook
	owner *Controllers
	name  string
	times atomic.Pointer[prometheus.Observer]

	view  controller.View   // nil after it has stopped
	last  controller.Status // status when it stopped
	ended time.Time
	past  *past // the counters that last was added to, if any
}

func (r *controllerMetrics) ReconcileTime(d time.Duration) { (*r.times.Load()).Observe(d.Seconds()) }

func (r *controllerMetrics) Started(view controller.View) {
	c := r.owner
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	r.times.Store(new(c.times.WithLabelValues(r.name)))
	if p := r.past; p != nil { // it continues from these counts
		for series, n := range c.counters(&r.last) {
			p.counters[series] -= n
		}
		r.past = nil
	}
	r.view = view
	if !slices.Contains(c.live, r) {
		c.live = append(c.live, r)
	}
}

func (r *controllerMetrics) Stopped(last controller.Status) {
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	r.view, r.last, r.ended = nil, last, time.Now()
}

// Forget removes a controller that has never run.
func (r *controllerMetrics) Forget() {
	c := r.owner
	c.mu.Lock()
	defer c.mu.Unlock()
	named := 0
	c.live = slices.DeleteFunc(c.live, func(other *controllerMetrics) bool {
		if other.name == r.name {
			named++
		}
		return other == r
	})
	if named == 1 && c.past[r.name] == nil {
		c.times.DeleteLabelValues(r.name)
	}
}

// sweep removes controllers that stopped some time ago, and the series for names no longer in use. If a name
// is still in use, it keeps the counters. The caller must hold mu.
func (c *Controllers) sweep() {
	kept := map[string]bool{} // names in use now or recently
	old := func(r *controllerMetrics) bool { return r.view == nil && time.Since(r.ended) > keptFor }
	for _, r := range c.live {
		kept[r.name] = kept[r.name] || !old(r)
	}
	c.live = slices.DeleteFunc(c.live, func(r *controllerMetrics) bool {
		if old(r) && kept[r.name] {
			if c.past[r.name] == nil {
				c.past[r.name] = &past{figures{}}
			}
			r.past = c.past[r.name]
			for series, n := range c.counters(&r.last) {
				r.past.counters[series] += n
			}
		}
		return old(r)
	})
	for name, yes := range kept {
		if !yes {
			c.times.DeleteLabelValues(name)
			delete(c.past, name)
		}
	}
}

// counters returns the counters of one controller.
func (c *Controllers) counters(s *controller.Status) figures {
	found := figures{}
	c.collect(found, s, true)
	return found
}

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

// Collect implements prometheus.Collector. It merges controllers with the same name,
// and sources with the same name.
func (c *Controllers) Collect(out chan<- prometheus.Metric) {
	found, live, ended := c.read(out)
	c.times.Collect(out)
	names := map[string]bool{}
	for _, s := range live {
		names[s.Name] = true
		c.collect(found, &s, false)
	}
	for _, s := range ended {
		c.collect(found, &s, names[s.Name])
	}
	found.send(out)
}

// collect adds one controller's values. countersOnly skips the gauges; it is for a controller that has
// stopped while another one has the same name.
func (c *Controllers) collect(found figures, s *controller.Status, countersOnly bool) {
	for result, n := range map[string]uint64{"success": s.Successes, "requeue": s.Requeues, "requeue_after": s.RequeuesAfter, "error": s.Errors} {
		found.put(c.results, prometheus.CounterValue, float64(n), add, s.Name, result)
	}
	for _, m := range c.figures {
		if m.kind == prometheus.CounterValue || !countersOnly {
			found.put(m.desc, m.kind, m.value(s), m.merge, s.Name)
		}
	}
	for _, source := range s.Sources {
		for _, m := range c.sources {
			if m.kind == prometheus.CounterValue || !countersOnly {
				found.put(m.desc, m.kind, m.value(&source), m.merge, s.Name, source.Name)
			}
		}
	}
}

// read returns the status of every controller, and the counters of the ones that stopped long ago.
func (c *Controllers) read(out chan<- prometheus.Metric) (counted figures, live, ended []controller.Status) {
	c.mu.Lock()
	c.sweep()
	counted = figures{}
	for _, p := range c.past {
		maps.Copy(counted, p.counters)
	}
	var ask []controller.View
	for _, r := range c.live {
		if r.view != nil {
			ask = append(ask, r.view)
		} else {
			ended = append(ended, r.last)
		}
	}
	c.mu.Unlock()
	for _, view := range ask {
		if s, ok := read(out, c.results, view.Status); ok {
			live = append(live, s)
		}
	}
	return counted, live, ended
}
