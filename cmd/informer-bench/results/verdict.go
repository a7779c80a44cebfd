package results

import "fmt"

// Verdict is the outcome of checking a target against one row.
type Verdict struct {
	Target Target
	Row    *Result // nil if the target applies to none

	// Got is the figure to compare with the limit, if Measured is true.
	Got      float64
	Measured bool
}

// Check checks each target against the rows it applies to. Verdicts are in target order, then row order. A
// target that applies to no row gets a single verdict, "not measured".
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

// grown reports whether no row for t has more objects than x, and at least one has fewer.
func (r *Results) grown(t Target, x *Result) bool {
	for i := range r.Results {
		if y := &r.Results[i]; t.applies(y) && y.Params[Objects] > x.Params[Objects] {
			return false
		}
	}
	return r.fewest(t, x) != x
}

// fewest returns the row for t with the fewest objects, or x if there is no other.
func (r *Results) fewest(t Target, x *Result) *Result {
	for i := range r.Results {
		if y := &r.Results[i]; t.applies(y) && y.Params[Objects] < x.Params[Objects] {
			x = y
		}
	}
	return x
}

// figure returns the figure to compare with a target's limit.
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

// Met reports whether the target is met. It returns false if nothing was measured.
func (v Verdict) Met() bool {
	switch {
	case !v.Measured:
		return false
	case v.Target.Bound == AtLeast:
		return v.Got >= v.Target.Limit
	}
	return v.Got <= v.Target.Limit
}

// Off returns the factor by which the limit is missed: 1.5 means 50 % above the allowed value, or two
// thirds of the required one. It is 0 if the target is met or was not measured, and infinite if the
// limit is 0 and the target is missed.
func (v Verdict) Off() float64 {
	switch {
	case !v.Measured || v.Met():
		return 0
	case v.Target.Bound == AtLeast:
		return v.Target.Limit / v.Got
	}
	return v.Got / v.Target.Limit
}

// Outcome returns the outcome in words, such as "met" or "missed: 1.4 times the limit".
func (v Verdict) Outcome() string {
	switch {
	case !v.Measured:
		return "not measured"
	case v.Met():
		return "met"
	case v.Target.Limit == 0:
		return "missed: " + Format(v.Target.Metric, v.Got)
	case v.Target.Bound == AtLeast:
		return fmt.Sprintf("missed: %.2f times the limit", v.Got/v.Target.Limit)
	}
	return fmt.Sprintf("missed: %s times the limit", digits(v.Off()))
}

// String formats the verdict as one line for a log.
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
