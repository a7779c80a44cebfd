package main

import "strings"

const clusterAPIModule = "sigs.k8s.io/cluster-api"

// clusterAPIs returns the cluster-api suites that start an API server.
func clusterAPIs() (all []*suite) {
	for _, pkg := range []string{
		"bootstrap/kubeadm/reconcilers/kubeadmconfig",
		"controllers/clustercache",
		"controllers/crdmigrator",
		"controlplane/kubeadm/pkg",
		"controlplane/kubeadm/reconcilers/kubeadmcontrolplane",
		"core/reconcilers/cluster",
		"core/reconcilers/clusterclass",
		"core/reconcilers/clusterresourceset",
		"core/reconcilers/extensionconfig",
		"core/reconcilers/machine",
		"core/reconcilers/machinedeployment",
		"core/reconcilers/machinehealthcheck",
		"core/reconcilers/machinepool",
		"core/reconcilers/machineset",
		"core/reconcilers/topology/cluster",
		"core/reconcilers/topology/cluster/structuredmerge",
		"core/webhooks/admission/test",
		"internal/test/envtest/example",
		"internal/topology/upgrade",
		"internal/util/ssa/test",
		"util/controller",
		"util/deprecated/v1beta1/patch",
		"util/patch/test",
	} {
		all = append(all, clusterAPI(pkg))
	}
	return all
}

// clusterAPI returns a cluster-api suite whose managers use Millrace's cache and queues. cluster-api sets
// cache.Options.NewInformer to a function that creates client-go informers with names for logs and metrics.
// The selection clears that field, because Millrace's cache rejects NewInformer.
func clusterAPI(pkg string) *suite {
	return &suite{
		name:         "cluster-api " + pkg,
		module:       clusterAPIModule,
		version:      "v1.14.2",
		packages:     []string{"./" + pkg},
		chosen:       "`cache.New` (without its `NewInformer`), `Options.NewQueue`",
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
		options.NewInformer = nil
		return millrace.NewCache(config, options)
	}
	chosencontroller.Chosen = millrace.NewQueue[chosenreconcile.Request]`),
		},
	}
}
