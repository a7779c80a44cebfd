// Package millrace is the root of the Kubernetes informer stack of that name. It
// holds no code. Start at package factory, which gives a program its informers, at
// package manager, which runs its controllers, or at README.md.
//
// From the ground up:
//
//	object                     what an API object is: constraint, key, kind, resource version
//	failure                    what can go wrong, and guards against panics of user code
//	flight                     the flight recorder: the last events, and how long stages took
//	wire                       bytes to objects, lists item by item, watches frame by frame
//	recording                  what a client receives, in a file, and played again
//	shard                      which objects are whose, if processes share work (experimental)
//	source                     what a reflector lists and watches
//	rest                       the client of the API server
//	rest/config                where the server is and who we are: kubeconfig, credentials, TLS
//	rest/discovery             which kinds the server serves, and where
//	rest/scheme                the Go type of every built-in kind
//	deltafifo                  the queue of changes between a reflector and an informer
//	indexer                    the cache: by key, namespace, label selector and typed index
//	snapshot                   caches in files, for the next process
//	workqueue                  the queue of work between handlers and workers
//	reflector                  keeps a queue in step with the server by list and watch
//	sharedinformer             applies the queue to the cache and calls the handlers
//	factory                    one informer per type and scope
//	serving                    HTTP servers with certificates and access rights
//	events                     records Kubernetes events
//	controller                 events in, requests queued, reconcilers called
//	leaderelection             one of several processes does the work, by a Lease
//	shard/membership           many processes share the work, by a Lease each
//	webhook                    admission and conversion
//	metrics                    all figures under their names, for Prometheus
//	debug                      a process as others may look into it, over HTTP
//	manager                    many controllers in one process: start, stop, election, probes
//	controllermanager          named controllers, chosen by a flag
//
// For tests:
//
//	controllertest  a controller, a simulated server and virtual time
//	apiservertest             the simulated API server, with a plan of faults
//	test/debugger              informer-debug as a program, looking into other programs
//	test/fuzz                  the program behind make fuzz: all targets, and a count
//	test/hostile               what reading hostile input may cost
//	test/mutate                the program that breaks the code to test the tests
//	apiservertest/network               slow, lossy and broken connections to the simulated server
//	test/soak                  a program for weeks of virtual time, and what it holds
//	test/run                   the program behind make test and test-all: tests of modules, and a summary
//
// Module envtest is a real kube-apiserver for everybody's tests. What tests Millrace with it
// is in modules of its own too: test/e2e, test/protocol, test/torture and test/software. So are
// test/simulation, which plays everything together under schedules of faults from a seed, and
// test/conformance, the contract of informers as a suite for any stack.
package millrace
