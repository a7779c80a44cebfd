// Package leaderelection lets one of several processes do the work, by a Lease object
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
//   - The lease outlives the work. It is renewed until the work has returned, even
//     after ctx is done, and only then given back.
//   - The work's context is done RenewDeadline after the last renewal was sent.
//     Nobody else takes the lease before LeaseDuration has passed since they saw
//     that renewal, which is later. The difference is what the work has to stop.
//     A Lease that is deleted changes nothing for candidates that have seen it; a
//     candidate that starts just then takes it at once, and the leader stops at its
//     next renewal.
//   - Clocks are not compared. A lease expires when it was not seen to change for
//     as long as its holder said; the times that stand in it are for people.
//   - Each term has a greater token than the terms before it (Token), so that a
//     guarded resource can refuse what an earlier leader still sends. An Elector
//     remembers the greatest that it saw. A token comes a second time where somebody
//     deletes the Lease, or restores an older one, and it is taken by a candidate that
//     has not seen the latest.
//   - An identity is not a licence: a lease held by somebody of our own name is
//     a foreign lease, since two processes may have been given one name.
//   - A renewal may take all the time until the deadline. One without an answer is
//     joined by another after a third of it, so that neither a dead connection nor
//     a slow exec plugin loses the lease.
//
// What no lease can promise is that an earlier leader does nothing any more: a
// process that was suspended notices when it wakes up, and work may ignore its
// context. That is what the token is for.
//
// # Concurrency
//
// All methods may be called from any goroutine, but Run by one at a time. Run
// owns one goroutine that renews, one that watches the deadline, and those of
// renewals under way; the work runs in the caller's. A transport or a logger that
// blocks does not put off the deadline, but Run does not return before they do.
//
// # Failure
//
// Trouble with the server is not an error of Run: it is tried again, and shows
// in Status and in the log, which hears of it at once and then less and less often.
// Run ends with an error that wraps ErrLost when the
// lease was lost while the work ran, and else with what the work returned.
//
// # Debugging
//
// Status says who leads and since when. Check is for a health endpoint: it fails
// when the work still runs although another candidate may lead.
package leaderelection
