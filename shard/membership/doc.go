/*
Package membership assigns the slots of package shard to the members of a group. Each member
has a Lease (coordination.k8s.io/v1). Members need nothing else: no coordinator, no webhook, and no
labels on objects.

# Usage

	group, err := membership.New(client, membership.Options{Namespace: "shop", Name: "carts", Layout: "carts by uid"})
	go group.Run(ctx)

	// To work on an object:
	working, leave, err := group.Enter(ctx, key.Hash(object))
	if errors.Is(err, shard.ErrNotOurs) {
		return nil // another member does it
	}
	defer leave()
	... // the work, until working is done

# Guarantees

  - At most one member works in a slot at any time (S01). A slot is handed over when the work in
    it has ended: no new work starts, and running work has Options.Patience to end before its
    context is done.
  - If the members do not change, every slot has an owner (S02), one second after a member has
    left, or two seconds after the Lease of a dead member has expired.
  - Work ends RenewDeadline after the last renewal was sent, and others wait LeaseDuration from
    when they saw it, by their own clocks. The difference is the time that the work has to stop.
    Times of different machines are never compared.
  - Each term of a slot has a greater epoch than earlier ones (shard.TokenOf), so a guarded
    resource can refuse requests of an earlier owner. If the server's data is restored from a
    backup, epochs go back with it, and the resource must then forget the greatest one.
  - If one of n members leaves or another one joins, about one n-th of the slots move, and with
    1024 slots up to three percent more, as simulated for up to 50 members. No member has more
    than a tenth above its share.

As with leader election, a suspended process notices only when it wakes up, and work may ignore its
context. The token protects against this. Also, if the Lease of a working member is deleted, or a
backup is restored while it works, a member that starts just then may get its slots, and the first
member keeps working until its next renewal.

# Concurrency

All methods may be called from any goroutine, but only one Run may be active at a time. Run has a
goroutine that watches the deadline, the goroutines of an informer of the group's Leases, and one for
each request in progress.
A transport or a logger that blocks does not delay the deadline.

# Failure

Errors from the server do not make Run fail. It retries, and reports them in Status and in the log.
Status.Refusal says why a member takes no part: its options differ from those of working members, it
lacks permission for Leases, or something else has the group's label or its name.

The process needs the verbs create, delete, get, list, update and watch on leases in the
group's namespace.
*/
package membership
