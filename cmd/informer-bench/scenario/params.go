package scenario

import "github.com/millrace-dev/millrace/cmd/informer-bench/results"

// The names of parameters.
const (
	Custom    = "custom"         // custom resources, which are JSON, instead of pods
	Kinds     = "kinds"          // number of kinds, of which the server has as many objects each
	Typed     = "typed"          // custom resources have a Go type
	WatchList = "watchlist"      // stream the initial list
	Handlers  = results.Handlers // number of handlers
	Readers   = results.Readers  // number of readers that list a namespace
	Workers   = results.Workers  // number of workers of the work queue
	Delayed   = results.Delayed  // adds are delayed
	Events    = "events"         // number of events
	PerSecond = "per_second"     // event rate; 0 is unlimited
	Hostile   = results.Hostile  // objects in which nothing repeats
	Alike     = results.Alike    // pods of an application that are alike
	Millis    = "millis"         // duration of the work
	Changed   = "changed"        // number of objects that a relist finds changed
	Copied    = results.Copied   // reads return copies
	Keys      = results.Keys     // handlers look only at the key and the version
	Expired   = results.Expired  // the known version has expired
	Replicas  = results.Replicas // number of processes that share the work
	Chosen    = results.Chosen   // the server filters by share
	Collected = "collected"      // measure the garbage collector
	From      = "from"           // resource version of the list, for contestants that do not read it
)

// SentAnnotation is the annotation with the time at which an event was sent, in Unix nanoseconds. It has
// the same name as in package apiservertest, which the contestants do not import.
const SentAnnotation = "millrace.dev/sent"
