package membership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
)

// keeper keeps our Lease and decides on slots. All of it belongs to the goroutine of Run.
//
// Whenever anything has changed it looks at a snapshot of all Leases:
//
//  1. From the members that live follows who is to have which slot (assign).
//  2. What is ours to have, and nobody else's Lease claims, it claims in our Lease.
//  3. What a snapshot shows as claimed by us, and by nobody else, it holds. Of two members
//     who claim a slot, at least one sees the other, since a snapshot is one moment of all
//     Leases. So no two hold it.
//  4. What it holds and is to be another's it lets go: nothing begins in it any more, and
//     when the last work in it has ended the claim is taken out of our Lease.
//  5. From the Lease of a member that was silent for as long as it said itself it takes the
//     claims, and then it deletes it, if it is still as it was: a renewal that was under way
//     fails then. By that time the
//     member has ended its work, since it counts from an earlier moment, and less.
//
// If the snapshots do not show that it has renewed its own Lease, they show nothing of the
// others either: the watch is opened again.
type keeper struct {
	*Group
	ours     map[types.UID]bool // Leases that were ours in this run
	requests *sync.WaitGroup
	answers  chan answer
	writes   int // of our Lease, under way
	expels   int // deletions of others' Leases, under way

	own      *coordinationv1.Lease // as we know it; nil while there is none
	fresh    *coordinationv1.Lease // the one to be made; nil while there is one
	sure     shard.Slots           // what it claims, whichever of the writes under way were done
	attempt  *attempt              // the write that is under way, or nil
	due      time.Time             // of the next renewal
	deadline time.Time             // as Group.until
	rest     time.Time             // before which nothing is written
	shown    string                // the resource version of our Lease in the last view
	unseen   time.Time             // when it was first renewed after that; zero if it was not
	leaving  bool
	given    time.Time // when the last attempt to leave is given up; zero before that
	done     bool

	expelling map[types.UID]time.Time // when to look after an expired member

	targets struct { // the last assignment
		all    []candidate            // of which it was made
		owners []string               // by slot; empty for nobody
		slots  map[string]shard.Slots // by member
	}
}

// keep runs until ctx is done and the member has left.
func (k *keeper) keep(ctx, beyond context.Context) {
	k.sure, k.expelling = shard.NewSlots(k.opts.Slots), map[types.UID]time.Time{}
	defer k.finish()
	given := ctx.Done()
	timer := time.NewTimer(time.Until(k.step(beyond)))
	defer timer.Stop()
	for !k.done {
		select {
		case a := <-k.answers:
			k.answered(a)
		case <-k.wake:
		case <-timer.C:
		case <-given:
			k.leaving, given = true, nil
			k.opts.Logger.Info("leaving the group", "identity", k.opts.Identity)
		}
		timer.Reset(time.Until(k.step(beyond)))
	}
}

// finish leaves nothing that could be worked on.
func (k *keeper) finish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = time.Time{}
	k.loseAll(fmt.Errorf("%w: the member has left", shard.ErrLost))
	for n := range k.slots {
		k.slots[n].phase = none
	}
}

