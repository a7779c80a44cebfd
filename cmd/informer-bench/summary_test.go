package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// entrantsOf returns the contestants of a job.
func entrantsOf(j scenario.Job) (all []entrant) {
	for _, name := range j.Contestants {
		all = append(all, entrant{name: name, contestant: name})
	}
	return all
}

func TestRatiosArePairwise(t *testing.T) {
	// The machine got ten times slower after the first round, for everyone.
	// Medians divided would be off; pairs are not.
	ours := []measures{{"wall_s": 1}, {"wall_s": 10}, {"wall_s": 12}}
	theirs := []measures{{"wall_s": 2}, {"wall_s": 20}, {"wall_s": 24}}
	require.Equal(t, map[string]results.Stat{"wall_s": {Min: 0.5, Median: 0.5, Max: 0.5}}, ratiosOf(ours, theirs))

	require.Empty(t, ratiosOf(ours, []measures{{"wall_s": 0}}), "nothing is divided by zero")
	require.Empty(t, ratiosOf(ours, nil))
	require.Equal(t, results.Stat{Min: 0.25, Median: 0.5, Max: 0.5}, ratiosOf([]measures{{"x": 1}, {"x": 1}, {"x": 1}}, []measures{{"x": 4}, {"x": 2}, {"x": 2}})["x"])
}

func TestSummaryHasEverything(t *testing.T) {
	j := scenario.Job{Scenario: scenario.Scenario{Name: "sync-protobuf", Contestants: scenario.Contestants()}, Objects: 10, Params: protocol.Params{scenario.Custom: 1}}
	all := rounds{
		results.Millrace: {{"wall_s": 1, "peak_rss_bytes": 100}, {"wall_s": 3, "peak_rss_bytes": 100}},
		results.ClientGo: {{"wall_s": 4, "peak_rss_bytes": 400}, {"wall_s": 12, "peak_rss_bytes": 200}},
		results.Floor:    {{"wall_s": 0.5, "peak_rss_bytes": 10}, {"wall_s": 0.5, "peak_rss_bytes": 10}},
	}
	rows := summarize(j, entrantsOf(j), all)
	require.Len(t, rows, 3, "who did not take part has no result")
	require.Equal(t, results.Result{
		Scenario: "sync-protobuf", Params: results.Params{"custom": 1, "objects": 10}, Contestant: results.Millrace,
		Metrics: map[string]results.Stat{"wall_s": {Min: 1, Median: 2, Max: 3}, "peak_rss_bytes": {Min: 100, Median: 100, Max: 100}},
		Ratio: map[string]map[string]float64{
			results.ClientGo: {"wall_s": 0.25, "peak_rss_bytes": 0.375},
			results.Floor:    {"wall_s": 4, "peak_rss_bytes": 10},
		},
	}, rows[0])
	require.Equal(t, protocol.Params{scenario.Custom: 1}, j.Params, "the job's own parameters stay")
}

func TestControllersAreComparedWithTheirPeer(t *testing.T) {
	j := scenario.Job{Scenario: scenario.Scenario{Name: "reconcile", Contestants: []string{results.Millrace, results.ControllerRuntime}}, Objects: 10, Params: protocol.Params{}}
	rows := summarize(j, entrantsOf(j), rounds{results.Millrace: {{"wall_s": 1}}, results.ControllerRuntime: {{"wall_s": 4}}})
	require.Equal(t, map[string]map[string]float64{results.ControllerRuntime: {"wall_s": 0.25}}, rows[0].Ratio)
	require.Empty(t, rows[1].Ratio)
}

func TestContestantsMustAgree(t *testing.T) {
	same := protocol.Result{Objects: 3, Digest: 42, Heard: 7}
	require.NoError(t, agree(map[string]protocol.Result{results.Millrace: same, results.ClientGo: same, results.Floor: {}}))
	for _, change := range []func(*protocol.Result){
		func(r *protocol.Result) { r.Digest++ },
		func(r *protocol.Result) { r.Objects-- },
		func(r *protocol.Result) { r.Heard++ },
	} {
		other := same
		change(&other)
		err := agree(map[string]protocol.Result{results.Millrace: same, results.ClientGo: other})
		require.ErrorContains(t, err, "did not do the same work")
	}
}
