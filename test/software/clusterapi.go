package main

import (
	"path"
	"strings"
)

const clusterAPIModule = "sigs.k8s.io/cluster-api"

// clusterAPIs are the suites of cluster-api that start an API server.
func clusterAPIs() (all []*suite) {
	for _, pkg := range []string{
		"./controllers/clustercache",
	} {
		all = append(all, clusterAPI(pkg))
	}
	return all
}

// clusterAPI is a suite of cluster-api, whose managers have Millrace's cache and queues.
func clusterAPI(pkg string) *suite {
	name := strings.NewReplacer("/internal", "", "/controllers", "").Replace(path.Clean(pkg))
	return &suite{
		name:         "cluster-api " + name,
		module:       clusterAPIModule,
		version:      "v1.14.2",
		packages:     []string{pkg},
		chosen:       "`cache.New`, `Options.NewQueue`",
		once:         true,
		programs:     []string{"etcd", "kube-apiserver"},
		dependencies: []dependency{{"sigs.k8s.io/controller-runtime", "v0.25.2", cacheAndQueueChoice()}},
		choose: choice{
			imports: []string{
				`chosenrest "k8s.io/client-go/rest"`,
				`chosencache "sigs.k8s.io/controller-runtime/pkg/cache"`,
				`chosencontroller "sigs.k8s.io/controller-runtime/pkg/controller"`,
				`chosenreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"`,
				`millrace "github.com/millrace-dev/millrace/adapters/controllerruntime"`,
			},
			code: strings.TrimSpace(`
	chosencache.Chosen = func(config *chosenrest.Config, options chosencache.Options) (chosencache.Cache, error) {
		countChosen()
		return millrace.NewCache(config, options)
	}
	chosencontroller.Chosen = millrace.NewQueue[chosenreconcile.Request]`),
		},
	}
}
