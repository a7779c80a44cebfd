// Command factory measures client-go's interfaces backed by Millrace informers, which also do the listing,
// watching and decoding.
package main

import (
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	adapter "github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/bench/contestants/clientgo"
)

func main() {
	clientgo.Stack{Factory: factory, Dynamic: dynamicFactory, Informer: adapter.NewInformer}.Main()
}

func factory(config *rest.Config) (informers.SharedInformerFactory, error) {
	return adapter.NewSharedInformerFactoryForConfig(config, 0)
}

func dynamicFactory(config *rest.Config) (dynamicinformer.DynamicSharedInformerFactory, error) {
	return adapter.NewDynamicSharedInformerFactoryForConfig(config, 0)
}
