package scenario

import "github.com/millrace-dev/millrace/cmd/informer-bench/results"

// The names of parameters.
const (
	Custom    = "custom"         // custom resources, which are JSON, instead of pods
	Typed     = "typed"          // custom resources have a Go type
	WatchList = "watchlist"      // stream the initial list
	Handlers  = results.Handlers // how many handlers hear of everything
	Readers   = results.Readers  // how many readers list a namespace
	Workers   = results.Workers  // how many workers take from the work queue
	Delayed   = results.Delayed  // adds are delayed
	Events    = "events"         // how many events there are
	PerSecond = "per_second"     // how fast they come; 0 is as fast as they can
	Hostile   = results.Hostile  // objects in which nothing repeats
	Millis    = "millis"         // how long the work lasts
	Changed   = "changed"        // how many objects a relist finds changed
	Copied    = results.Copied   // what is read may be changed
	Keys      = results.Keys     // handlers look at the key and the version alone
	Expired   = results.Expired  // the version that is known has expired
	Replicas  = results.Replicas // how many share the work
	Chosen    = results.Chosen   // the server chooses the share
	Collected = "collected"      // what the garbage collector does is measured
	From      = "from"           // the resource version of the list, for a contestant that does not read it
)

// SentAnnotation tells, in Unix nanoseconds, when an event was sent: that of
// apiservertest, which the contestants do without.
const SentAnnotation = "millrace.dev/sent"
