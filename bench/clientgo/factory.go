//go:build millrace_factory

package main

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// Here Millrace informers have client-go's surface alone.

func newFactory(config *rest.Config) (*clientgo.Factory, error) {
	return clientgo.NewSharedInformerFactoryForConfig(config, 0)
}

func newDynamicFactory(config *rest.Config) (*clientgo.ResourceFactory, error) {
	return clientgo.NewDynamicSharedInformerFactoryForConfig(config, 0)
}

func newInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return clientgo.NewInformer(lw, example, resync, indexers)
}
