package metrics

import "github.com/millrace-dev/millrace/leaderelection"

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
