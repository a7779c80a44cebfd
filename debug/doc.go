// Package debug provides a read-only view of a running process over HTTP, for people and programs: its
// informers and their caches, handlers, controllers, queues, and recent events from its flight recorder.
//
// # Usage
//
//	http.Handle(debug.Path, debug.New(debug.Options{Informers: debug.Of(factory)}))
//
// A manager.Manager serves it at its PprofBindAddress. Browsers can open the page at [Path]. Programs can use
// a [Client] returned by [Attach], as informer-debug --attach does.
//
// # Protocol
//
// Version 1 of the protocol is served under Path+"v1/". All responses except events and recording are JSON.
// Field names include the unit, such as lagSeconds. Unknown values are omitted. Fields may be added over
// time. Each request corresponds to a method of [Client]:
//
//	status      status of the whole process
//	objects     heads of cached objects: informer, cluster, type, namespace, selector, search, limit, continue
//	object      one cached object: informer, cluster, type, namespace, name
//	indexes     an informer's indexes with their largest buckets: informer, cluster, type, limit
//	queue       keys of a controller or queue: name, limit
//	timeline    recorded events for one key: informer, namespace, name
//	why         why a key was reconciled late or not at all: informer, controller, namespace, name, hash
//	busiest     keys with the most changes and reconciles: seconds, limit
//	events      events as they happen, as server-sent events: informer, namespace, name
//	recording   all data the clients have received and receive, as a recording file
//	goroutines  number of goroutines per package
//	stacks      stacks of running handler and reconciler calls: name
//
// An empty cluster parameter ("cluster=") selects the process's own cluster. Without the parameter, any
// cluster matches. Every response has a Millrace-Debug header with the protocol version, v1.
//
// Errors are plain-text sentences with status 400, 403 (a cross-origin request from a browser), 404, 405, 409
// (several informers match), 500 (the inspected code panicked or failed) or 503 (too many requests; a Client
// retries after the time in Retry-After).
//
// # Guarantees
//
// Observers never block the program. No pipeline lock is held while a response is sent, at most four
// responses are built at a time, and at most eight event or recording streams are open. If the client of an
// event stream is too slow, the stream drops events and reports how many; a recording stream reads the file
// only as fast as its client. A client that stops reading is disconnected after ten seconds. If a function in
// Options panics, the client receives the error. If it hangs, so does that response, and requests that have
// waited ten seconds for their turn fail with status 503.
//
// Only object metadata is shown (see [Head]). Contents, and index values derived from them, are shown
// only if Options.Contents is set, and never for Secrets. A recording that contains Secrets is not
// served. The server must control access; see serving.Local and serving.Access.
//
// # Concurrency
//
// All methods are safe for concurrent use. A Process has no goroutines between requests.
package debug
