package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// InformerSource is whose informers are exported; *factory.Factory is one.
type InformerSource interface {
	Status() []sharedinformer.Status
}

// InformerOptions configure Informers. The zero value works.
type InformerOptions struct {
	// ConstLabels are added to every metric.
	ConstLabels prometheus.Labels
}

// Informers exports informers. Each metric has the label resource; those of
// handlers have the labels handler and place (file:line) too.
//
//   - millrace_informer_synced: 1 when a whole initial list is in the cache
//   - millrace_informer_state: 1 for the state that the reflector is in, by
//     label state
//   - millrace_informer_failing_attempts: failures in a row, 0 when all is well
//   - millrace_informer_objects: cached objects
//   - millrace_informer_lists_total, _relists_total, _watches_total,
//     _events_total, _bookmarks_total, _duplicates_total, _failures_total
//   - millrace_informer_queue_depth, _queue_age_seconds: what the cache lags
//     behind the network
//   - millrace_informer_handler_synced, _handler_pending,
//     _handler_behind_seconds, _handler_slowest_seconds
//   - millrace_informer_handler_delivered_total, _handler_coalesced_total,
//     _handler_panics_total, _handler_errors_total
type Informers struct {
	source   InformerSource
	state    *prometheus.Desc
	informer []metric[sharedinformer.Status]
	handler  []metric[sharedinformer.HandlerStatus]
}

// metric is one figure of a status.
type metric[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(S) float64
}

// NewInformers returns a collector to be registered.
func NewInformers(source InformerSource, opts InformerOptions) *Informers {
	c := &Informers{source: source}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_informer_"+name, help, append([]string{"resource"}, labels...), opts.ConstLabels)
	}
	c.state = desc("state", "1 for the state that the reflector is in.", "state")

	type s = sharedinformer.Status
	informer := func(name, help string, kind prometheus.ValueType, value func(s) float64) {
		c.informer = append(c.informer, metric[s]{desc(name, help), kind, value})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	informer("synced", "1 when a whole initial list is in the cache.", gauge, func(i s) float64 { return truth(i.Synced) })
	informer("failing_attempts", "Failures in a row, 0 when all is well.", gauge, func(i s) float64 { return float64(i.Reflector.Attempts) })
	informer("objects", "Cached objects.", gauge, func(i s) float64 { return float64(i.Objects) })
	informer("queue_depth", "Changes that are not in the cache yet.", gauge, func(i s) float64 { return float64(i.QueueDepth) })
	informer("queue_age_seconds", "How long the oldest of them has waited.", gauge, func(i s) float64 { return i.QueueAge.Seconds() })
	informer("lists_total", "Lists and streaming lists begun.", counter, func(i s) float64 { return float64(i.Reflector.Lists) })
	informer("relists_total", "Lists that replaced a state whose resource version had expired.", counter, func(i s) float64 { return float64(i.Reflector.Relists) })
	informer("watches_total", "Watches begun.", counter, func(i s) float64 { return float64(i.Reflector.Watches) })
	informer("events_total", "Changes received.", counter, func(i s) float64 { return float64(i.Reflector.Events) })
	informer("bookmarks_total", "Bookmarks received.", counter, func(i s) float64 { return float64(i.Reflector.Bookmarks) })
	informer("duplicates_total", "Changes received again.", counter, func(i s) float64 { return float64(i.Reflector.Duplicates) })
	informer("failures_total", "Failures of listing, watching, decoding and transforming.", counter, func(i s) float64 { return float64(i.Reflector.Failures) })

	type h = sharedinformer.HandlerStatus
	handler := func(name, help string, kind prometheus.ValueType, value func(h) float64) {
		c.handler = append(c.handler, metric[h]{desc("handler_"+name, help, "handler", "place"), kind, value})
	}
	handler("synced", "1 when the handler's last initial add has returned.", gauge, func(r h) float64 { return truth(r.Synced) })
	handler("pending", "Events that the handler has not heard yet.", gauge, func(r h) float64 { return float64(r.Pending) })
	handler("behind_seconds", "Age of the event that the handler is being told of.", gauge, func(r h) float64 { return r.Behind.Seconds() })
	handler("slowest_seconds", "The longest call.", gauge, func(r h) float64 { return r.Slowest.Seconds() })
	handler("delivered_total", "Calls that have returned.", counter, func(r h) float64 { return float64(r.Delivered) })
	handler("coalesced_total", "Events that needed no telling, with the lag policy Coalesce.", counter, func(r h) float64 { return float64(r.Coalesced) })
	handler("panics_total", "Calls that panicked.", counter, func(r h) float64 { return float64(r.Panics) })
	handler("errors_total", "Calls that returned an error.", counter, func(r h) float64 { return float64(r.Errors) })
	return c
}

// Describe implements prometheus.Collector.
func (c *Informers) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	for _, m := range c.informer {
		out <- m.desc
	}
	for _, m := range c.handler {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector. Handlers of one name at one place,
// such as those of a loop, are added up, since Prometheus wants each series
// once; so are informers of one name.
func (c *Informers) Collect(out chan<- prometheus.Metric) {
	sums := make(map[series]float64)
	for _, i := range c.source.Status() {
		resource := i.Reflector.Resource
		for state := reflector.Idle; state <= reflector.Stopped; state++ {
			sums[series{c.state, prometheus.GaugeValue, resource, state.String(), ""}] += truth(i.Reflector.State == state)
		}
		for _, m := range c.informer {
			sums[series{m.desc, m.kind, resource, "", ""}] += m.value(i)
		}
		for _, r := range i.Handlers {
			for _, m := range c.handler {
				sums[series{m.desc, m.kind, resource, r.Name, r.Place}] += m.value(r)
			}
		}
	}
	for s, value := range sums {
		labels := []string{s.resource}
		for _, label := range []string{s.second, s.third} {
			if label != "" {
				labels = append(labels, label)
			}
		}
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
	}
}

// series is one time series: a metric and its labels, of which the last two
// may be missing.
type series struct {
	desc                    *prometheus.Desc
	kind                    prometheus.ValueType
	resource, second, third string
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
