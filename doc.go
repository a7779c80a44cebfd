// Package millrace is the root of the Kubernetes informer stack of that name.
// It holds no code: start at package factory, which gives a program its
// informers, or at README.md.
//
//	object, wire                          what an object is; bytes to objects
//	rest, deltafifo, indexer, workqueue   the client; the queue of changes; the cache; the queue of work
//	reflector                             keeps a queue in step with the server by list and watch
//	sharedinformer                        applies the queue to the cache, tells the handlers
//	factory                               one informer per type and scope
//	metrics                               all of it for Prometheus
package millrace
