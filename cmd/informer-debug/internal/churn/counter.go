package churn

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// counter counts under names, of which it takes a number and no more. What comes under
// others is counted together.
type counter struct {
	most   int
	named  map[string]int
	beyond int
}

// count is one name of a counter.
type count struct {
	Name   string `json:"name"`
	Events int    `json:"events"`
}

// add counts one. It reports whether the name is one of those.
func (c *counter) add(name string) bool {
	if _, known := c.named[name]; !known {
		if len(c.named) >= c.most {
			c.beyond++
			return false
		}
		if c.named == nil {
			c.named = map[string]int{}
		}
		name = strings.Clone(name) // it may lie in an object
	}
	c.named[name]++
	return true
}

// largest returns the names with the most, at most n of them; 0 means all.
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
