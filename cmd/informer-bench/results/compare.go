package results

import (
	"fmt"
	"math"
	"strings"
)

// Difference says whether two contestants differ by more than noise.
type Difference int

// The possible differences.
const (
	Same    Difference = iota // the median ratio is within 2 % of 1, or the figures are too small to matter
	Unclear                   // the ratio differs, but the rounds disagree or there are too few of them
	Better                    // better by more than noise
	Worse                     // worse by more than noise
)

// Comparison compares one figure of two contestants that took turns.
type Comparison struct {
	Metric   string
	New, Old Stat

	// Ratio summarizes the per-round ratios new/old. It is zero if old is zero in any round.
	Ratio Stat

	// Rounds is the number of pairs. In WorseIn of them, new was worse.
	Rounds, WorseIn int

	Difference Difference
}

const (
	// noticed is how far from 1 the median ratio must be to be reported as a difference, even if all rounds
	// agree.
	noticed = 0.02

	// significance is the highest acceptable probability of seeing a difference in one direction by chance.
	// With 5 rounds, all must agree (1 in 32).
	significance = 0.05
)

// FewestRounds is the number of rounds needed to tell a difference from noise.
const FewestRounds = 5

// Compare compares a metric, round by round, with an older contestant's. It returns false if there are no
// rounds, or if the numbers of rounds differ.
//
// A difference is more than noise if three conditions hold. So many rounds agree that it would happen by
// chance less than one time in twenty (a one-sided sign test). The median of the pairwise ratios is more than
// 2 % away from 1. And the medians differ by a relevant amount, since the ratio of two tiny values is
// meaningless.
func Compare(metric string, latest, older []float64) (Comparison, bool) {
	if len(latest) == 0 || len(latest) != len(older) {
		return Comparison{}, false
	}
	c := Comparison{Metric: metric, New: StatOf(latest), Old: StatOf(older), Rounds: len(latest)}
	ratio, hasRatio := Ratios(latest, older)
	if hasRatio {
		c.Ratio = ratio
	}
	betterIn := 0
	for i := range latest {
		switch costlier := latest[i] > older[i]; {
		case latest[i] == older[i]:
		case costlier != MoreIsBetter(metric):
			c.WorseIn++
		default:
			betterIn++
		}
	}
	far := !hasRatio || math.Abs(ratio.Median-1) > noticed
	if !far || math.Abs(c.New.Median-c.Old.Median) <= negligible(metric) {
		return c, true
	}
	switch {
	case byChance(c.WorseIn, betterIn) <= significance:
		c.Difference = Worse
	case byChance(betterIn, c.WorseIn) <= significance:
		c.Difference = Better
	default:
		c.Difference = Unclear
	}
	return c, true
}

// byChance returns the probability of getting at least these heads in these+those tosses of a fair coin.
func byChance(these, those int) float64 {
	n, chance := these+those, 0.0
	for k := these; k <= n; k++ {
		chance += binomial(n, k) * math.Pow(0.5, float64(n))
	}
	return chance
}

// FalseAlarms returns the largest fraction of figures that would be called worse by pure chance with this
// number of rounds.
func FalseAlarms(rounds int) float64 {
	for agreeing := (rounds + 1) / 2; agreeing <= rounds; agreeing++ {
		if chance := byChance(agreeing, rounds-agreeing); chance <= significance {
			return chance
		}
	}
	return 0
}

func binomial(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}

// negligible returns the largest difference that does not matter, in the metric's unit.
func negligible(metric string) float64 {
	switch {
	case strings.Contains(metric, "allocs"):
		return none
	case metric == Held:
		return flat
	case metric == Pause:
		return 100e-6
	}
	return 0
}

// String describes the difference with a word that suits the metric, such as "slower", "more" or "same".
func (c Comparison) String() string {
	time := strings.HasSuffix(c.Metric, "_s") // includes rates
	switch {
	case c.Difference == Same:
		return "same"
	case c.Difference == Unclear && c.Rounds < FewestRounds:
		return "too few rounds to tell"
	case c.Difference == Unclear:
		return fmt.Sprintf("unclear: worse in %d of %d", c.WorseIn, c.Rounds)
	case c.Difference == Worse && time:
		return "slower"
	case c.Difference == Worse:
		return "more"
	case time:
		return "faster"
	}
	return "less"
}
