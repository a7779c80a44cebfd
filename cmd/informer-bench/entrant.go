package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// entrant is a contestant as built for a run, from the surrounding source tree or from another revision.
type entrant struct {
	name       string // as requested and as named in results: "millrace@main"
	contestant string // "millrace"
	revision   string // "main"; empty for the working tree
	program    string // path of the built program
}

// parseEntrant parses CONTESTANT or CONTESTANT@REVISION.
func parseEntrant(name string) (entrant, error) {
	contestant, revision, at := strings.Cut(name, "@")
	if !slices.Contains(scenario.Contestants(), contestant) {
		return entrant{}, fmt.Errorf("unknown contestant %q: want one of %q", contestant, scenario.Contestants())
	}
	if at && revision == "" {
		return entrant{}, fmt.Errorf("contestant %q: a revision must follow the @", name)
	}
	return entrant{name: name, contestant: contestant, revision: revision}, nil
}

// enter returns the requested entrants (by default, all contestants) that implement at least one of the
// scenarios. They are ordered by contestant; revisions of the same contestant stay in the order requested. It
// returns an error if there are none.
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
			return nil, fmt.Errorf("contestant %q appears twice", name)
		}
		all = append(all, e)
	}
	place := func(e entrant) int { return slices.Index(scenario.Contestants(), e.contestant) }
	slices.SortStableFunc(all, func(a, b entrant) int { return place(a) - place(b) })
	all = slices.DeleteFunc(all, func(e entrant) bool {
		return !slices.ContainsFunc(chosen, func(s scenario.Scenario) bool { return slices.Contains(s.Contestants, e.contestant) })
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("none of the contestants %q takes part in any of the selected scenarios", asked)
	}
	return all, nil
}

// paired reports whether each contestant runs at several revisions, in which case only the differences
// between revisions matter.
func paired(entrants []entrant) bool {
	return len(entrants) > 0 && !slices.ContainsFunc(entrants, func(e entrant) bool {
		return !slices.ContainsFunc(entrants, func(other entrant) bool {
			return other.contestant == e.contestant && other.name != e.name
		})
	})
}

// pairs returns pairs of revisions of the same contestant: the one requested first with each of the others.
func pairs(entrants []entrant) (all [][2]entrant) {
	for i, older := range entrants {
		first := slices.IndexFunc(entrants, func(e entrant) bool { return e.contestant == older.contestant })
		if first < i {
			all = append(all, [2]entrant{entrants[first], older})
		}
	}
	return all
}
