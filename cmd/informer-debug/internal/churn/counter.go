package churn

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// counter counts events by name. The number of names is limited; events for any further names are lumped
// together.
type counter struct {
	most   int
	named  map[string]int
	beyond int
}

// count is a name and its number of events.
type count struct {
	Name   string `json:"name"`
	Events int    `json:"events"`
}

// add counts an event for name, and reports whether name is counted individually.
func (c *counter) add(name string) bool {
	if _, known := c.named[name]; !known {
		if len(c.named) >= c.most {
			c.beyond++
			return false
		}
		if c.named == nil {
			c.named = map[string]int{}
		}
		name = strings.Clone(name) // name may share memory with an object
	}
	c.named[name]++
	return true
}

// largest returns the n names with the most events, or all names if n is 0.
func (c *counter) largest(n int) []count {
	names := slices.SortedFunc(maps.Keys(c.named), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.named[b], c.named[a]), cmp.Compare(a, b))
	})
	if n > 0 && len(names) > n {
		names = names[:n]
	}
	all := make([]count, 0, len(names))
	for _, name := range names {
		all = append(all, count{name, c.named[name]})
	}
	return all
}
