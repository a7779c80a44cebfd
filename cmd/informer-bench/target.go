package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-dev/millrace/bench/protocol"
)

// target is what Millrace aims at with one metric: a bound for the ratio to
// another contestant, or for the value itself.
type target struct {
	metric  string
	against string // contestant; empty for the value itself
	bound   float64
	atLeast bool // the bound is a lower one
	growth  bool // the bound is for the ratio of the last variant to the first

	// when narrows the target to the variants that have these parameters; one
	// that is 0 may be absent.
	when protocol.Params
}

// concerns tells whether the target is about a metric in a variant.
func (t target) concerns(metric string, params protocol.Params) bool {
	for name, value := range t.when {
		if params[name] != value {
			return false
		}
	}
	return t.metric == metric && !t.growth
}

func atMost(metric string, bound float64) target {
	return target{metric: metric, against: clientGo, bound: bound}
}

func atLeast(metric string, bound float64) target {
	return target{metric: metric, against: clientGo, bound: bound, atLeast: true}
}

// String writes the target as a condition: "wall_s ≤ 0.15 × client-go".
func (t target) String() string {
	condition := t.condition()
	for _, name := range slices.Sorted(maps.Keys(t.when)) {
		condition += fmt.Sprintf(" with %s %d", name, t.when[name])
	}
	return condition
}

func (t target) condition() string {
	relation := "≤"
	if t.atLeast {
		relation = "≥"
	}
	switch {
	case t.growth:
		return fmt.Sprintf("%s %s %g × that of the first variant", t.metric, relation, t.bound)
	case t.against == "":
		return fmt.Sprintf("%s %s %g", t.metric, relation, t.bound)
	}
	return fmt.Sprintf("%s %s %g × %s", t.metric, relation, t.bound, t.against)
}

// met tells whether a ratio or value keeps the bound.
func (t target) met(value float64) bool {
	if t.atLeast {
		return value >= t.bound
	}
	return value <= t.bound
}
