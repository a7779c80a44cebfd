// Package millrace is the root of the Kubernetes informer stack of the same name. It contains no code.
// Start with package factory, which creates a program's informers, package manager, which runs its
// controllers, or README.md.
//
// Codes such as (L08) in comments refer to the numbered guarantees in LAWS.md.
//
// From the bottom up:
//
//	object                 API objects: constraint, key, kind, resource version
//	failure                kinds of failures, and guards against panics in user code
//	flight                 flight recorder: the latest events, and how long each stage took
//	wire                   decodes objects, lists item by item and watches frame by frame
//	recording              records a client's requests to a file, and replays them
//	shard                  divides objects among cooperating processes (experimental)
//	source                 defines how a reflector lists and watches objects
//	rest                   client for the API server
//	rest/config            server address and identity: kubeconfig, credentials, TLS
//	rest/discovery         the kinds that the server serves, and their paths
//	rest/scheme            the Go types of all built-in kinds
//	deltafifo              queue of changes between a reflector and an informer
//	indexer                cache, by key, namespace, label selector and typed index
//	snapshot               saves caches to files for the next process
//	workqueue              queue of work between handlers and workers
//	reflector              keeps a queue up to date by list and watch
//	sharedinformer         applies the queue to the cache and calls the handlers
//	factory                one informer per type and scope
//	serving                HTTP servers with certificates and authorization
//	events                 records Kubernetes events
//	controller             turns events into requests and calls reconcilers
//	leaderelection         elects one of several processes, using a Lease
//	shard/membership       assigns shards to the members of a group, using a Lease for each
//	webhook                admission and conversion
//	metrics                all metrics, for Prometheus
//	debug                  shows the state of a process over HTTP
//	manager                runs many controllers in one process: start, stop, election, probes
//	controllermanager      named controllers, selected by a flag
//
// For tests:
//
//	controllertest         a controller, a simulated server and virtual time
//	apiservertest          simulated API server that injects faults
//	apiservertest/network  slow, lossy and broken connections to the simulated server
//	test/debugger          runs informer-debug against other programs
//	test/fuzz              runs all fuzz targets, and counts them
//	test/hostile           limits on the cost of hostile input
//	test/mutate            breaks the code to test the tests
//	test/run               runs the tests of all modules and prints a summary
//	test/soak              runs for weeks of virtual time and checks what stays in memory
//
// Module envtest runs a real kube-apiserver for tests. Millrace's own tests against it are in separate
// modules: test/e2e, test/protocol, test/torture and test/software. Two more modules are test/simulation,
// which runs the whole stack under randomized fault schedules, and test/conformance, a conformance suite
// for the informers of any stack.
package millrace
