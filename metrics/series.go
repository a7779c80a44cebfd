package metrics

import (
	"math"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/failure"
)

// metric is one value in a status.
type metric[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(S) float64
	merge merge
}

// merge combines the values of two items with the same labels.
type merge func(a, b float64) float64

func add(a, b float64) float64   { return a + b }
func worst(a, b float64) float64 { return max(a, b) }
func all(a, b float64) float64   { return min(a, b) }

// series is one time series: a metric and its label values.
type series struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels [3]string
	len    int // number of labels; a value may be empty
}

// figures collects the series for one scrape. Prometheus accepts each series only once, so values
// with the same labels are merged.
type figures map[series]float64

func (f figures) put(desc *prometheus.Desc, kind prometheus.ValueType, value float64, merge merge, labels ...string) {
	s := series{desc: desc, kind: kind, len: len(labels)}
	for n, label := range labels {
		s.labels[n] = text(label)
	}
	if before, ok := f[s]; ok {
		value = merge(before, value)
	}
	f[s] = value
}

// rising keeps counters from falling when an item with the same labels as another one ends: Prometheus would take
// this for a restart, and count what is left a second time.
type rising struct {
	seen map[series]total
}

// total is a counter as of the last scrape, without and with the counts of ended items.
type total struct{ last, sent float64 }

// adjust adds the counts of ended items to all counters of a scrape.
func (r *rising) adjust(f figures) {
	now := make(map[series]total, len(r.seen))
	for s, value := range f {
		if s.kind == prometheus.CounterValue {
			before := r.seen[s]
			c := total{last: value, sent: before.sent + max(0, value-before.last)}
			now[s], f[s] = c, c.sent
		}
	}
	r.seen = now
}

// send sends the collected series to a scrape's channel.
func (f figures) send(out chan<- prometheus.Metric) {
	for s, value := range f {
		m, err := prometheus.NewConstMetric(s.desc, s.kind, value, s.labels[:s.len]...)
		if err != nil {
			m = prometheus.NewInvalidMetric(s.desc, err)
		}
		out <- m
	}
}

// text converts a name chosen by the user to a label value. Prometheus panics if a label value is not
// valid UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// read calls a status function. A panic in the function invalidates only desc instead of crashing the
// process.
func read[S any](out chan<- prometheus.Metric, desc *prometheus.Desc, status func() S) (s S, ok bool) {
	err := failure.Apart("a status for metrics", func() error {
		s = status()
		return nil
	})
	if err != nil {
		out <- prometheus.NewInvalidMetric(desc, err)
	}
	return s, err == nil
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// single exports one item that has a status. Its name is a constant label of its metrics.
type single[S any] struct {
	status  func() S
	figures []metric[S]
}

// gauge returns a metric of gauge type.
func gauge[S any](name, help string, labels prometheus.Labels, value func(S) float64) metric[S] {
	return metric[S]{desc: prometheus.NewDesc(name, help, nil, labels), kind: prometheus.GaugeValue, value: value}
}

func (c *single[S]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.figures {
		out <- m.desc
	}
}

func (c *single[S]) Collect(out chan<- prometheus.Metric) {
	s, ok := read(out, c.figures[0].desc, c.status)
	if !ok {
		return
	}
	found := figures{}
	for _, m := range c.figures {
		if value := m.value(s); !math.IsNaN(value) { // NaN means unknown
			found.put(m.desc, m.kind, value, worst)
		}
	}
	found.send(out)
}
