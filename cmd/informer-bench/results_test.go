package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/bench/protocol"
)

func TestRatiosArePairwise(t *testing.T) {
	// The machine got ten times slower after the first round, for everyone.
	// Medians divided would be off; pairs are not.
	ours := []measures{{"wall_s": 1}, {"wall_s": 10}, {"wall_s": 12}}
	theirs := []measures{{"wall_s": 2}, {"wall_s": 20}, {"wall_s": 24}}
	require.Equal(t, map[string]Spread{"wall_s": {0.5, 0.5, 0.5}}, ratiosOf(ours, theirs))

	require.Empty(t, ratiosOf(ours, []measures{{"wall_s": 0}}), "nothing is divided by zero")
	require.Empty(t, ratiosOf(ours, nil))
	require.Equal(t, Spread{0.25, 0.5, 0.5}, ratiosOf([]measures{{"x": 1}, {"x": 1}, {"x": 1}}, []measures{{"x": 4}, {"x": 2}, {"x": 2}})["x"])
}

func TestSpread(t *testing.T) {
	require.Equal(t, Spread{1, 2, 9}, spreadOf([]float64{9, 1, 2}))
	require.Equal(t, Spread{1, 2.5, 9}, spreadOf([]float64{9, 1, 3, 2}))
	require.Equal(t, Spread{7, 7, 7}, spreadOf([]float64{7}))
}

func TestResultsFileKeepsEverything(t *testing.T) {
	j := job{scenario: scenario{name: "sync-protobuf", contestants: everyone()}, objects: 10, params: protocol.Params{protocol.Custom: 1}}
	all := rounds{
		millrace: {{"wall_s": 1, "peak_rss_bytes": 100}, {"wall_s": 3, "peak_rss_bytes": 100}},
		clientGo: {{"wall_s": 4, "peak_rss_bytes": 400}, {"wall_s": 12, "peak_rss_bytes": 200}},
		floor:    {{"wall_s": 0.5, "peak_rss_bytes": 10}, {"wall_s": 0.5, "peak_rss_bytes": 10}},
	}
	want := Results{Version: resultsVersion, Env: Env{Go: "go1.26", Cores: 2, Rounds: 2}, Results: summarize(j, all)}
	require.Len(t, want.Results, 3, "who did not take part has no result")
	require.Equal(t, Result{
		Scenario: "sync-protobuf", Params: protocol.Params{"custom": 1, "objects": 10}, Contestant: millrace,
		Metrics: map[string]Spread{"wall_s": {1, 2, 3}, "peak_rss_bytes": {100, 100, 100}},
		Ratio: map[string]map[string]float64{
			clientGo: {"wall_s": 0.25, "peak_rss_bytes": 0.375},
			floor:    {"wall_s": 4, "peak_rss_bytes": 10},
		},
	}, want.Results[0])

	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, writeResults(path, want))
	got, err := readResults(path)
	require.NoError(t, err)
	require.Equal(t, want, got)

	want.Version = 2
	require.NoError(t, writeResults(path, want))
	_, err = readResults(path)
	require.ErrorContains(t, err, "version is 2, want 1")
}

func TestContestantsMustAgree(t *testing.T) {
	same := protocol.Result{Objects: 3, Digest: 42, Heard: 7}
	order := everyone()
	require.NoError(t, agree(map[string]protocol.Result{millrace: same, clientGo: same, floor: {}}, order))
	for _, change := range []func(*protocol.Result){
		func(r *protocol.Result) { r.Digest++ },
		func(r *protocol.Result) { r.Objects-- },
		func(r *protocol.Result) { r.Heard++ },
	} {
		other := same
		change(&other)
		err := agree(map[string]protocol.Result{millrace: same, clientGo: other}, order)
		require.ErrorContains(t, err, "did not do the same work")
	}
}

func TestTableTellsRatiosAndVerdicts(t *testing.T) {
	j := job{objects: 10, params: protocol.Params{protocol.Handlers: 1}, scenario: scenario{
		name: "some", contestants: []string{millrace, clientGo, floor},
		targets: []target{
			atMost("wall_s", 0.25), {metric: "wall_s", against: floor, bound: 5}, atLeast("events_per_s", 4),
			{metric: "allocs", bound: 1}, {metric: "allocs", bound: 9, when: protocol.Params{protocol.Handlers: 10}},
		},
	}}
	all := rounds{
		millrace: {{"wall_s": 0.2, "events_per_s": 300, "allocs": 1}, {"wall_s": 0.25, "events_per_s": 300, "allocs": 1}},
		clientGo: {{"wall_s": 1, "events_per_s": 100, "allocs": 7}, {"wall_s": 1, "events_per_s": 100, "allocs": 7}},
		floor:    {{"wall_s": 0.01}, {"wall_s": 0.01}},
	}
	var out strings.Builder
	require.NoError(t, writeTable(&out, j, all))
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"",
		"some: 10 objects, handlers 1",
		"METRIC CONTESTANT MEDIAN MIN MAX × CLIENT-GO (MIN-MAX) TARGET",
		"allocs millrace 1.00 1.00 1.00 0.143 (0.143-0.143) ≤ 1: met",
		"allocs client-go 7.00 7.00 7.00",
		"events_per_s millrace 300 300 300 3.00 (3.00-3.00) ≥ 4: not met",
		"events_per_s client-go 100 100 100",
		"wall_s millrace 225 ms 200 ms 250 ms 0.225 (0.2-0.25) ≤ 0.25: met; ≤ 5: not met (22.5 × floor)",
		"wall_s client-go 1.00 s 1.00 s 1.00 s",
		"wall_s floor 10.0 ms 10.0 ms 10.0 ms 0.01 (0.01-0.01)",
	}, lines)
}

func TestGrowth(t *testing.T) {
	of := func(contestant string, median float64) Result {
		return Result{Contestant: contestant, Metrics: map[string]Spread{"cost_s": {Median: median}}}
	}
	results := []Result{of(millrace, 2), of(clientGo, 1), of(millrace, 2.2), of(clientGo, 1.5), of(millrace, 3), of(clientGo, 2)}
	ratio, known := growthOf(results, millrace, "cost_s")
	require.True(t, known)
	require.InDelta(t, 1.5, ratio, 1e-9)
	_, known = growthOf(results[:1], millrace, "cost_s")
	require.False(t, known, "one variant does not grow")
}

// TestScenariosAreInOrder checks the table of scenarios against what the
// contestants know.
func TestScenariosAreInOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		require.False(t, seen[s.name], s.name)
		seen[s.name] = true
		require.NotEmpty(t, s.measures, s.name)
		require.Contains(t, s.contestants, millrace, s.name)
		require.Contains(t, s.contestants, clientGo, s.name)
		for _, j := range s.resolve(100) {
			require.Positive(t, j.objects, s.name)
			require.NotContains(t, j.params, scale)
			require.NotContains(t, j.params, changedPercent)
			if s.script == scriptWatch {
				require.Positive(t, j.params[protocol.Events], s.name)
			}
		}
	}
	for _, name := range protocol.Following() {
		require.True(t, seen[name], name)
	}
	_, err := choose([]string{"no-such"})
	require.ErrorContains(t, err, "no-such")
}
