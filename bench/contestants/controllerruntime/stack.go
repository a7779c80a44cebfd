// Package controllerruntime runs controller-runtime under informer-bench: the cache as its client and
// controllers use it, either on its own or with Millrace behind its interfaces. The programs in its
// subdirectories differ only in the Stack.
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

	// If Queue is nil, controllers use their default.
	Queue func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Main is the main function of a contestant that uses this stack.
func (k Stack) Main() {
	scenarios := map[string]protocol.Work{
		"reconcile": k.reconcileAll, "manager": k.managerStart, "cached-read": k.cachedRead, "packed-read": k.read,
	}
	for _, name := range scenario.Following() {
		scenarios[name] = k.follow
	}
	protocol.Main(scenarios)
}
