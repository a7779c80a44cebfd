// Package debug shows a running process to people and to programs, read-only, over HTTP:
// its informers and what they cache, handlers, controllers, queues, and what happened last
// by its flight recorder.
//
// # Usage
//
//	http.Handle(debug.Path, debug.New(debug.Options{Informers: debug.Of(factory)}))
//
// A manager.Manager offers it by itself where PprofBindAddress says. A browser gets a page at
// Path; Attach returns a Client for programs, which informer-debug --attach is.
//
// # Protocol
//
// All answers of version 1 but the last are JSON below Path+"v1/". Names tell the unit: lagSeconds. What
// is not known is left out, and members may be added. Each is what a method of Client
// returns:
//
//	status      everything at one moment
//	objects     heads of cached objects: informer, cluster, type, namespace, selector, search, limit, continue
//	object      one of them: informer, cluster, type, namespace, name
//	indexes     of an informer, with the largest buckets: informer, cluster, type, limit
//	queue       keys of a controller or queue: name, limit
//	timeline    what is known of one key: informer, namespace, name
//	why         why a key has not been reconciled, or so late: informer, controller, namespace, name, hash
//	busiest     keys with the most changes and reconciles: seconds, limit
//	events      what happens, as server-sent events: informer, namespace, name
//	recording   what clients received, as a file of package recording, and what comes
//	goroutines  how many there are of each package
//	stacks      where the calls in progress of handlers and controllers are: name
//
// An empty cluster, as in "cluster=", is the own one; without it, any may be meant. Every answer has
// the header Millrace-Debug with the version of the protocol, v1.
//
// An error is a sentence of text with status 400, 403 (a browser asks for the page of another
// origin), 404, 405, 409 (several informers are meant), 500 (something that is asked panicked or
// failed) or 503 (too many look; Retry-After says when to ask again, which a Client does).
//
// # Guarantees
//
// What is looked at never waits for who looks. No lock of the pipeline is held while an answer
// is sent, at most four answers are made at a time, and at most eight streams of events or of the
// recording are open. A stream of events drops what its reader does not take in time, and says
// how much; one of the recording reads the file as quickly as its reader takes it. Who does
// not read is cut off after ten seconds, and a function of Options that panics is told to who
// asks. One that does not return holds up its own answer; after ten seconds without a turn
// the others get 503.
//
// Of objects the heads are shown. Contents, and the values that indexes draw from them, are
// shown only with Options.Contents, and those of Secrets never: a recording that has them is not
// handed out. It is up to the server who may ask: see serving.Local and serving.Access.
//
// # Concurrency
//
// All methods may be called from any goroutine. A Process has none of its own.
package debug
