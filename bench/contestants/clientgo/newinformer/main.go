// Command newinformer measures Millrace informers that use client-go for listing, watching and decoding.
package main

import (
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	adapter "github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/bench/contestants/clientgo"
)

func main() {
	clientgo.Stack{Factory: factory, Dynamic: dynamicFactory, Informer: adapter.NewInformer}.Main()
}

func factory(config *rest.Config) (informers.SharedInformerFactory, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return adapter.NewSharedInformerFactory(client, 0), nil
}

func dynamicFactory(config *rest.Config) (dynamicinformer.DynamicSharedInformerFactory, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return adapter.NewDynamicSharedInformerFactory(client, 0), nil
}
