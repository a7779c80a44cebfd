package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// entrant is a contestant in a run: built from the source tree around the
// working directory, or from another revision of it.
type entrant struct {
	name       string // as it was asked for and as results name it: "millrace@main"
	contestant string // "millrace"
	revision   string // "main"; empty for the source tree
	program    string // the path of what was built
}

// parseEntrant reads CONTESTANT or CONTESTANT@REVISION.
func parseEntrant(name string) (entrant, error) {
	contestant, revision, at := strings.Cut(name, "@")
	if !slices.Contains(scenario.Contestants(), contestant) {
		return entrant{}, fmt.Errorf("there is no contestant %q: want one of %q", contestant, scenario.Contestants())
	}
	if at && revision == "" {
		return entrant{}, fmt.Errorf("contestant %q: a revision must follow the @", name)
	}
	return entrant{name: name, contestant: contestant, revision: revision}, nil
}

// enter returns those that take part in any of the scenarios: those asked for,
// all contestants if none is. They are in the order of the contestants, and as
// they were asked for where they differ in the revision alone. It fails where
// nobody would take part.
func enter(chosen []scenario.Scenario, asked []string) ([]entrant, error) {
	if len(asked) == 0 {
		asked = scenario.Contestants()
	}
	var all []entrant
	for _, name := range asked {
		e, err := parseEntrant(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other entrant) bool { return other.name == name }) {
			return nil, fmt.Errorf("contestant %q is there twice", name)
		}
		all = append(all, e)
	}
	place := func(e entrant) int { return slices.Index(scenario.Contestants(), e.contestant) }
	slices.SortStableFunc(all, func(a, b entrant) int { return place(a) - place(b) })
	all = slices.DeleteFunc(all, func(e entrant) bool {
		return !slices.ContainsFunc(chosen, func(s scenario.Scenario) bool { return slices.Contains(s.Contestants, e.contestant) })
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("of the contestants %q, none takes part in the scenarios that were chosen", asked)
	}
	return all, nil
}

// paired tells whether each entrant has another revision of itself among them,
// so that there is nothing to say but how they differ.
func paired(entrants []entrant) bool {
	return len(entrants) > 0 && !slices.ContainsFunc(entrants, func(e entrant) bool {
		return !slices.ContainsFunc(entrants, func(other entrant) bool {
			return other.contestant == e.contestant && other.name != e.name
		})
	})
}

// pairs are the entrants that are two revisions of one contestant: of those that
// were asked for first, each with every later one.
func pairs(entrants []entrant) (all [][2]entrant) {
	for i, older := range entrants {
		first := slices.IndexFunc(entrants, func(e entrant) bool { return e.contestant == older.contestant })
		if first < i {
			all = append(all, [2]entrant{entrants[first], older})
		}
	}
	return all
}
