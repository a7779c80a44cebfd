// Package lease holds the common parts of packages leaderelection and membership: the fields of a Lease
// (coordination.k8s.io/v1), requests, timing options, and the count of failed requests.
//
// # Clocks
//
// Clocks of different machines are never compared. A [Sighting] counts from the moment this process
// saw the Lease change, so it never ends before the holder's own term, which counts from the moment
// the holder sent the renewal.
//
// # Requests
//
// A [Client] checks each response. A proxy may answer in the API server's place, and a
// process that trusted its 200 would work without a Lease.
//
// # Concurrency
//
// All methods of [Client] and [Trouble] may be called concurrently. A [Sighting] has no
// lock.
package lease
