// Command adapted is controller-runtime over Millrace's cache and queues.
package main

import (
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	adapter "github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/bench/contestants/controllerruntime"
)

func main() {
	controllerruntime.Stack{Cache: adapter.NewCache, Queue: adapter.NewQueue[reconcile.Request]}.Main()
}
