//go:build millrace

package main

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
)

// Here controller-runtime's cache and queues are Millrace's.

var newCache cache.NewCacheFunc = controllerruntime.NewCache

var newQueue = controllerruntime.NewQueue[reconcile.Request]
