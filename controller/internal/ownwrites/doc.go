// Package ownwrites delays a request until the caches have seen the writes made by its last reconcile.
//
// A Cache converts the server's responses to Writes, which are collected for each reconcile and stored in a
// Barrier by request. When the queue hands out the request again, Park either lets it through or parks it.
// A parked request waits in the waitlist of the first lagging cache, which checks its requests after each
// change to that cache.
//
// A Barrier has one goroutine for each cache that parked requests are waiting for, and one timer per
// parked request. Close stops them. It calls the queue and the caches while holding its lock.
package ownwrites
