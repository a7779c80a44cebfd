package debug

import (
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/shard/membership"
)

// Membership is a member's view of a group that shares work. It is implemented by *membership.Group.
type Membership interface {
	Status() membership.Status
	Slot(n int) membership.Holding
}

// Group describes a group of processes that share work, as seen by a member or from outside. Sets of slots
// are written like this: 0-3,7.
type Group struct {
	Namespace string // namespace of its Leases
	Name      string
	Identity  string // the reporting member; empty if seen from outside
	Slots     int    // number of slots in the group
	Layout    string // settings that all members must agree on
	Seen      time.Time
	Owned     string // slots this member works on; empty if seen from outside
	Wanted    string // slots assigned to this member
	Leaving   string // slots this member still has to hand over
	Orphans   string // slots claimed by no member
	Orphaned  int    // number of Orphans

	// Imbalance is by how much the most loaded member, relative to its weight, exceeds its fair share: 0.09
	// means 9%.
	Imbalance float64

	Members  []Member
	Moves    []Move
	Refusal  string // why this member does not participate; empty if it does or if seen from outside
	Attempts int    // failures since the last success
	Failure  string // last failure; empty if none
}

// Member describes one process in a group.
type Member struct {
	Identity string
	Lease    string // name of its Lease
	Layout   string // including the number of slots
	Weight   int
	Slots    string // slots it claims
	Has      int    // number of Slots
	Wants    int    // number of slots assigned to it
	Leaving  bool
	Deaf     bool          // its watch of the Leases delivers nothing
	Silent   time.Duration // since its last sign of life
	Late     bool          // has been silent for longer than a live member would be
	Expired  bool          // has been silent for so long that its Lease has expired
	Trouble  string        // why it does not participate; empty if it does
}

// Move is a set of slots to be handed over from one member to another.
type Move struct {
	Slots  string
	Count  int
	From   string
	To     string        // empty if no member will take them
	Waited time.Duration // since it was first seen; 0 if unknown
	Hands  int           // amount of unfinished work in the slots, if this member owns them
}

// GroupOf converts a status.
func GroupOf(s membership.Status) Group {
	g := Group{
		Namespace: s.Namespace, Name: s.Group, Identity: s.Identity, Slots: s.Slots, Layout: s.Layout, Seen: s.Seen,
		Owned: s.Owned.String(), Wanted: s.Wanted.String(), Leaving: s.Leaving.String(),
		Orphans: s.Orphans.String(), Orphaned: s.Orphans.Len(), Attempts: s.Attempts,
	}
	if s.Refusal != nil {
		g.Refusal = s.Refusal.Error()
	}
	if s.Failure != nil {
		g.Failure = s.Failure.Error()
	}
	weights := 0
	for _, m := range s.Members {
		if m.Trouble == "" && !m.Expired && !m.Leaving && !m.Deaf {
			weights += m.Weight
		}
	}
	for _, m := range s.Members {
		one := Member{
			Identity: m.Identity, Lease: m.Lease, Layout: m.Layout, Weight: m.Weight, Slots: m.Claims.String(),
			Has: m.Claims.Len(), Wants: m.Wanted, Leaving: m.Leaving, Deaf: m.Deaf, Silent: m.Silent, Late: m.Late, Expired: m.Expired, Trouble: m.Trouble,
		}
		if m.Trouble != "" { // package membership treats it as claiming every slot
			one.Slots, one.Has = "", 0
		} else if part := float64(s.Slots*m.Weight) / float64(max(weights, 1)); part > 0 {
			g.Imbalance = max(g.Imbalance, float64(one.Has)/part-1)
		}
		g.Members = append(g.Members, one)
	}
	for _, m := range s.Moves {
		one := Move{Slots: m.Slots.String(), Count: m.Slots.Len(), From: m.From, To: m.To, Hands: m.Hands}
		if !m.Since.IsZero() {
			one.Waited = time.Since(m.Since)
		}
		g.Moves = append(g.Moves, one)
	}
	return g
}

// groups returns the status of all groups. If a group's Status method panics, the group's failure reports the
// panic.
func (p *Process) groups() (all []Group) {
	for _, m := range p.opts.memberships() {
		var g Group
		err := failure.Apart("the status of a group", func() error {
			g = GroupOf(m.Status())
			return nil
		})
		if err != nil {
			g = Group{Refusal: err.Error()}
		}
		all = append(all, g)
	}
	return all
}

func (o *Options) memberships() []Membership {
	if o.Groups == nil {
		return nil
	}
	return o.Groups()
}
