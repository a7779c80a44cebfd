// Package torture breaks a real cluster on purpose, in one way after the other, and looks
// whether everything that Millrace runs on it comes through.
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
// One etcd and two kube-apiservers are processes of their own. Between each two of
// them, and before all clients, is a link, a proxy of TCP connections that can refuse,
// reset, lose, delay and garble. Clients may be led through a gateway that ends TLS and
// answers as it likes.
//
// # Episodes
//
// An episode breaks one thing, looks at what is said of it meanwhile, and mends it. Each
// kind comes before any comes again, in an order that the seed draws; the seed draws how
// long and how much too. Goroutines and processes are not bound to it, so a seed brings
// back the episodes and not each interleaving.
//
// # Guarantees
//
// While a fault lasts, the status of every informer concerned, WaitForSync of an informer
// that begins then, and the election say why, in the words that the episode names (L22).
// After it, each cache and each witness has what the server has by content (L17), every
// witness has heard a lawful history (L01, L03 to L07), each Pod has its ConfigMap, one
// candidate of three leads, and no goroutine, connection or memory is left. There is
// never more than one leader.
//
// # What takes rights, or a build
//
// Package clock steps the wall clock of this process, and so of all clients, in a build with
// -tags clocksteps -ldflags=-checklinkname=0, which make torture chooses. The disk that is full is a
// file system of etcd's own, for which Linux wants CAP_SYS_ADMIN. Without, these kinds are not
// played, and the output says so.
//
// # What is not there
//
// No byte is changed between kube-apiserver and etcd, where nothing would find it and what is
// stored would be another thing.
package torture
