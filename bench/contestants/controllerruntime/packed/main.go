// Command packed measures controller-runtime on top of Millrace's packed cache, with Millrace's queues.
package main

import (
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	adapter "github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/bench/contestants/controllerruntime"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func main() {
	controllerruntime.Stack{
		Cache: adapter.Options{Store: sharedinformer.Packed}.NewCache, Queue: adapter.NewQueue[reconcile.Request],
	}.Main()
}
