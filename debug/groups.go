package debug

import (
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/shard/membership"
)

// Membership is a group that shares work, as a member sees it; *membership.Group is one.
type Membership interface {
	Status() membership.Status
	Slot(n int) membership.Holding
}

// Group is a group of processes that share work, from one member or from outside. Sets of
// slots are written as in 0-3,7.
type Group struct {
	Namespace string // of its Leases
	Name      string
	Identity  string // of the member that says so; empty for one who is none
	Slots     int    // how many the group has
	Layout    string // what else is the same in all members
	Seen      time.Time
	Owned     string // slots that this member works on; empty from outside
	Wanted    string // those that are to be its
	Leaving   string // those that it has yet to hand over
	Orphans   string // slots that nobody claims
	Orphaned  int    // how many they are

	// Imbalance is by how much the member that has most for its weight has more than its
	// part: 0.09 is 9 % more.
	Imbalance float64

	Members  []Member
	Moves    []Move
	Refusal  string // why this member takes no part; empty if it does, and from outside
	Attempts int    // failures since the last success
	Failure  string // the last one; empty if there was none
}

// Member is one process of a group.
type Member struct {
	Identity string
	Lease    string // its name
	Layout   string // with the number of slots
	Weight   int
	Slots    string // what it claims
	Has      int    // how many they are
	Wants    int    // how many are to be its
	Leaving  bool
	Silent   time.Duration // since its last sign of life
	Late     bool          // it has been silent for longer than a member is that lives
	Expired  bool          // it has been silent for too long
	Trouble  string        // why it takes no part; empty if it does
}

// Move is slots that are to go from one member to another.
type Move struct {
	Slots  string
	Count  int
	From   string
	To     string        // empty where nobody is to have them
	Waited time.Duration // since it was seen; 0 where nobody watched
	Hands  int           // pieces of work in them that have not ended, where this member has them
}

// GroupOf is what a status says.
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
		if m.Trouble == "" && !m.Expired && !m.Leaving {
			weights += m.Weight
		}
	}
	for _, m := range s.Members {
		one := Member{
			Identity: m.Identity, Lease: m.Lease, Layout: m.Layout, Weight: m.Weight, Slots: m.Claims.String(),
			Has: m.Claims.Len(), Wants: m.Wanted, Leaving: m.Leaving, Silent: m.Silent, Late: m.Late, Expired: m.Expired, Trouble: m.Trouble,
		}
		if m.Trouble != "" { // whatever it claims counts as all
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

// groups are all at one moment. One that fails says so.
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
