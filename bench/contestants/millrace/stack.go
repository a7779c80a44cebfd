// Package millrace runs Millrace under informer-bench, with whole or packed caches. The programs in its
// subdirectories differ only in the Stack.
package millrace

import (
	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
)

// Stack configures the measurement.
type Stack struct {
	Store sharedinformer.Store

	snapshot *snapshot.Directory // set only in the scenario that uses one
}

// Main is the main function of a contestant that uses this stack.
func (k Stack) Main() {
	scenarios := map[string]protocol.Work{
		"fanout":       k.fanout,
		"readers":      k.readers,
		"workqueue":    workQueue,
		"late-handler": k.lateHandler,
		"slow-handler": k.slowHandler,
		"footprint":    k.footprint,
		"reconcile":    k.reconcile,
		"manager":      k.managerStart,
		"cached-read":  k.cachedRead,
		"packed-read":  k.read,
		"share-work":   shareWork,
		"share-cache":  k.shareCache,
	}
	for _, name := range scenario.Following() {
		scenarios[name] = k.follow
	}
	protocol.Main(scenarios)
}
