package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

func TestPackedCachesHaveATable(t *testing.T) {
	row := func(scenario, contestant, metric string, v, ratio float64, params results.Params) results.Result {
		r := results.Result{Scenario: scenario, Contestant: contestant, Params: params, Metrics: map[string]results.Stat{metric: {Min: v, Median: v, Max: v}}}
		if ratio > 0 {
			r.Ratio = map[string]map[string]float64{results.ClientGo: {metric: ratio}}
		}
		return r
	}
	keys := results.Params{results.Keys: 1}
	r := &results.Results{V: results.Version, Results: []results.Result{
		row("packed-sync", results.ClientGo, results.LivePerObject, 14_000, 0, keys),
		row("packed-sync", results.MillracePacked, results.LivePerObject, 700, 0.05, keys),
		row("packed-json", results.MillracePacked, results.LivePerObject, 9_000, 0.5, keys),
		row("packed-watch", results.MillracePacked, results.CPUPerEvent, 1e-6, 0.5, nil),
		row("packed-read", results.MillracePacked, results.GetUsed, 300e-9, 0, nil),
	}}
	sections, err := sectionsOf(r)
	require.NoError(t, err)
	text := string(markdown(r, sections, nil))
	_, table, found := strings.Cut(text, "## Packed caches")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	require.Contains(t, table, "| memory of a cached Pod | 14 KB (client-go) | 700 B | 0.05 | [packed-sync](#packed-sync) |")
	require.Contains(t, table, "| get an object that is in use |  | 300 ns |  | [packed-read](#packed-read) |")
	require.NotContains(t, table, "a million Pods", "not measured")
	_, targets, found := strings.Cut(text, "## Targets of the project")
	require.True(t, found)
	require.Contains(t, targets, "| [packed-read](#packed-read) | get, in use of millrace-packed | 300 ns |  | ≤ 150 ns | **missed: 2 times the limit.** |")
	require.Contains(t, targets, "| 0.5 | ≤ 0.35 × client-go | **missed: 1.43 times the limit.** The informer decodes both states", "a sentence says why")

	sections, err = sectionsOf(&results.Results{V: results.Version})
	require.NoError(t, err)
	require.NotContains(t, string(markdown(&results.Results{V: results.Version}, sections, nil)), "## Packed caches", "nothing of it was measured")
}
