// Package protocol specifies how an API server responds. Its tests run against two servers: apiservertest's
// simulated one and a real kube-apiserver. If they differ, the simulation is wrong.
//
// # Usage
//
//	go -C test/protocol test          # both
//	go -C test/protocol test -short   # the simulated one alone
//
// # Debugging
//
// Each test has a subtest per server, "simulated" and "real", and creates its own namespace, so that tests
// do not see each other's objects.
package protocol
