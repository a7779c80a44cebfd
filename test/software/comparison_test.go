package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/test/software/cluster"
)

// A round with another final state is named, and so are requests that one way always makes more
// often, because that is not chance.
func TestRoundsAreCompared(t *testing.T) {
	c := &comparison{Date: "today"}
	add := func(informers string, heap int64, requests map[string]int, state cluster.State) {
		c.add(&round{Informers: informers, figures: figures{Heap: heap << 20, Requests: requests}, state: state})
	}
	same := cluster.State{"a pod": 2}
	add("stock", 40, map[string]int{"get pods": 10, "watch pods": 2, "list pods": 29}, same)
	add("millrace", 20, map[string]int{"get pods": 90, "watch pods": 18, "list pods": 2}, same)
	add("stock", 41, map[string]int{"get pods": 95, "watch pods": 1, "list pods": 29}, same)
	add("millrace", 20, map[string]int{"get pods": 10, "watch pods": 18}, same)
	require.NoError(t, c.different())
	require.Contains(t, c.section(), "| live heap at the end, MiB | 41 (40-41) | 20 (20-20) |")
	require.Contains(t, c.section(), "the same after every round")
	require.Equal(t, "- `list pods`: 29 (29-29) and 2 (0-2). The cause is not known yet.\n"+
		"- `watch pods`: 2 (1-2) and 18 (18-18). The cause is not known yet.\n", c.explain())

	add("millrace", 20, nil, cluster.State{"a pod": 1})
	require.ErrorContains(t, c.different(), "round 5 (millrace): 2 and 1 of a pod")
	require.Contains(t, c.section(), "not the same: see below")
	require.Contains(t, c.section(), "- the state at the end: round 5")
}
