// Command clientgo is client-go as a contestant of informer-bench.
package main

import (
	"os"

	"github.com/millrace-dev/millrace/bench/protocol"
)

func main() {
	scenarios := map[string]protocol.Scenario{
		"fanout":       fanout,
		"readers":      readers,
		"workqueue":    workQueue,
		"late-handler": lateHandler,
		"slow-handler": slowHandler,
		"footprint":    footprint,
	}
	for _, name := range protocol.Following() {
		scenarios[name] = follow
	}
	protocol.Main(scenarios)
}

// setWatchList switches the streaming list on or off. It must be called before
// anything else of client-go, which reads the variable once.
func setWatchList(s *protocol.Session) error {
	value := "false"
	if s.Params.On(protocol.WatchList) {
		value = "true"
	}
	return os.Setenv("KUBE_FEATURE_WatchListClient", value)
}
