package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// squeezed returns the lines with single blanks between words.
func squeezed(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if fields := strings.Join(strings.Fields(line), " "); fields != "" {
			lines = append(lines, fields)
		}
	}
	return lines
}

func TestRevisionsAreCompared(t *testing.T) {
	j := scenario.Job{Scenario: scenario.Scenario{Name: "workqueue"}, Objects: 10, Params: protocol.Params{scenario.Workers: 8}}
	entrants := []entrant{
		{name: "millrace", contestant: results.Millrace},
		{name: "millrace@old", contestant: results.Millrace, revision: "old"},
		{name: "client-go", contestant: results.ClientGo},
	}
	all := rounds{}
	for i := range 5 {
		noise := float64(i + 1)
		all["millrace"] = append(all["millrace"], measures{"wall_s": 1.1 * noise, "events_per_s": 1, "cpu_s": noise, "allocs_per_event": 0})
		all["millrace@old"] = append(all["millrace@old"], measures{"wall_s": noise, "cpu_s": 2 * noise, "allocs_per_event": 0})
		all["client-go"] = append(all["client-go"], measures{"wall_s": 9})
	}
	list := compare(j, entrants, all)
	require.Len(t, list, 1)
	var out strings.Builder
	require.NoError(t, writeCompared(&out, list[0]))
	require.NoError(t, writeConclusion(&out, list))
	require.Equal(t, []string{
		"workqueue: 10 objects, workers 8: millrace against millrace@old",
		"METRIC MILLRACE MILLRACE@OLD RATIO MIN MAX VERDICT",
		"wall_s 3.30 s 3 s 1.100 1.100 1.100 slower",
		"cpu_s 3 s 6 s 0.500 0.500 0.500 faster",
		"allocs_per_event 0 0 same",
		"millrace against millrace@old: 3 figures, 5 rounds",
		"slower than noise (or more): 1",
		"workqueue: 10 objects, workers 8: wall: 1.100 (1.100 to 1.100), slower",
		"Without any difference, chance would show up to 1 of these; measure them again, alone and with more rounds.",
		"faster than noise (or less): 1",
		"unclear: 0",
		"the same: 1",
	}, squeezed(out.String()))

	for name := range all {
		all[name] = all[name][:2]
	}
	out.Reset()
	require.NoError(t, writeConclusion(&out, compare(j, entrants, all)))
	require.Equal(t, []string{
		"millrace against millrace@old: 3 figures, 2 rounds",
		"2 differ by more than 2 %, but fewer than 5 rounds cannot tell that from noise",
	}, squeezed(out.String()))

	delete(all, "millrace@old") // the old revision lacks the scenario
	require.Empty(t, compare(j, entrants, all))
	out.Reset()
	require.NoError(t, writeConclusion(&out, nil))
	require.Empty(t, out.String())
}
