package metrics

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
// Each metric has the label controller. Controllers of one name are added up. What
// they counted stays for a quarter of an hour after the last of them has ended; then
// the series of that name end.
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

	mu   sync.Mutex // guards all below and what is in it; only Prometheus is called while it is held
	live []*controllerMetrics
	past map[string]*past // by the name that they had
}

// past is what controllers counted that ended long ago, while their name lives on. A
// counter that fell would count anew, all that the others ever counted.
type past struct{ counters figures }

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
		past:    map[string]*past{},
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

// Register implements controller.MetricsProvider. The controller calls it.
func (c *Controllers) Register(view controller.View) controller.Metrics {
	r := &controllerMetrics{owner: c, name: text(view.Name())}
	r.Started(view)
	return r
}

// controllerMetrics implements controller.Metrics for one controller.
type controllerMetrics struct {
	owner *Controllers
	name  string
	times atomic.Pointer[prometheus.Observer]

	view  controller.View   // nil when it has ended
	last  controller.Status // how it ended
	ended time.Time
	past  *past // where last was added; nil if it was not
}

// ReconcileTime implements controller.Metrics.
func (r *controllerMetrics) ReconcileTime(d time.Duration) { (*r.times.Load()).Observe(d.Seconds()) }

// Started implements controller.Metrics.
func (r *controllerMetrics) Started(view controller.View) {
	c := r.owner
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	r.times.Store(new(c.times.WithLabelValues(r.name)))
	if p := r.past; p != nil { // it counts on from there
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

// Stopped implements controller.Metrics.
func (r *controllerMetrics) Stopped(last controller.Status) {
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	r.view, r.last, r.ended = nil, last, time.Now()
}

// Forget drops a controller that has never run, as if it had not been made.
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

// sweep forgets controllers that ended a while ago, and ends the series of names
// that none has any more. Where another has the name, what they counted stays. It is
// called with mu held.
func (c *Controllers) sweep() {
	kept := map[string]bool{} // names that one has, or has had lately
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

// counters are those of one controller.
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

// Collect implements prometheus.Collector. Controllers of one name become one, and
// so do sources of one name.
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

// collect puts the figures of one controller. The gauges of one that has ended do
// not count where another has its name.
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

// read returns the status of every controller, and what those counted that ended long
// ago.
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
