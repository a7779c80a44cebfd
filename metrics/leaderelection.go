package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/leaderelection"
)

// ElectionSource is whose election is exported; *leaderelection.Elector is one.
type ElectionSource interface {
	Status() leaderelection.Status
}

// Elections exports an election. Each metric has the label name, which is that
// of the Lease.
//
//   - leader_election_master_status: 1 while our work runs
//   - millrace_leader_election_token: the count of the lease's terms
//   - millrace_leader_election_failing_attempts: failures in a row, 0 when all
//     is well
type Elections struct {
	source  ElectionSource
	figures []metric[leaderelection.Status]
}

// NewElections returns a collector to be registered.
func NewElections(source ElectionSource) *Elections {
	type s = leaderelection.Status
	figure := func(name, help string, value func(s) float64) metric[s] {
		return metric[s]{desc: prometheus.NewDesc(name, help, []string{"name"}, nil), kind: prometheus.GaugeValue, value: value}
	}
	return &Elections{source: source, figures: []metric[s]{
		figure("leader_election_master_status", "1 while this process leads.", func(e s) float64 { return truth(e.Leading) }),
		figure("millrace_leader_election_token", "The fencing token of the holder's term.", func(e s) float64 { return float64(e.Token) }),
		figure("millrace_leader_election_failing_attempts", "Failures in a row, 0 when all is well.", func(e s) float64 { return float64(e.Attempts) }),
	}}
}

// Describe implements prometheus.Collector.
func (c *Elections) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.figures {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Elections) Collect(out chan<- prometheus.Metric) {
	s, ok := read(out, c.figures[0].desc, c.source.Status)
	if !ok {
		return
	}
	found := figures{}
	for _, m := range c.figures {
		found.put(m.desc, m.kind, m.value(s), worst, s.Lease.Name)
	}
	found.send(out)
}
