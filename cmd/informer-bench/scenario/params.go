package scenario

import "github.com/millrace-dev/millrace/cmd/informer-bench/results"

// Parameter names.
const (
	Custom     = "custom"         // custom resources (encoded as JSON) instead of pods
	Kinds      = "kinds"          // number of kinds; the server has the same number of objects for each
	ConfigMaps = "config_maps"    // number of ConfigMaps of 10 KB in a second cache; they never change
	Typed      = "typed"          // decode custom resources into a Go type
	WatchList  = "watchlist"      // stream the initial list
	Handlers   = results.Handlers // number of handlers
	Readers    = results.Readers  // number of goroutines that list namespaces
	Workers    = results.Workers  // number of work queue workers
	Delayed    = results.Delayed  // adds are delayed
	Events     = "events"         // number of events
	PerSecond  = "per_second"     // event rate; 0 means unlimited
	Hostile    = results.Hostile  // objects with no repeated content
	Alike      = results.Alike    // near-identical pods of one application
	Millis     = "millis"         // duration of the work
	Changed    = "changed"        // number of objects that have changed at a relist
	Copied     = results.Copied   // reads return copies
	Keys       = results.Keys     // handlers look only at the key and the version
	Expired    = results.Expired  // the client's resource version has expired
	Replicas   = results.Replicas // number of processes that share the work
	Chosen     = results.Chosen   // the server does the filtering
	Collected  = "collected"      // measure garbage collection
	From       = "from"           // resource version of the list, for contestants that do not read it
)

// SentAnnotation is the annotation that contains an event's send time, in Unix nanoseconds. Its name is the
// same as in package apiservertest, which contestants do not import.
const SentAnnotation = "millrace.dev/sent"
