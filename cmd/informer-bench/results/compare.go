package results

import (
	"fmt"
	"math"
	"strings"
)

// Difference says whether two contestants differ by more than noise.
type Difference int

// The differences.
const (
	Same    Difference = iota // the median ratio is within 2 % of 1, or the figures are too small to matter
	Unclear                   // it is not, but rounds disagree or are too few
	Better                    // better by more than noise
	Worse                     // worse by more than noise
)

// Comparison is one figure of two contestants that took turns.
type Comparison struct {
	Metric   string
	New, Old Stat

	// Ratio sums up new/old, round by round. It is zero where a round of the
	// old one is zero.
	Ratio Stat

	// Rounds is how many pairs there are, and WorseIn in how many of them the
	// new one was worse.
	Rounds, WorseIn int

	Difference Difference
}

const (
	// noticed is by what share a median ratio must differ from 1 to be called a
	// difference, however well the rounds agree.
	noticed = 0.02

	// significance is how often chance alone may call something a difference
	// that is none, in one direction: with 5 rounds all must agree (1 in 32).
	significance = 0.05
)

// FewestRounds is how many rounds a difference must have been measured in: fewer
// cannot tell one from noise.
const FewestRounds = 5

// Compare holds the rounds of a metric against those of an older contestant. It
// is false where there are none, or not as many on both sides.
//
// The new one is better or worse by more than noise if three things are true.
// So many rounds agree that chance would make it so in less than one case of
// twenty (a sign test, one-sided). The median of the ratios, pair by pair, is
// more than 2 % from 1. And the medians differ by an amount that matters, since
// a ratio of next to nothing to next to nothing says little.
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

// byChance is how likely it is that, of fair coins, so many or more fall on the
// one side and the rest on the other.
func byChance(these, those int) float64 {
	n, chance := these+those, 0.0
	for k := these; k <= n; k++ {
		chance += binomial(n, k) * math.Pow(0.5, float64(n))
	}
	return chance
}

// FalseAlarms is the share of figures that so many rounds call worse by chance,
// at most, where there is no difference at all.
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

// negligible is a difference that does not matter, in the metric's unit.
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

// String is the difference in a word that fits the metric: "slower", "more",
// "same".
func (c Comparison) String() string {
	time := strings.HasSuffix(c.Metric, "_s") // of which rates are a kind
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
