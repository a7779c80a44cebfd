//go:build millrace_informer

package main

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// Here client-go lists, watches and decodes for Millrace informers.

func newFactory(config *rest.Config) (*clientgo.Factory, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return clientgo.NewSharedInformerFactory(client, 0), nil
}

func newDynamicFactory(config *rest.Config) (*clientgo.ResourceFactory, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return clientgo.NewDynamicSharedInformerFactory(client, 0), nil
}

func newInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return clientgo.NewInformer(lw, example, resync, indexers)
}
