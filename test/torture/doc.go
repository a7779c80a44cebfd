// Package torture breaks a real cluster on purpose, in one way after another, and checks that everything
// that Millrace runs on the cluster recovers.
//
// # Usage
//
//	make torture TIME=60m SEED=7
//	go -C test/torture test -v -duration 60m -seed 7
//	go -C test/torture test -v -only "half-open"   # one kind of episode
//	go -C test/torture test -short                 # nothing
//
// # The cluster
//
// One etcd and two kube-apiservers run as separate processes. Between each server and etcd, and in front
// of all clients, there is a link: a TCP proxy that can refuse, reset, lose, delay and garble
// connections. Clients may be routed through a gateway that terminates TLS and can answer anything.
//
// # Episodes
//
// An episode breaks one thing, checks what is reported while it is broken, and repairs it. Every kind of
// episode occurs before any is repeated, in an order drawn from the seed, which also determines
// durations and amounts. Goroutines and processes are not deterministic, so a seed reproduces the
// episodes but not each interleaving.
//
// # Guarantees
//
// During a fault, the status of every affected informer, WaitForSync of an informer that starts during
// the fault, and the election report the reason in the words that the episode expects (L22). Afterwards,
// each cache and each witness has the server's content (L17), every witness has received a consistent
// history (L01, L03 to L07), each Pod has its ConfigMap, one of three candidates leads, and no
// goroutines, connections or memory have leaked. There is never more than one leader.
//
// # What takes rights, or a build
//
// Package clock steps the wall clock of this process, and thereby of all clients, in a build with -tags
// clocksteps -ldflags=-checklinkname=0, which make torture uses. The episode of the full disk puts etcd
// on a separate file system, which on Linux needs CAP_SYS_ADMIN. Without these, such episodes are
// skipped, and the output says so.
//
// # What is not there
//
// Bytes between kube-apiserver and etcd are never changed, since nothing would detect that and the
// stored objects would differ.
package torture
