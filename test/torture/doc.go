// Package torture breaks a real cluster on purpose, in one way after another, and checks that all Millrace
// components running against it recover.
//
// # Usage
//
//	make torture TIME=60m SEED=7
//	go -C test/torture test -v -duration 60m -seed 7
//	go -C test/torture test -v -only "half-open"   # only one kind of episode
//	go -C test/torture test -short                 # skips everything
//
// # The cluster
//
// One etcd and two kube-apiservers run as separate processes. There is a link between each server and etcd,
// and another one in front of all clients: a TCP proxy that can refuse, reset, drop, delay and garble
// connections. Clients may be routed through a gateway that terminates TLS and can respond with anything.
//
// # Episodes
//
// An episode breaks one thing, checks the reports while it is broken, and repairs it. Every kind of episode
// occurs once before any occurs again, in an order derived from the seed, which also determines durations and
// amounts. Goroutines and processes are not deterministic, so a seed reproduces the episodes but not every
// interleaving.
//
// # Guarantees
//
// During a fault, the status of every affected informer, WaitForSync on an informer started during the
// fault, and the election report the reason in the words that the episode expects (L22). Afterwards, each
// cache and each witness has the server's content (L17), every witness has received a consistent history
// (L01, L03 to L07), each Pod has its ConfigMap, one of three candidates leads, and no goroutines,
// connections or memory have leaked. There is never more than one leader.
//
// # Requirements
//
// Package clock steps the wall clock of this process, and thus of all clients, if built with -tags clocksteps
// -ldflags=-checklinkname=0, as make torture does. The full-disk episode puts etcd on a separate file system,
// which requires CAP_SYS_ADMIN on Linux. Without these, the episodes that need them are skipped, and the
// output says so.
//
// # Limits
//
// Bytes between kube-apiserver and etcd are never corrupted, because nothing would detect it and the stored
// objects would be wrong.
package torture
