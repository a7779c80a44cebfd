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
//   - The lease outlives the work. It is renewed until the work has returned, even after ctx is
//     done, and released only then.
//   - The work's context is canceled RenewDeadline after the last renewal was sent. Other candidates do
//     not take the lease until LeaseDuration after they saw that renewal, which is later. The difference
//     is how long the work has to stop. If the Lease is deleted, candidates that have seen it still
//     wait, but a candidate that starts at that point takes it immediately, and the leader stops at its
//     next renewal.
//   - The clocks of different machines are never compared. From a candidate's point of view, a lease
//     expires if it has not changed for the duration set by its holder. The times in the Lease are
//     informational.
//   - Each term's token ([Token]) is greater than those of earlier terms, so a guarded resource can
//     reject requests from an earlier leader. An Elector remembers the greatest token it has seen. A
//     token repeats only if the Lease is deleted or restored to an older state, and then taken by a
//     candidate that has not seen the latest one.
//   - An identity proves nothing: a lease held under our own name still belongs to another process,
//     since two processes may have been given the same identity.
//   - A renewal may take until the deadline. If there is no response after a third of that time,
//     another renewal is sent in parallel, so neither a dead connection nor a slow exec plugin costs us
//     the lease.
//
// No lease can guarantee that an earlier leader has stopped: a suspended process notices the loss only
// when it wakes up, and the work may ignore its context. If you need that guarantee, use the token.
//
// # Concurrency
//
// All methods are safe for concurrent use, but only one Run may be active at a time. Run starts one
// goroutine for renewals, one that watches the deadline, and one per renewal in progress; the work runs
// in the caller's goroutine. A blocking transport or logger does not delay the deadline, but Run does
// not return until the call returns.
//
// # Failure
//
// Run does not fail because of server errors. It retries, and reports them in Status and in the log, at
// first immediately and then less and less often. If the lease was lost while the work was running,
// Run's error wraps ErrLost; otherwise Run returns the work's error.
//
// # Debugging
//
// Status reports the current leader and the start of its term. Check is intended for health endpoints:
// it fails if the work is still running although another candidate may be the leader.
package leaderelection
