//go:build !millrace

package main

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Here is controller-runtime as it is; another build tag puts Millrace behind
// it.

var newCache cache.NewCacheFunc = cache.New

// newQueue is nil for the one that controllers make themselves.
var newQueue func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]
