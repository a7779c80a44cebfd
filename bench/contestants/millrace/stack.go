// Command millrace is Millrace as a contestant of informer-bench.
package main

import (
	"github.com/millrace-dev/millrace/bench/protocol"
	"github.com/millrace-dev/millrace/bench/scenario"
)

func main() {
	scenarios := map[string]protocol.Work{
		"fanout":       fanout,
		"readers":      readers,
		"workqueue":    workQueue,
		"late-handler": lateHandler,
		"slow-handler": slowHandler,
		"footprint":    footprint,
		"reconcile":    reconcile,
		"cached-read":  cachedRead,
	}
	for _, name := range scenario.Following() {
		scenarios[name] = follow
	}
	protocol.Main(scenarios)
}
