// Package clientgo runs client-go under informer-bench, either on its own or with Millrace behind its
// interfaces. The programs in its subdirectories differ only in the Stack.
package clientgo

import (
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// Stack creates the informers to measure.
type Stack struct {
	Factory  func(*rest.Config) (informers.SharedInformerFactory, error)
	Dynamic  func(*rest.Config) (dynamicinformer.DynamicSharedInformerFactory, error)
	Informer func(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer
}

// Main is the main function of a contestant that uses this stack.
func (k Stack) Main() {
	scenarios := map[string]protocol.Work{
		"fanout":       k.fanout,
		"readers":      k.readers,
		"workqueue":    workQueue,
		"late-handler": k.lateHandler,
		"slow-handler": k.slowHandler,
		"footprint":    k.footprint,
	}
	for _, name := range scenario.Following() {
		scenarios[name] = k.follow
	}
	protocol.Main(scenarios)
}

// setWatchList enables or disables the streaming list. It must be called before any other client-go function,
// because client-go reads the variable only once.
func setWatchList(s *protocol.Session) error {
	value := "false"
	if s.Params.On(scenario.WatchList) {
		value = "true"
	}
	return os.Setenv("KUBE_FEATURE_WatchListClient", value)
}
