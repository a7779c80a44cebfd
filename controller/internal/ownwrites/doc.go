// Package ownwrites delays a request until the caches have seen the writes of its last reconcile.
//
// A Cache turns the server's answers into Writes, and a reconcile collects them. A Barrier stores them
// by request. When the queue hands the request out again, Park lets it pass or parks it. A parked
// request waits in the waitlist of the first lagging cache, which checks its requests after each change
// of that cache.
//
// A Barrier has one goroutine for each cache that parked requests wait for, and a timer for each parked
// request. Close stops them. It calls the queue and the caches while holding its lock.
package ownwrites
