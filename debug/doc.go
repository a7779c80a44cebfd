// Package debug gives people and programs a read-only view of a running process over HTTP: its informers
// and their caches, handlers, controllers, queues, and recent events from its flight recorder.
//
// # Usage
//
//	http.Handle(debug.Path, debug.New(debug.Options{Informers: debug.Of(factory)}))
//
// A manager.Manager serves it at its PprofBindAddress. Browsers get a page at [Path]. [Attach] returns a
// [Client] for programs; informer-debug --attach uses it.
//
// # Protocol
//
// All responses of version 1 except events and recording are JSON below Path+"v1/".
// Names include the unit: lagSeconds. Unknown values are left out, and fields may be
// added. Each response corresponds to a method of Client:
//
//	status      the whole process
//	objects     heads of cached objects: informer, cluster, type, namespace, selector, search, limit, continue
//	object      one cached object: informer, cluster, type, namespace, name
//	indexes     an informer's indexes with their largest buckets: informer, cluster, type, limit
//	queue       keys of a controller or queue: name, limit
//	timeline    known events of one key: informer, namespace, name
//	why         why a key has not been reconciled, or so late: informer, controller, namespace, name, hash
//	busiest     keys with the most changes and reconciles: seconds, limit
//	events      events as they happen, as server-sent events: informer, namespace, name
//	recording   everything the clients received and receive, as a file of package recording
//	goroutines  number of goroutines per package
//	stacks      stacks of running calls of handlers and controllers: name
//
// An empty cluster, as in "cluster=", means the process's own cluster; without the parameter, any
// cluster matches. Every response has the header Millrace-Debug, which contains the protocol version,
// v1.
//
// An error is a plain-text sentence with status 400, 403 (a browser queries from a page
// of another origin), 404, 405, 409 (several informers match), 500 (code under
// inspection panicked or failed) or 503 (too many requests; Retry-After says when to
// retry, which a Client does).
//
// # Guarantees
//
// Observers never block the program. No lock of the pipeline is held while a response is sent, at most
// four responses are built at a time, and at most eight streams of events or of the recording are open.
// If the reader of an event stream is too slow, the stream drops events and reports how many; a stream
// of the recording reads the file only as fast as its reader. A client that stops reading is
// disconnected after ten seconds. If a function in Options panics, the client gets the error. If it
// hangs, that response hangs too; requests that have waited ten seconds for their turn get a 503.
//
// Only the heads of objects are shown. Contents, and index values derived from them, are shown only if
// Options.Contents is set, and never for Secrets. A recording that contains Secrets is not served. The
// server must control access; see serving.Local and serving.Access.
//
// # Concurrency
//
// All methods are safe for concurrent use. A Process has no goroutines of its own.
package debug
