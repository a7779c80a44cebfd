// Package lease contains code shared by packages leaderelection and membership: handling of Lease fields
// (coordination.k8s.io/v1), requests, timing options, and counting of failed requests.
//
// # Clocks
//
// Clocks of different machines are never compared. A [Sighting] counts from the moment this process saw
// the Lease change, so it never expires before the holder's own term, which counts from the moment the
// holder sent the renewal.
//
// # Requests
//
// A [Client] checks every response. A proxy may respond in place of the API server, and a process that
// trusted its status 200 would work without holding a Lease.
//
// # Concurrency
//
// [Client] and [Trouble] are safe for concurrent use; a [Sighting] is not.
package lease
