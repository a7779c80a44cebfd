package membership

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/shard"
)

// Status is a snapshot of a group as seen by one member.
type Status struct {
	Namespace string // the Leases' namespace
	Group     string
	Identity  string // ours
	Weight    int    // ours
	Slots     int    // number of slots in the group
	Layout    string // other settings that all members must share

	Owned   shard.Slots // slots that this member may work in
	Wanted  shard.Slots // slots assigned to this member
	Leaving shard.Slots // slots that this member will hand over once the work in them ends

	// Seen is when the group's Leases were last read; zero means never. While this member is disconnected
	// from the server, the fields below may be outdated.
	Seen    time.Time
	Members []Member    // all members with a Lease, including this one, sorted by identity
	Orphans shard.Slots // slots that no member claims
	Moving  shard.Slots // slots that are about to move to another member
	Moves   []Move      // the slots in Moving, grouped by old and new owner

	Refusal error    // why this member does not participate; nil if it does
	Lost    *Failure // why this member last lost its Lease; nil if it never has

	Attempts int      // number of failed renewals or watches since the last success
	Failure  *Failure // the last failure; nil if there was none
}

// Member is the content of a member's Lease.
type Member struct {
	Identity string
	Lease    string // its name
	Layout   string // includes the number of slots
	Weight   int
	Claims   shard.Slots // slots that the member owns or is about to take
	Wanted   int         // number of slots assigned to the member
	Leaving  bool
	Deaf     bool          // its watch delivers nothing, so it keeps its slots but takes no others
	Silent   time.Duration // time since the last renewal
	Late     bool          // silent for a third of the permitted time, which does not happen to a healthy member
	Expired  bool          // silent for too long
	Trouble  string        // why the member does not participate; empty if it does
}

// Failure describes a failed request to the server.
type Failure = lease.Failure

// Status returns a snapshot of the group.
func (g *Group) Status() Status {
	watch := g.informer.Status().Reflector
	unsynced := g.informer.Unsynced()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Attempts, s.Failure = g.trouble.State()
	s.Owned, s.Leaving = g.those(func(s *slot) bool { return s.phase == held }), g.those(func(s *slot) bool { return s.phase == leaving })
	s.Moving, s.Moves = movesOf(g.places, func(slot int) int { return g.slots[slot].hands })
	if f := watch.Failure; f != nil && (watch.Attempts > s.Attempts || s.Attempts == 0 && (s.Failure == nil || f.Last.After(s.Failure.When))) {
		s.Attempts, s.Failure = watch.Attempts, &Failure{Err: f, When: f.Last}
	}
	s.Refusal = g.refusal(s, unsynced)
	return s
}

// refusal returns an error explaining why this member does not participate, or nil if it does. The
// caller holds mu.
func (g *Group) refusal(s Status, unsynced error) error {
	trouble := func(what string) error {
		if s.Attempts == 0 || s.Failure == nil {
			return fmt.Errorf("shard: group %s: %s", g.opts.Name, what)
		}
		return fmt.Errorf("shard: group %s: %s: %w", g.opts.Name, what, s.Failure)
	}
	switch {
	case g.refused != nil:
		return g.refused
	case !g.running:
		return trouble("this member is not running")
	case unsynced != nil && s.Attempts == 0:
		return fmt.Errorf("shard: group %s: the group's Leases are not known yet: %w", g.opts.Name, unsynced)
	case unsynced != nil:
		return trouble("the group's Leases are not known yet")
	case !time.Now().Before(g.until):
		return trouble("this member has no valid Lease")
	case s.Owned.Len() == 0 && time.Since(s.Seen) >= g.opts.RenewDeadline:
		return trouble("the watch does not show renewals of our own Lease, so it may be missing those of others: no slots are taken until it does")
	}
	return nil
}

// A member is late once it has been silent for 1/late of the permitted time. By default that is 5 s, which is
// enough for two renewals.
const late = 3

// members describes all members with a Lease, including this one.
func (k *keeper) members(now time.Time, v view) []Member {
	var all []Member
	if k.own != nil {
		silent := now.Sub(k.due.Add(-k.opts.RetryPeriod))
		k.mu.Lock()
		all = append(all, Member{Identity: k.opts.Identity, Lease: k.own.Name, Layout: k.opts.layout(), Weight: k.opts.Weight, Claims: k.claims(), Leaving: k.leaving, Deaf: k.deaf, Silent: silent, Late: silent >= k.opts.LeaseDuration/late})
		k.mu.Unlock()
	}
	for _, o := range v.others {
		all = append(all, k.opts.member(o.Lease, o.said, now.Sub(o.Since)))
	}
	for n := range all {
		all[n].Wanted = k.wanted(all[n].Identity).Len()
	}
	return all
}

// member describes a member based on its Lease.
func (o Options) member(l *coordinationv1.Lease, s said, silent time.Duration) Member {
	m := Member{
		Identity: lease.Holder(l), Lease: l.Name, Layout: s.layout, Weight: s.weight, Claims: s.claims, Leaving: s.leaving, Deaf: s.deaf,
		Silent: silent, Late: silent >= s.lasts/late, Expired: silent >= s.lasts,
	}
	switch {
	case s.err != nil:
		m.Trouble = fmt.Sprintf("its Lease %s cannot be read: %v", l.Name, s.err)
	case s.layout != o.layout():
		m.Trouble = fmt.Sprintf("it uses %q, but the others use %q", s.layout, o.layout())
	}
	return m
}
