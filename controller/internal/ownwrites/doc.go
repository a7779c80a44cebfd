// Package ownwrites keeps a request from being reconciled before the caches have what
// its last reconcile wrote.
//
// A Cache turns the server's answers into Writes, and a reconcile collects them. A
// Barrier keeps them under the request. When the queue hands the request out again, Park
// lets it pass or parks it. A parked request waits in the waitlist of the first cache
// that lags, which wakes at each change of that cache.
//
// A Barrier has one goroutine for each cache that requests are parked for, and a timer
// for each parked request. Close ends them. Queue and caches are called under its lock.
package ownwrites
