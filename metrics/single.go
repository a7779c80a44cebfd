package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// single exports one thing that has a status and a name, the value of one label.
type single[S any] struct {
	status  func() S
	name    func(S) string
	figures []metric[S]
}

// gauge is a figure that goes up and down.
func gauge[S any](name, help, label string, value func(S) float64) metric[S] {
	return metric[S]{desc: prometheus.NewDesc(name, help, []string{label}, nil), kind: prometheus.GaugeValue, value: value}
}

// Describe implements prometheus.Collector.
func (c *single[S]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.figures {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *single[S]) Collect(out chan<- prometheus.Metric) {
	s, ok := read(out, c.figures[0].desc, c.status)
	if !ok {
		return
	}
	found := figures{}
	for _, m := range c.figures {
		if value := m.value(s); !math.IsNaN(value) { // it is known
			found.put(m.desc, m.kind, value, worst, c.name(s))
		}
	}
	found.send(out)
}
