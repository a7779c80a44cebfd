package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/shard/membership"
)

// ElectionSource provides the election to export; *leaderelection.Elector implements
// it.
type ElectionSource interface {
	Status() leaderelection.Status
}

// Elections exports an election. Every metric has the label name, which is the Lease's name.
//
//   - leader_election_master_status: 1 while this process is the leader
//   - millrace_leader_election_token: the Lease's term number
//   - millrace_leader_election_failing_attempts: consecutive failures, 0 if healthy
type Elections struct{ single[leaderelection.Status] }

// NewElections returns a collector for registration.
func NewElections(source ElectionSource) *Elections {
	type s = leaderelection.Status
	lease := prometheus.Labels{"name": text(source.Status().Lease.Name)}
	figure := func(name, help string, value func(s) float64) metric[s] { return gauge(name, help, lease, value) }
	return &Elections{single[s]{
		status: source.Status,
		figures: []metric[s]{
			figure("leader_election_master_status", "1 while this process is the leader.", func(e s) float64 { return truth(e.Leading) }),
			figure("millrace_leader_election_token", "The fencing token of the holder's term.", func(e s) float64 { return float64(e.Token) }),
			figure("millrace_leader_election_failing_attempts", "Consecutive failures, 0 if healthy.", func(e s) float64 { return float64(e.Attempts) }),
		},
	}}
}

// MembershipSource provides the group to export; *membership.Group implements it.
type MembershipSource interface {
	Status() membership.Status
}

// Memberships exports a group of processes sharing work, as seen by this member. Every metric has the label
// group.
//
//   - millrace_shard_members: processes with a Lease, including this one
//   - millrace_shard_slots_owned: slots this process may work on
//   - millrace_shard_slots_wanted: slots assigned to this process
//   - millrace_shard_slots_leaving: slots this process has yet to hand over because work in them is in
//     progress
//   - millrace_shard_slots_orphaned: slots that no member of the group owns
//   - millrace_shard_slots_moving: slots, across the group, that their assigned owner has not taken over yet
//   - millrace_shard_refused: 1 while this process is not participating; the status gives the reason
//   - millrace_shard_failing_attempts: consecutive failures, 0 if healthy
//
// Values that concern other members are missing until this process has seen those members, and are stale
// while it is cut off from the API server.
type Memberships struct{ single[membership.Status] }

// NewMemberships returns a collector for registration.
func NewMemberships(source MembershipSource) *Memberships {
	type s = membership.Status
	group := prometheus.Labels{"group": text(source.Status().Group)}
	figure := func(name, help string, value func(s) float64) metric[s] { return gauge(name, help, group, value) }
	seen := func(g s, n int) float64 {
		if g.Seen.IsZero() {
			return math.NaN()
		}
		return float64(n)
	}
	return &Memberships{single[s]{
		status: source.Status,
		figures: []metric[s]{
			figure("millrace_shard_members", "Processes that have a Lease in the group.", func(g s) float64 { return seen(g, len(g.Members)) }),
			figure("millrace_shard_slots_owned", "Slots this process may work on.", func(g s) float64 { return float64(g.Owned.Len()) }),
			figure("millrace_shard_slots_wanted", "Slots assigned to this process.", func(g s) float64 { return seen(g, g.Wanted.Len()) }),
			figure("millrace_shard_slots_leaving", "Slots this process has yet to hand over.", func(g s) float64 { return float64(g.Leaving.Len()) }),
			figure("millrace_shard_slots_orphaned", "Slots in the group without an owner.", func(g s) float64 { return seen(g, g.Orphans.Len()) }),
			figure("millrace_shard_slots_moving", "Slots in the group that have yet to move to their assigned member.", func(g s) float64 { return seen(g, g.Moving.Len()) }),
			figure("millrace_shard_refused", "1 while this process does not participate in the group.", func(g s) float64 { return truth(g.Refusal != nil) }),
			figure("millrace_shard_failing_attempts", "Consecutive failures, 0 if healthy.", func(g s) float64 { return float64(g.Attempts) }),
		},
	}}
}
