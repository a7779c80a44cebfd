package results

import "fmt"

// Verdict is a target held against one row.
type Verdict struct {
	Target Target
	Row    *Result // nil if no row is in the results to which the target applies

	// Got is the figure that the limit is compared with, and Measured whether
	// there is one.
	Got      float64
	Measured bool
}

// Check holds each target against each row that it applies to, in the order
// of targets and rows. A target without a row has one verdict: not measured.
func (r *Results) Check(targets []Target) []Verdict {
	var all []Verdict
	for _, t := range targets {
		found := false
		for i := range r.Results {
			if x := &r.Results[i]; t.applies(x) && (!t.Growth || r.grown(t, x)) {
				found = true
				v := Verdict{Target: t, Row: x}
				v.Got, v.Measured = r.figure(t, x)
				all = append(all, v)
			}
		}
		if !found {
			all = append(all, Verdict{Target: t})
		}
	}
	return all
}

// grown tells whether x has more objects than a row that t could compare it
// with, and none has more than x.
func (r *Results) grown(t Target, x *Result) bool {
	for i := range r.Results {
		if y := &r.Results[i]; t.applies(y) && y.Params[Objects] > x.Params[Objects] {
			return false
		}
	}
	return r.fewest(t, x) != x
}

// fewest is the row with the fewest objects that t applies to: x if there is
// no other.
func (r *Results) fewest(t Target, x *Result) *Result {
	for i := range r.Results {
		if y := &r.Results[i]; t.applies(y) && y.Params[Objects] < x.Params[Objects] {
			x = y
		}
	}
	return x
}

// figure is what a target compares.
func (r *Results) figure(t Target, x *Result) (float64, bool) {
	stat, ok := x.Metrics[t.Metric]
	switch {
	case t.Growth:
		base, measured := r.fewest(t, x).Metrics[t.Metric]
		if !ok || !measured || base.Median == 0 {
			return 0, false
		}
		return stat.Median / base.Median, true
	case t.Against != "":
		ratio, ok := x.Ratio[t.Against][t.Metric]
		return ratio, ok
	}
	return stat.Median, ok
}

// Met tells whether the target was reached; one that was not measured is not.
func (v Verdict) Met() bool {
	switch {
	case !v.Measured:
		return false
	case v.Target.Bound == AtLeast:
		return v.Got >= v.Target.Limit
	}
	return v.Got <= v.Target.Limit
}

// Off is by what factor the limit is missed: 1.5 is half as much again as
// allowed, or two thirds of what is asked for. It is 0 where the target is met
// or was not measured, and infinite where the limit is 0 and not met.
func (v Verdict) Off() float64 {
	switch {
	case !v.Measured || v.Met():
		return 0
	case v.Target.Bound == AtLeast:
		return v.Target.Limit / v.Got
	}
	return v.Got / v.Target.Limit
}

// Outcome is "met", "missed: 1.4 times the limit" and the like.
func (v Verdict) Outcome() string {
	switch {
	case !v.Measured:
		return "not measured"
	case v.Met():
		return "met"
	case v.Target.Limit == 0:
		return "missed: " + Format(v.Target.Metric, v.Got)
	case v.Target.Bound == AtLeast:
		return fmt.Sprintf("missed: %.2f of what is asked", v.Got/v.Target.Limit)
	}
	return fmt.Sprintf("missed: %s times the limit", digits(v.Off()))
}

// String is one line for a log.
func (v Verdict) String() string {
	where := v.Target.Scenario
	if v.Row != nil && len(v.Row.Params) > 0 {
		where += " " + v.Row.Params.String()
	}
	if v.Target.Contestant != "" {
		where += ": " + v.Target.Contestant
	}
	got := ""
	if v.Measured {
		got = fmt.Sprintf("%.3g, ", v.Got)
	}
	return fmt.Sprintf("%s: %s: %swant %s: %s", where, v.Target.Metric, got, v.Target.Want(), v.Outcome())
}
