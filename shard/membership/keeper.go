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

// keeper maintains our Lease and decides which slots we take. It is used only by Run's goroutine.
//
// After every change, it evaluates a snapshot of all Leases:
//
//  1. Assign all slots to the live members (see assign).
//  2. In our Lease, claim the slots that are assigned to us and not claimed by any other Lease.
//  3. Hold the slots that a snapshot shows as claimed only by us. A snapshot shows all Leases at a single
//     point in time, so if two members claim a slot, at least one of them sees the other's claim. Therefore
//     two members never hold the same slot.
//  4. Release the slots that we hold but that are assigned to another member: start no new work in them,
//     and once all work in them has ended, remove the claims from our Lease.
//  5. Remove the claims from the Leases of members that have been silent for too long, and then delete
//     those Leases, on condition that they have not changed, so that a late renewal fails. By then, such a
//     member has stopped working, because its own timeout is shorter and started earlier.
//
// If snapshots do not show our own renewals, they may lack other members' renewals too, so the keeper
// reopens the watch. If that does not help, it says so in our Lease, and the other members take the free slots.
type keeper struct {
	*Group
	ours     map[types.UID]bool // UIDs of our Leases during this run
	requests *sync.WaitGroup
	answers  chan answer
	writes   int // number of writes to our Lease in progress
	expels   int // number of deletions of other Leases in progress

	own      *coordinationv1.Lease // last known state; nil if there is none
	fresh    *coordinationv1.Lease // the Lease to create; nil if it exists
	sure     shard.Slots           // slots claimed by the Lease whether or not pending writes succeed
	attempt  *attempt              // the pending write, or nil
	mute     bool                  // the last write got no response, so its connection may be dead
	due      time.Time             // when the next renewal is due
	deadline time.Time             // copy of Group.until
	rest     time.Time             // do not write before this time
	shown    string                // resource version of our Lease as of the last view
	unseen   time.Time             // time of our first renewal that the view did not show; zero if there is none
	deaf     bool                  // see statement
	missed   time.Time             // time since which the view has not shown our last renewal; zero if it does
	heard    string                // resource version of the last renewal that the view showed since we were deaf
	leaving  bool
	given    time.Time // when to abandon the last attempt to leave; zero before leaving
	done     bool

	expelling map[types.UID]time.Time // when to check on an expired member next

	targets struct { // the last assignment
		all    []candidate            // the candidates it was computed for
		owners []string               // by slot; empty if unassigned
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

// finish cancels all work.
func (k *keeper) finish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = time.Time{}
	k.loseAll(fmt.Errorf("%w: the member has left", shard.ErrLost))
	for n := range k.slots {
		k.slots[n].phase = none
	}
}

// step does everything that is due. It returns when to call it next, unless something happens before.
func (k *keeper) step(ctx context.Context) time.Time {
	now := time.Now()
	v, synced := k.view(now)
	k.noteHeard(now, v)
	// A snapshot that does not show our own last renewal may also lack renewals by others.
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

// view returns a view of the Leases, and false until they have been listed.
func (k *keeper) view(now time.Time) (view, bool) {
	if !k.informer.HasSynced() {
		return view{taken: shard.AllSlots(k.opts.Slots)}, false
	}
	objects, _ := k.informer.Cache().Snapshot()
	return k.seen.look(now, slices.Collect(objects), k.ours), true
}

// current reports whether a view shows our latest renewal and the deadline has not passed. If so, its view of
// the other members is as recent as our own state.
func (k *keeper) current(now time.Time, v view) bool {
	return k.own != nil && v.own != nil && v.own.ResourceVersion == k.own.ResourceVersion && now.Before(k.deadline)
}

// checkWatch reopens the watch if none of our renewals has shown up in it for a long time. There is no
// other way to detect a half-open connection.
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

// noteHeard decides whether we are deaf. One renewal does not show that the watch works, because a list shows it too.
func (k *keeper) noteHeard(now time.Time, v view) {
	switch {
	case k.own == nil:
		k.deaf, k.missed, k.heard = false, time.Time{}, ""
	case v.own != nil && v.own.ResourceVersion == k.own.ResourceVersion:
		if k.missed = (time.Time{}); k.deaf && k.heard != "" && k.heard != k.own.ResourceVersion {
			k.deaf = false
			k.opts.Logger.Info("the watch of the group's Leases works again")
		}
		k.heard = k.own.ResourceVersion
	case k.missed.IsZero():
		k.missed = now
	case now.Sub(k.missed) >= k.opts.RenewDeadline:
		if k.heard = ""; !k.deaf {
			k.deaf = true
			k.opts.Logger.Warn("the watch of the group's Leases does not show our renewals: taking no more slots until it does")
		}
	}
}

// hears reports whether the watch appears to be working. It is for members without a Lease, which cannot
// look for their own renewals.
func (k *keeper) hears() bool {
	s := k.informer.Status().Reflector
	return s.State == reflector.Watching && s.Attempts == 0
}

// judge decides whether this member may participate, and assigns the slots.
func (k *keeper) judge(now time.Time, v view) {
	var refusal error
	var all []candidate
	owned, _ := k.Owned()
	idle := owned.Len() == 0
	if k.own != nil && !k.leaving {
		all = append(all, candidate{k.opts.Identity, k.opts.Weight})
	}
	// If members with our layout are working, those with another layout wait, however old they are.
	established := slices.ContainsFunc(v.others, func(o *sighting) bool {
		return !o.expired(now) && o.said.err == nil && o.said.layout == k.opts.layout() && o.said.claims.Len() > 0
	})
	unreadable := slices.ContainsFunc(v.others, func(o *sighting) bool { return !o.expired(now) && !o.said.leaving && o.said.err != nil })
	for _, other := range v.others {
		switch {
		case other.expired(now) || other.said.leaving:
		case other.said.err != nil: // assume that it claims everything until it expires
			if idle && refusal == nil {
				refusal = fmt.Errorf("shard: group %s: the Lease %s has the group's label but cannot be read, so it may claim any slot: %w: no slots are taken until it has been silent for %s; delete it if it does not belong to a member", k.opts.Name, other.Lease.Name, other.said.err, other.said.lasts)
			}
		case other.said.layout != k.opts.layout():
			if k.own == nil && !established || idle && (other.said.claims.Len() > 0 || !established && older(other.Lease, k.own)) {
				refusal = fmt.Errorf("shard: group %s: %q uses %q, but this member uses %q and waits until the other has left; give the group a different name, or all members the same options", k.opts.Name, lease.Holder(other.Lease), other.said.layout, k.opts.layout())
			}
		case other.said.deaf, unreadable && other.said.claims.Len() == 0: // it takes no slots
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
		k.opts.Logger.Error("this member does not participate", "err", refusal)
	}
}

func older(a, b *coordinationv1.Lease) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// retarget recomputes the assignment if the members have changed.
func (k *keeper) retarget(all []candidate) {
	all = distinct(all)
	if k.targets.owners == nil || !slices.Equal(k.targets.all, all) {
		k.targets.all = all
		k.targets.owners, k.targets.slots = targets(k.opts.Slots, all)
	}
}

// wanted returns the slots assigned to a member.
func (k *keeper) wanted(identity string) shard.Slots {
	return k.targets.slots[identity].Union(shard.NewSlots(k.opts.Slots))
}

// decide updates the slots' phases according to steps 2 to 4 of keeper. It returns the next time at which a
// slot's patience expires.
func (k *keeper) decide(now time.Time, v view, synced bool) time.Time {
	next := now.Add(time.Hour)
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := k.wanted(k.opts.Identity)
	current, alone := synced && k.current(now, v), len(k.targets.all) < 2
	var epoch uint64 // lower than in an earlier term only if the server was restored to an older state
	if current {
		epoch, _ = strconv.ParseUint(k.own.ResourceVersion, 10, 64)
	}
	for n := range k.slots {
		s := &k.slots[n]
		want := wanted.Has(n) && k.refused == nil && k.own != nil && !k.leaving
		switch s.phase {
		case none:
			if want && synced && (!k.deaf || alone && current) && !v.taken.Has(n) {
				s.phase = claimed
			}
		case claimed:
			switch {
			case !want && s.hands > 0: // work from a lost term is still in progress
				s.phase, s.since = leaving, now
			case !want, k.deaf && !current && !alone && s.hands == 0: // others can take it
				s.phase = none
			case current && k.sure.Has(n) && !v.taken.Has(n) && s.hands == 0 && epoch != s.token.Epoch: // otherwise hold it after the next renewal
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

// write updates, renews or deletes our Lease.
func (k *keeper) write(ctx context.Context, now time.Time, synced bool) {
	if k.leaving && !k.given.IsZero() && !now.Before(k.given) {
		k.opts.Logger.Warn("our lease could not be released; others have to wait until it expires")
		k.done = true
		return
	}
	if k.attempt != nil && now.Before(k.attempt.given) || now.Before(k.rest) || k.writes >= lease.MaxRequests {
		return
	}
	if k.attempt != nil {
		k.trouble.Failed("our lease could not be written", lease.ErrDeaf)
		k.attempt.abandoned.Store(true)
		k.attempt, k.mute = nil, true
	}
	last := statement{claims: shard.NewSlots(k.opts.Slots)}
	if k.own != nil {
		last = k.opts.read(k.own).statement
	}
	k.mu.Lock()
	next, idle := statement{claims: k.claims(), leaving: k.leaving, deaf: k.deaf && !k.leaving}, true
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
	case !now.Before(k.due) || !last.claims.Equal(next.claims) || last.leaving != next.leaving || last.deaf != next.deaf:
		k.begin(ctx, next, k.update)
	}
}
