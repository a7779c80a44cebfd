// Package leaderelection elects one of several processes as the leader, using a Lease object
// (coordination.k8s.io/v1).
//
// # Usage
//
//	elector, err := leaderelection.New(client, leaderelection.Options{Namespace: "shop", Name: "janitor"})
//	err = elector.Run(ctx, func(ctx context.Context) error {
//		token, _ := leaderelection.Token(ctx)
//		... // the work, until ctx is done
//	})
//
// # Guarantees
//
//   - The lease outlives the work. It is renewed until the work returns, even after ctx is done, and only
//     then released.
//   - The work's context is canceled RenewDeadline after the last renewal was sent. Other candidates do not
//     take the lease until LeaseDuration after they saw that renewal, which is later. The work has that
//     much time to stop. If another client deletes the Lease, the leader stops at its next renewal.
//     Candidates that have seen the Lease wait until then, but one that has just started takes it immediately.
//     If another client erases the holder or shortens the duration, any candidate may take the lease before the
//     leader's next renewal.
//   - The clocks of different machines are never compared. A candidate considers a lease expired if it has
//     not seen it change for the duration set by the holder. The times in the Lease are informational.
//   - Each term's token ([Token]) is greater than those of earlier terms, so a guarded resource can
//     reject requests from an earlier leader. An Elector remembers the greatest token it has seen. A
//     token repeats only if the Lease is deleted or restored to an older state, and then taken by a
//     candidate that has not seen the latest one.
//   - Identities are not trusted: a lease held under our own identity is still assumed to belong to another
//     process, since two processes may have been given the same one.
//   - A renewal may take until the deadline. If there is no response after a third of that time,
//     another renewal is sent in parallel on a new connection, so we do not lose the lease to a dead
//     connection or a slow exec plugin.
//
// No lease can guarantee that an earlier leader has stopped: a suspended process notices the loss only once
// it resumes, and the work may ignore its context. If you need that guarantee, use the token.
//
// # Concurrency
//
// All methods are safe for concurrent use, but only one Run may be active at a time. Run starts one
// goroutine for renewals, one that watches the deadline, and two per renewal in progress; the work runs
// in the caller's goroutine. A transport or logger that blocks does not delay the deadline, but Run cannot
// return until that call does.
//
// # Failure
//
// Run does not fail because of server errors. It retries, and reports the errors in Status and in the log,
// immediately at first and then at increasing intervals. If the lease was lost while the work was running,
// Run's error wraps ErrLost; otherwise Run returns the work's error.
//
// # Debugging
//
// Status reports the current leader and when its term started. Check is intended for health endpoints:
// it fails if the work is still running although another candidate may be the leader.
package leaderelection
