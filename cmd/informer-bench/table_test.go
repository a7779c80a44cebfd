package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// Every target must be measurable by a scenario.
func TestTargetsHaveTheirScenario(t *testing.T) {
	jobs := map[string][]scenario.Job{}
	for _, s := range scenario.All() {
		jobs[s.Name] = s.Jobs(scenario.DefaultObjects)
	}
	for _, target := range results.Targets() {
		found := false
		for _, j := range jobs[target.Scenario] {
			takesPart := slices.Contains(j.Contestants, cmp.Or(target.Contestant, results.Millrace))
			params := maps.Clone(results.Params(j.Params))
			params[results.Objects] = j.Objects
			found = found || takesPart && params.Has(target.Params)
		}
		require.True(t, found, "%s: %s", target.Scenario, target)
	}
}

func TestTable(t *testing.T) {
	j := scenario.Job{Scenario: scenario.Scenario{Name: "sync-protobuf", Contestants: scenario.Contestants()}, Objects: 1000, Params: protocol.Params{}}
	all := rounds{
		results.Millrace: {{"wall_s": 0.1, "live_bytes_per_object": 5000}, {"wall_s": 0.3, "live_bytes_per_object": 5000}},
		results.ClientGo: {{"wall_s": 1, "live_bytes_per_object": 10000}, {"wall_s": 2, "live_bytes_per_object": 10000}},
		results.Floor:    {{"wall_s": 0.05}, {"wall_s": 0.05}},

		results.ClientGoFactory: {{"wall_s": 0.3}, {"wall_s": 0.4}},
	}
	var out strings.Builder
	require.NoError(t, writeTable(&out, j, all, summarize(j, entrantsOf(j), all)))
	var got []string
	for line := range strings.Lines(out.String()) {
		if fields := strings.Join(strings.Fields(line), " "); fields != "" {
			got = append(got, fields)
		}
	}
	require.Equal(t, []string{
		"sync-protobuf: 1000 objects",
		"METRIC CONTESTANT MEDIAN MIN MAX × CLIENT-GO (MIN-MAX) TARGET",
		"wall_s millrace 200 ms 100 ms 300 ms 0.125 (0.1-0.15) ≤ 0.22 × client-go: met; ≤ 5 × floor: met (4)",
		"wall_s clientgo+millrace 350 ms 300 ms 400 ms 0.25 (0.2-0.3) ≤ 0.3 × client-go: met",
		"wall_s client-go 1.50 s 1 s 2 s",
		"wall_s floor 50 ms 50 ms 50 ms 0.0375 (0.025-0.05)",
		"live_bytes_per_object millrace 5 KB 5 KB 5 KB 0.5 (0.5-0.5) ≤ 0.33 × client-go: missed: 1.52 times the limit",
		"live_bytes_per_object client-go 10 KB 10 KB 10 KB",
	}, got)
}

func TestGrowthIsJudgedOverVariants(t *testing.T) {
	variant := func(objects int, cpu float64) results.Result {
		return results.Result{
			Scenario: "growth", Contestant: results.Millrace, Params: results.Params{results.Objects: objects},
			Metrics: map[string]results.Stat{results.CPUPerObject: results.StatOf([]float64{cpu})},
		}
	}
	var out strings.Builder
	require.NoError(t, writeGrowth(&out, []results.Result{variant(10, 1e-6), variant(50, 3e-6), variant(150, 1.5e-6)}))
	require.Equal(t, "\ngrowth objects=150: cpu_per_object_s: 1.5, want ≤ 1.2 × with the fewest objects: missed: 1.25 times the limit\n", out.String())
}
