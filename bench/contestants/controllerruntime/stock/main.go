// Command stock measures unmodified controller-runtime.
package main

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/millrace-dev/millrace/bench/contestants/controllerruntime"
)

func main() { controllerruntime.Stack{Cache: cache.New}.Main() }
