package main

import "slices"

// suites lists the suites to run, in table order.
var suites = slices.Concat([]*suite{
	controllerRuntime("cache", "./pkg/cache"),
	controllerRuntime("source", "./pkg/source"),
	controllerRuntime("controller", "./pkg/controller", "./pkg/internal/controller"),
	controllerRuntime("builder", "./pkg/builder"),
	controllerRuntime("manager", "./pkg/manager"),
	sharedInformers(),
	dynamicInformers(),
	metadataInformers(),
}, integrations(), clusterAPIs(), []*suite{certManager()})

// controllerRuntime returns a controller-runtime suite with Millrace's queue and, unless a test sets another
// one, its cache.
func controllerRuntime(name string, packages ...string) *suite {
	return &suite{
		name:     "controller-runtime " + name,
		module:   "sigs.k8s.io/controller-runtime",
		version:  "v0.25.2",
		packages: packages,
		chosen:   "`cache.New`, `Options.NewQueue`",
		programs: []string{"etcd", "kube-apiserver"},
		edits:    cacheAndQueueChoice(),
		causes: []cause{
			{"non-blocking get test|TestIndexFieldDoesNotBlock|TestReaderWaitsForCacheSync", "They set `cache.Options.NewInformer`, which Millrace's cache rejects, because all its informers are Millrace's."},
			{"should not configure a priority queue if UsePriorityQueue is set to false", "It requires a queue without priorities. Millrace has only one queue, with priorities."},
			{"Processing queue items from a Controller should requeue a Request if there is an error", "It looks into the queue when its reconciler has received the request, which may be before the reconciler has returned its error. On a busy machine, it is too early."},
			{"should allow for get informer to be cancelled", "It passes a context that is done. With Millrace, this is an error only if the informer has not synced; on a busy machine, it may have."},
		},
		choose: choice{
			imports: []string{
				`chosencache "sigs.k8s.io/controller-runtime/pkg/cache"`,
				`chosencontroller "sigs.k8s.io/controller-runtime/pkg/controller"`,
				`chosenreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"`,
				`millrace "github.com/millrace-dev/millrace/adapters/controllerruntime"`,
			},
			code: "chosencache.Chosen = millrace.NewCache\n\tchosencontroller.Chosen = millrace.NewQueue[chosenreconcile.Request]",
		},
	}
}

// cacheAndQueueChoice returns the edits that make it possible to replace controller-runtime's cache and
// queue.
func cacheAndQueueChoice() []edit {
	return []edit{
		{
			"pkg/cache/cache.go",
			"func New(cfg *rest.Config, opts Options) (Cache, error) {\n",
			"func New(cfg *rest.Config, opts Options) (Cache, error) {\n\tif Chosen != nil {\n\t\treturn Chosen(cfg, opts)\n\t}\n",
		},
		{
			"pkg/cache/cache.go",
			"// New initializes and returns a new Cache.\n",
			"// Chosen is the cache to use.\nvar Chosen NewCacheFunc\n\n// New initializes and returns a new Cache.\n",
		},
		{
			"pkg/controller/controller.go",
			"	if options.NewQueue == nil {\n",
			"	if chosen, ok := Chosen.(func(string, workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request]); ok && options.NewQueue == nil {\n\t\toptions.NewQueue = chosen\n\t}\n\n\tif options.NewQueue == nil {\n",
		},
		{
			"pkg/controller/controller.go",
			"// ReconcileIDFromContext gets",
			"// Chosen is the queue to use.\nvar Chosen any\n\n// ReconcileIDFromContext gets",
		},
	}
}
