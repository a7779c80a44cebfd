package results

import "slices"

// Stat summarizes a metric across the rounds of a run, in the metric's unit.
type Stat struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// StatOf summarizes rounds. It returns the zero Stat if there are none. The median of an even number of
// rounds is the mean of the middle two.
func StatOf(rounds []float64) Stat {
	if len(rounds) == 0 {
		return Stat{}
	}
	sorted := slices.Sorted(slices.Values(rounds))
	mid := len(sorted) / 2
	median := sorted[mid]
	if len(sorted)%2 == 0 {
		median = (sorted[mid-1] + sorted[mid]) / 2
	}
	return Stat{Min: sorted[0], Median: median, Max: sorted[len(sorted)-1]}
}

// Ratios summarizes the ratios round by round, so that noise on the machine affects both sides of a ratio. It
// returns false if either side lacks a round or a divisor is zero.
func Ratios(rounds, reference []float64) (Stat, bool) {
	if len(rounds) == 0 || len(rounds) != len(reference) {
		return Stat{}, false
	}
	quotients := make([]float64, len(rounds))
	for i := range rounds {
		if reference[i] == 0 {
			return Stat{}, false
		}
		quotients[i] = rounds[i] / reference[i]
	}
	return StatOf(quotients), true
}
