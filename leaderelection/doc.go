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
//   - The work's context ends RenewDeadline after the last renewal was sent. Other candidates do
//     not take the lease until LeaseDuration after they saw that renewal, which is later. The
//     difference is the time that the work has to stop. If the Lease is deleted, candidates that
//     have seen it still wait, but a candidate that starts just then takes it at once, and the
//     leader stops at its next renewal.
//   - Clocks of different machines are not compared. A lease expires for a candidate if the
//     candidate has not seen it change for the duration that its holder set. The times in the Lease
//     are only for people.
//   - The token of a term is greater than those of earlier terms ([Token]), so a guarded resource
//     can refuse requests of an earlier leader. An Elector remembers the greatest token it has
//     seen. A token repeats only if the Lease is deleted or restored to an older state, and then
//     taken by a candidate that has not seen the latest one.
//   - An identity proves nothing: a lease that is held under our own name still belongs to another
//     process, since two processes may have been given the same name.
//   - A renewal may take until the deadline. If there is no response after a third of that time,
//     another renewal is sent in parallel, so neither a dead connection nor a slow exec plugin
//     makes us lose the lease.
//
// No lease can guarantee that an earlier leader has stopped: a suspended process notices the loss only
// when it wakes up, and work may ignore its context. If you need that guarantee, use the token.
//
// # Concurrency
//
// All methods may be called from any goroutine, but only one Run may be active at a time. Run has one
// goroutine that renews, one that watches the deadline, and one for each renewal in progress; the work
// runs in the caller's goroutine. A transport or a logger that blocks does not delay the deadline, but
// Run does not return until it unblocks.
//
// # Failure
//
// Run does not fail because of errors from the server. It retries, and reports them in Status and in
// the log, at once and then less and less often. If the lease was lost while the work ran, Run's error
// wraps ErrLost; otherwise Run returns the work's error.
//
// # Debugging
//
// Status reports the leader and the start of its term. Check is for a health endpoint: it fails if the
// work is still running although another candidate may lead.
package leaderelection
