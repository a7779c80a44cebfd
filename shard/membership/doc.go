/*
Package membership decides who has what where many processes share work: each has some of
the slots of package shard. Members have a Lease each (coordination.k8s.io/v1), and nobody else is
needed: no coordinator, no webhook, no label on anybody's object.

# Usage

	group, err := membership.New(client, membership.Options{Namespace: "shop", Name: "carts", Layout: "carts by uid"})
	go group.Run(ctx)

	// For something to be done about an object:
	working, leave, err := group.Enter(ctx, key.Hash(object))
	if errors.Is(err, shard.ErrNotOurs) {
		return nil // another member does it
	}
	defer leave()
	... // the work, until working is done

# Guarantees

  - At any moment at most one member works in a slot (S01). A slot is handed over when the
    work in it has ended: nothing begins in it any more, what is in hand has
    Options.Patience to end, and then its context ends.
  - With members stable every slot has an owner (S02): a second after a member has left, and
    two seconds after the Lease of one that died has run out.
  - Work ends RenewDeadline after the last renewal was sent, and others wait LeaseDuration from
    when they saw it, by their own clocks. The difference is what the work has to stop. No
    times of different machines are compared.
  - Each term of a slot has a greater epoch than those before it (shard.TokenOf), so that a guarded
    resource can refuse what an earlier owner still sends. When the server's data was restored from a
    backup, epochs go back with it: then have the resource forget the greatest.
  - When one of n members leaves, or one more comes, about one n-th of the slots move, and of
    1024 slots three in a hundred more at most, as drawn for up to 50 members. Nobody has more than a
    tenth above its share.

A Lease promises no more here than in leader election: a process that was suspended notices
when it wakes up, and work may ignore its context. That is what the token is for. And who
deletes the Lease of a member that works, or restores a backup while it works, may give its slots
to one that starts just then: it works on until its next renewal.

# Concurrency

All methods may be called from any goroutine, but Run by one at a time. Run owns one goroutine
that watches the deadline, those of an informer of the group's Leases, and those of requests
under way. A transport or a logger that blocks does not put off the deadline.

# Failure

Trouble with the server is not an error of Run: it is tried again, and shows in Status and in
the log. Status.Refusal says why a member takes no part: its options do not go with those of
members that work, it has no right to Leases, or something else has the group's label or its name.

The process needs the verbs create, delete, get, list, update and watch on leases in the
group's namespace.
*/
package membership
