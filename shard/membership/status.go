package membership

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/shard"
)

// Status is a group seen from one member at one moment.
type Status struct {
	Namespace string // of the Leases
	Group     string
	Identity  string // ours
	Weight    int    // ours
	Slots     int    // how many the group has
	Layout    string // what else all members must have alike

	Owned   shard.Slots // what we may work on
	Wanted  shard.Slots // what is to be ours
	Leaving shard.Slots // what we have yet to hand over, since work in it goes on

	// What is said of the group is of when it was last seen: a member that is cut off knows
	// nothing of the others. Zero is never.
	Seen    time.Time
	Members []Member    // all that have a Lease, we among them, by identity
	Orphans shard.Slots // what nobody claims
	Moving  shard.Slots // what is another's than whose it is to be
	Moves   []Move      // the same, by members

	Refusal error    // why we take no part; nil if we do
	Lost    *Failure // why our Lease was lost the last time; nil if it never was

	Attempts int      // failures since the last success, of renewals or of the watch; 0 means that all is well
	Failure  *Failure // the last one ever, nil if there was none
}

// Member is what the Lease of one member says.
type Member struct {
	Identity string
	Lease    string // its name
	Layout   string // with the number of slots
	Weight   int
	Claims   shard.Slots // what it has, or is about to have
	Wanted   int         // how many slots are to be its
	Leaving  bool
	Silent   time.Duration // since its last sign of life
	Late     bool          // it has been silent for a third of the time for which it may be, as none is that lives
	Expired  bool          // it has been silent for too long
	Trouble  string        // why it takes no part, empty if it does
}

// Failure is trouble with the server.
type Failure = lease.Failure

// Status returns the group as it is now.
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

// refusal says why this member takes no part. It is called under mu.
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
		return trouble("this member does not run")
	case unsynced != nil && s.Attempts == 0:
		return fmt.Errorf("shard: group %s: the Leases of the group are not known yet: %w", g.opts.Name, unsynced)
	case unsynced != nil:
		return trouble("the Leases of the group are not known yet")
	case !time.Now().Before(g.until):
		return trouble("this member has no valid Lease")
	case s.Owned.Len() == 0 && time.Since(s.Seen) >= g.opts.RenewDeadline:
		return trouble("the watch of the Leases does not show that ours was renewed, and so nothing of the others: no slots are taken until it does")
	}
	return nil
}

// late is the part of the time for which a member may be silent after which it is late. By default
// that is 5 s, in which a member renews its Lease twice.
const late = 3

// members describes everybody who has a Lease, and us.
func (k *keeper) members(now time.Time, v view) []Member {
	var all []Member
	if k.own != nil {
		silent := now.Sub(k.due.Add(-k.opts.RetryPeriod))
		k.mu.Lock()
		all = append(all, Member{Identity: k.opts.Identity, Lease: k.own.Name, Layout: k.opts.layout(), Weight: k.opts.Weight, Claims: k.claims(), Leaving: k.leaving, Silent: silent, Late: silent >= k.opts.LeaseDuration/late})
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

// member describes one by its Lease.
func (o Options) member(l *coordinationv1.Lease, s said, silent time.Duration) Member {
	m := Member{
		Identity: lease.Holder(l), Lease: l.Name, Layout: s.layout, Weight: s.weight, Claims: s.claims, Leaving: s.leaving,
		Silent: silent, Late: silent >= s.lasts/late, Expired: silent >= s.lasts,
	}
	switch {
	case s.err != nil:
		m.Trouble = fmt.Sprintf("its Lease %s cannot be read: %v", l.Name, s.err)
	case s.layout != o.layout():
		m.Trouble = fmt.Sprintf("it works with %q, and the others with %q", s.layout, o.layout())
	}
	return m
}
