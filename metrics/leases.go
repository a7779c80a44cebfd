package metrics

import (
	"math"

	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/shard/membership"
)

// ElectionSource is whose election is exported; *leaderelection.Elector is one.
type ElectionSource interface {
	Status() leaderelection.Status
}

// Elections exports an election. Each metric has the label name, which is that
// of the Lease.
//
//   - leader_election_master_status: 1 while our work runs
//   - millrace_leader_election_token: the count of the lease's terms
//   - millrace_leader_election_failing_attempts: failures in a row, 0 when all
//     is well
type Elections struct{ single[leaderelection.Status] }

// NewElections returns a collector to be registered.
func NewElections(source ElectionSource) *Elections {
	type s = leaderelection.Status
	return &Elections{single[s]{
		status: source.Status,
		name:   func(e s) string { return e.Lease.Name },
		figures: []metric[s]{
			gauge("leader_election_master_status", "1 while this process leads.", "name", func(e s) float64 { return truth(e.Leading) }),
			gauge("millrace_leader_election_token", "The fencing token of the holder's term.", "name", func(e s) float64 { return float64(e.Token) }),
			gauge("millrace_leader_election_failing_attempts", "Failures in a row, 0 when all is well.", "name", func(e s) float64 { return float64(e.Attempts) }),
		},
	}}
}

// MembershipSource is what is exported of a group that shares work; *membership.Group is
// one.
type MembershipSource interface {
	Status() membership.Status
}

// Memberships exports a group of processes that share work, as this member sees it. Each
// metric has the label group.
//
//   - millrace_shard_members: processes that have a Lease, this one included
//   - millrace_shard_slots_owned: what this process may work on
//   - millrace_shard_slots_wanted: what is to be its
//   - millrace_shard_slots_leaving: what it has yet to hand over, since work in it goes on
//   - millrace_shard_slots_orphaned: what nobody has, of the whole group
//   - millrace_shard_slots_moving: what is another's than whose it is to be, of the whole group
//   - millrace_shard_refused: 1 while this process takes no part; the status says why
//   - millrace_shard_failing_attempts: failures in a row, 0 when all is well
//
// What this process knows of the others only is left out until it has seen them, and of a member
// that is cut off it is what was seen last.
type Memberships struct{ single[membership.Status] }

// NewMemberships returns a collector to be registered.
func NewMemberships(source MembershipSource) *Memberships {
	type s = membership.Status
	figure := func(name, help string, value func(s) float64) metric[s] { return gauge(name, help, "group", value) }
	seen := func(g s, n int) float64 {
		if g.Seen.IsZero() {
			return math.NaN()
		}
		return float64(n)
	}
	return &Memberships{single[s]{
		status: source.Status,
		name:   func(g s) string { return g.Group },
		figures: []metric[s]{
			figure("millrace_shard_members", "Processes that have a Lease in the group.", func(g s) float64 { return seen(g, len(g.Members)) }),
			figure("millrace_shard_slots_owned", "Slots that this process may work on.", func(g s) float64 { return float64(g.Owned.Len()) }),
			figure("millrace_shard_slots_wanted", "Slots that are to be this process's.", func(g s) float64 { return seen(g, g.Wanted.Len()) }),
			figure("millrace_shard_slots_leaving", "Slots that this process has yet to hand over.", func(g s) float64 { return float64(g.Leaving.Len()) }),
			figure("millrace_shard_slots_orphaned", "Slots of the group that nobody has.", func(g s) float64 { return seen(g, g.Orphans.Len()) }),
			figure("millrace_shard_slots_moving", "Slots of the group that are another's than whose they are to be.", func(g s) float64 { return seen(g, g.Moving.Len()) }),
			figure("millrace_shard_refused", "1 while this process takes no part in the group.", func(g s) float64 { return truth(g.Refusal != nil) }),
			figure("millrace_shard_failing_attempts", "Failures in a row, 0 when all is well.", func(g s) float64 { return float64(g.Attempts) }),
		},
	}}
}
