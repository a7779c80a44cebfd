package results

import "slices"

// Stat is a metric over the rounds of a run, in the unit of the metric.
type Stat struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// StatOf sums up what the rounds gave; zero for none. The median of an even
// number is the mean of the two in the middle.
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

// Ratios sums up the quotients, round by round: what disturbs the machine in a
// round disturbs both sides of its quotient. It is false where a round is
// missing on one side, or has nothing to divide by.
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
