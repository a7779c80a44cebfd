package main

// integrations returns suites for Kubernetes' integration tests.
func integrations() (all []*suite) {
	for _, name := range []string{
		"replicaset", "deployment", "garbagecollector", "quota", "endpointslice", "disruption",
		"namespace", "statefulset", "serviceaccount", "job", "cronjob", "podgc", "ttlcontroller", "volume",
		"daemonset", "replicationcontroller", "evictions", "staleness", "scheduler", "scheduler/eventhandler", "scheduler/filters",
		"scheduler/preemption", "scheduler/queueing", "apiserver",
	} {
		s := integration(name)
		s.causes = differing[name]
		all = append(all, s)
	}
	return all
}

// differing explains why the results of some tests in a suite differ.
var differing = map[string][]cause{
	"volume": {{"TestPodAddedByDswp|TestPodDeletionWithDswp", "They modify a running informer's store to simulate a fault. Millrace's store is read-only after the sync, and the write returns an error."}},
}

// integration returns a suite for one of Kubernetes' integration tests. These tests start API servers in the
// test process, so the selection applies to all informers: those of the servers, the controllers and the
// tests.
func integration(name string) *suite {
	return &suite{
		name:         "integration " + name,
		module:       "k8s.io/kubernetes",
		version:      "v1.37.0",
		packages:     []string{"./test/integration/" + name},
		chosen:       "`NewSharedIndexInformerWithOptions`",
		once:         true,
		programs:     []string{"etcd"},
		dependencies: []dependency{{"k8s.io/client-go", "v0.37.0", sharedInformerChoice()}},
		choose:       chosenSharedInformers(),
		env: []string{
			// These variables are set as in Kubernetes' own script.
			"KUBE_CACHE_MUTATION_DETECTOR=true",
			"KUBE_PANIC_WATCH_DECODE_ERROR=false",
			// Use a free port, so that a new etcd can start even if another one is running.
			"KUBE_INTEGRATION_ETCD_URL=http://127.0.0.1:1",
		},
	}
}
