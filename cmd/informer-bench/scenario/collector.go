package scenario

import (
	"runtime/metrics"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// collected is the work done so far by this process's garbage collector.
type collected struct {
	cpu    float64 // CPU seconds, as estimated by the runtime
	cycles uint64
}

func collections() collected {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	return collected{samples[0].Value.Float64(), samples[1].Value.Uint64()}
}

// since returns the work done since before, keyed by metric name.
func (c collected) since(before collected) map[string]float64 {
	return map[string]float64{
		results.CollectorCPU:    c.cpu - before.cpu,
		results.CollectorCycles: float64(c.cycles - before.cycles),
	}
}
