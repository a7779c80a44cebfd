// Package lease contains code shared by packages leaderelection and membership: handling of Lease fields
// (coordination.k8s.io/v1), requests, timing options, and counting of failed requests.
//
// # Clocks
//
// Clocks of different machines are never compared. A [Sighting] is timed from the moment this process
// saw the Lease change, and the holder's own term from the moment the holder sent the renewal, so the
// Sighting never expires first.
//
// # Requests
//
// A [Client] checks every response. A proxy may answer in place of the API server, and a process that
// trusted its 200 would start working without holding the Lease.
//
// # Concurrency
//
// [Client] and [Trouble] are safe for concurrent use; a [Sighting] is not.
package lease
