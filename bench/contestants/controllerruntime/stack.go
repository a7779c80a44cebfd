// Package controllerruntime is controller-runtime as a contestant of informer-bench: its cache, used by
// its client and its controllers. It runs alone or with Millrace behind its interfaces. The programs
// below this directory differ only in the Stack.
package controllerruntime

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// Stack creates the caches and queues to measure.
type Stack struct {
	Cache cache.NewCacheFunc

	// Queue is nil for the controllers' default.
	Queue func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Main is the main function of a contestant with this stack.
func (k Stack) Main() {
	scenarios := map[string]protocol.Work{"reconcile": k.reconcileAll, "cached-read": k.cachedRead, "packed-read": k.read}
	for _, name := range scenario.Following() {
		scenarios[name] = k.follow
	}
	protocol.Main(scenarios)
}
