package results_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

func TestADifferenceMustStandOutFromNoise(t *testing.T) {
	for what, c := range map[string]struct {
		metric        string
		latest, older []float64
		want          results.Difference
		says          string
	}{
		"slower in every round": {
			results.Wall, []float64{1.1, 11, 1.2, 1.3, 1.05}, []float64{1, 10, 1.1, 1.2, 1}, results.Worse, "slower",
		},
		"faster in every round": {
			results.CPU, []float64{1, 10, 1, 1, 1}, []float64{1.1, 11, 1.2, 1.3, 1.05}, results.Better, "faster",
		},
		"a lower rate is slower": {
			results.EventsPerSec, []float64{9, 8, 9, 9, 8}, []float64{10, 9, 10, 10, 9}, results.Worse, "slower",
		},
		"bytes are not slow": {
			results.PeakRSS, []float64{2, 2, 2, 2, 2}, []float64{1, 1, 1, 1, 1}, results.Worse, "more",
		},
		"one round disagrees": {
			results.Wall, []float64{1.1, 1.1, 1.1, 1.1, 0.9}, []float64{1, 1, 1, 1, 1}, results.Unclear, "unclear: worse in 4 of 5",
		},
		"one of nine disagrees": {
			results.Wall, []float64{1.1, 1.1, 1.1, 1.1, 0.9, 1.1, 1.1, 1.1, 1.1}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}, results.Worse, "slower",
		},
		"always slower, by less than 2 %": {
			results.Wall, []float64{1.01, 1.01, 1.01, 1.01, 1.01}, []float64{1, 1, 1, 1, 1}, results.Same, "same",
		},
		"too few rounds": {
			results.Wall, []float64{2, 2, 2, 2}, []float64{1, 1, 1, 1}, results.Unclear, "too few rounds to tell",
		},
		"allocations of the runtime": {
			results.AllocsPerEvent, []float64{.002, .002, .002, .002, .002}, []float64{.001, .001, .001, .001, .001}, results.Same, "same",
		},
		"allocations where there were none": {
			results.GetAllocs, []float64{1, 1, 1, 1, 1}, []float64{0, 0, 0, 0, 0}, results.Worse, "more",
		},
		"equal": {
			results.HandlerGoroutines, []float64{1, 1, 1, 1, 1}, []float64{1, 1, 1, 1, 1}, results.Same, "same",
		},
	} {
		got, ok := results.Compare(c.metric, c.latest, c.older)
		require.True(t, ok, what)
		require.Equal(t, c.want, got.Difference, what)
		require.Equal(t, c.says, got.String(), what)
	}
}

func TestFalseAlarms(t *testing.T) {
	require.Zero(t, results.FalseAlarms(4), "so few call nothing worse")
	require.Equal(t, 1.0/32, results.FalseAlarms(5))
	require.InDelta(t, 10.0/512, results.FalseAlarms(9), 1e-12, "one of nine may disagree")
}

func TestPairsAreCompared(t *testing.T) {
	// The machine got slower for everyone after the first round.
	c, ok := results.Compare(results.Wall, []float64{1, 20, 33}, []float64{2, 40, 60})
	require.True(t, ok)
	require.Equal(t, results.Stat{Min: 0.5, Median: 0.5, Max: 0.55}, c.Ratio)
	require.Equal(t, 20.0, c.New.Median)
	require.Equal(t, 40.0, c.Old.Median)

	_, ok = results.Compare(results.Wall, []float64{1}, []float64{1, 2})
	require.False(t, ok, "a round is missing")
	_, ok = results.Compare(results.Wall, nil, nil)
	require.False(t, ok)
}