// step does what there is to do now, and returns when to look again if nothing happens.
func (k *keeper) step(ctx context.Context) time.Time {
	now := time.Now()
	v, synced := k.view(now)
	// A snapshot that does not show our own last renewal says nothing of the renewals of others.
	if synced && (k.own == nil && k.hears() || k.current(now, v)) {
		k.judge(now, v)
		k.expel(ctx, now, v)
	}
	k.checkWatch(now, v)
	next := k.decide(now, v, synced)
	k.write(ctx, now, synced)
	times := append([]time.Time{k.due, k.rest, k.given, v.expires}, slices.Collect(maps.Values(k.expelling))...)
	if k.attempt != nil {
		times = append(times, k.attempt.given)
	}
	for _, at := range times {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	return next
}

// view looks at the Leases. It reports false before they have been listed.
func (k *keeper) view(now time.Time) (view, bool) {
	if !k.informer.HasSynced() {
		return view{taken: shard.AllSlots(k.opts.Slots)}, false
	}
	objects, _ := k.informer.Cache().Snapshot()
	return k.seen.look(now, slices.Collect(objects), k.ours), true
}

// current reports whether a view shows our Lease as it was last renewed, not long ago. Then
// what it shows of others is no older than what we know of ourselves.
func (k *keeper) current(now time.Time, v view) bool {
	return k.own != nil && v.own != nil && v.own.ResourceVersion == k.own.ResourceVersion && now.Before(k.deadline)
}

// checkWatch has the watch be opened again if it has not shown for long that we have renewed
// our Lease. Where the connection is half open, nothing else tells.
func (k *keeper) checkWatch(now time.Time, v view) {
	var shown string
	if v.own != nil {
		shown = v.own.ResourceVersion
	}
	if k.own == nil || shown == k.own.ResourceVersion || shown != k.shown {
		k.unseen = time.Time{}
	}
	k.shown = shown
	if silent := now.Sub(k.unseen); !k.unseen.IsZero() && silent >= k.opts.RenewDeadline {
		k.informer.Reconnect(fmt.Errorf("%w: our lease was renewed %s ago", reflector.ErrDeaf, silent.Round(time.Second)))
		k.unseen = time.Time{}
	}
}

// hears reports whether there seems to be a watch: who has no Lease has no renewal to see.
func (k *keeper) hears() bool {
	s := k.informer.Status().Reflector
	return s.State == reflector.Watching && s.Attempts == 0
}

// judge says whether this member may take part, and who is to have what.
func (k *keeper) judge(now time.Time, v view) {
	var refusal error
	var all []candidate
	owned, _ := k.Owned()
	idle := owned.Len() == 0
	if k.own != nil && !k.leaving {
		all = append(all, candidate{k.opts.Identity, k.opts.Weight})
	}
	for _, other := range v.others {
		switch {
		case other.expired(now) || other.said.leaving:
		case other.said.err != nil: // it claims everything until it has run out
			if idle && refusal == nil {
				refusal = fmt.Errorf("shard: group %s: the Lease %s has the label of the group and cannot be read, so that it may claim anything: %w: no slots are taken until it is silent for %s; delete it if it is no member's", k.opts.Name, other.Lease.Name, other.said.err, other.said.lasts)
			}
		case other.said.layout != k.opts.layout():
			if k.own == nil || idle && (other.said.claims.Len() > 0 || older(other.Lease, k.own)) {
				refusal = fmt.Errorf("shard: group %s: %q works with %q, and we are to work with %q: nothing is done here until no such member is left; give the group another name, or all members the same options", k.opts.Name, lease.Holder(other.Lease), other.said.layout, k.opts.layout())
			}
		default:
			all = append(all, candidate{lease.Holder(other.Lease), other.said.weight})
		}
	}
	k.retarget(all)
	members, orphans := k.members(now, v), shard.AllSlots(k.opts.Slots)
	for _, m := range members {
		orphans = orphans.Without(m.Claims)
	}
	places := k.place(now, members)
	k.mu.Lock()
	told := refusal != nil && (k.refused == nil || k.refused.Error() != refusal.Error())
	k.refused = refusal
	k.status.Members, k.status.Orphans, k.status.Wanted = members, orphans, k.wanted(k.opts.Identity)
	k.places, k.status.Seen = places, now
	k.mu.Unlock()
	if told {
		k.opts.Logger.Error("this member takes no part", "err", refusal)
	}
}

func older(a, b *coordinationv1.Lease) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// retarget assigns the slots anew if the members have changed.
func (k *keeper) retarget(all []candidate) {
	all = distinct(all)
	if k.targets.owners == nil || !slices.Equal(k.targets.all, all) {
		k.targets.all = all
		k.targets.owners, k.targets.slots = targets(k.opts.Slots, all)
	}
}

// wanted returns what is to be a member's.
func (k *keeper) wanted(identity string) shard.Slots {
	return k.targets.slots[identity].Union(shard.NewSlots(k.opts.Slots))
}

// decide changes the phases of slots, as steps 2 to 4 of keeper say. It returns when some
// patience ends.
func (k *keeper) decide(now time.Time, v view, synced bool) time.Time {
	next := now.Add(time.Hour)
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := k.wanted(k.opts.Identity)
	current := synced && k.current(now, v)
	var epoch uint64 // less than that of an earlier term only where the server's history went back
	if current {
		epoch, _ = strconv.ParseUint(k.own.ResourceVersion, 10, 64)
	}
	for n := range k.slots {
		s := &k.slots[n]
		want := wanted.Has(n) && k.refused == nil && k.own != nil && !k.leaving
		switch s.phase {
		case none:
			if want && synced && !v.taken.Has(n) {
				s.phase = claimed
			}
		case claimed:
			switch {
			case !want && s.hands > 0: // of a term that was lost
				s.phase, s.since = leaving, now
			case !want:
				s.phase = none
			case current && k.sure.Has(n) && !v.taken.Has(n) && s.hands == 0 && epoch != s.token.Epoch: // else after the next renewal
				s.hold(shard.Token{Slot: n, Epoch: epoch})
			}
		case held:
			if !want {
				s.phase, s.since = leaving, now
			}
		}
		if s.phase != leaving {
			continue
		}
		ends := s.since.Add(k.opts.Patience)
		switch {
		case s.hands == 0:
			s.lose(shard.ErrMoved)
			s.phase = none
		case !ends.After(now):
			s.lose(shard.ErrMoved)
		case ends.Before(next):
			next = ends
		}
	}
	k.setOwned()
	return next
}

// write brings our Lease up to what we have to say, renews it, or deletes it.
func (k *keeper) write(ctx context.Context, now time.Time, synced bool) {
	if k.leaving && !k.given.IsZero() && !now.Before(k.given) {
		k.opts.Logger.Warn("our lease could not be given back; others have to wait until it has run out")
		k.done = true
		return
	}
	if k.attempt != nil && now.Before(k.attempt.given) || now.Before(k.rest) || k.writes >= lease.MaxRequests {
		return
	}
	if k.attempt != nil {
		k.trouble.Failed("our lease could not be written", lease.ErrDeaf)
		k.attempt.abandoned.Store(true)
		k.attempt = nil
	}
	last := statement{claims: shard.NewSlots(k.opts.Slots)}
	if k.own != nil {
		last = k.opts.read(k.own).statement
	}
	k.mu.Lock()
	next, idle := statement{claims: k.claims(), leaving: k.leaving}, true
	for n := range k.slots {
		idle = idle && k.slots[n].hands == 0
	}
	k.mu.Unlock()
	empty := idle && next.claims.Len() == 0
	if k.leaving && empty && k.given.IsZero() {
		k.given = now.Add(k.opts.RenewDeadline / 3)
	}
	switch {
	case k.own == nil && k.leaving:
		k.done = idle
	case k.own == nil && synced && !now.Before(k.due):
		if k.fresh == nil {
			k.fresh = k.opts.fresh(next)
		}
		k.begin(ctx, next, k.create)
	case k.own == nil:
	case k.leaving && empty && last.leaving && last.claims.Len() == 0:
		k.begin(ctx, next, k.remove)
	case !now.Before(k.due) || !last.claims.Equal(next.claims) || last.leaving != next.leaving:
		k.begin(ctx, next, k.update)
	}
}
