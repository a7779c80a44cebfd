/*
Package membership assigns the slots of package shard to the members of a group. Each member has a
Lease (coordination.k8s.io/v1). Nothing else is needed: no coordinator, no webhook, and no labels on
objects.

# Usage

	group, err := membership.New(client, membership.Options{Namespace: "shop", Name: "carts", Layout: "carts by uid"})
	go group.Run(ctx)

	// To work on an object:
	working, leave, err := group.Enter(ctx, key.Hash(object))
	if errors.Is(err, shard.ErrNotOurs) {
		return nil // another member handles it
	}
	defer leave()
	... // the work, until working is done

# Guarantees

  - At most one member works in a slot at any time (S01), provided that work in a lost slot ends
    within LeaseDuration - RenewDeadline (5 s by default) after its context is canceled, that no
    process is suspended for longer than that, that the members' clocks run at about the same speed,
    that no other client deletes a working member's Lease or removes its claims, and that no backup of
    the server's data is restored. If you cannot rely on this, let the guarded resource check the token
    (see below). At most one member works on an object only if, in addition, all members with the same
    Options.Layout use the same key, and the object's key never changes.
  - A slot is handed over once the work in it has ended: no new work starts, and running work has
    Options.Patience to finish before its context is canceled.
  - If the members do not change, every slot has an owner (S02): within one second after a member
    has left, or two seconds after a dead member's Lease has expired.
  - Work is canceled RenewDeadline after the last renewal was sent, and others wait LeaseDuration
    from when they saw it, by their own clocks. The difference is how much time the work has to stop.
    Times from different machines are never compared.
  - Each term of a slot has a greater epoch than earlier ones (shard.TokenOf), so that a guarded
    resource can reject requests from earlier owners. If the server's data is restored from a backup,
    epochs go back with it, and the resource must then forget the greatest one.
  - If one of n members leaves or another one joins, about 1/n of the slots move, and with 1024
    slots up to 3 % more, as simulated for up to 50 members. No member exceeds its share by more
    than 10 %.

As with leader election, a suspended process does not notice the loss until it wakes up. If another client
deletes a working member's Lease or removes its claims, or a backup is restored, a member that starts at
that point may get its slots, and the first member keeps working until its next renewal.

# Concurrency

All methods are safe for concurrent use, but only one Run may be active at a time. Run has a
goroutine that enforces the deadline, the goroutines of an informer for the group's Leases, and two
per request in progress. A transport or logger that blocks does not delay the deadline.

# Failure

Run does not fail because of server errors. It retries, and reports them in Status and in the log.
Status.Refusal explains why a member does not participate: its options differ from those of working
members, it lacks permissions for Leases, an admission policy changes its Lease, or something else has
the group's label or its name.

The process needs the verbs create, delete, get, list, update and watch on leases in the group's
namespace.
*/
package membership
