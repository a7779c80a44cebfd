package sight

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// Choose returns the informers selected by types, or all informers if they are our own.
func Choose(all []debug.Informer, types string, attached bool) (found []debug.Informer, err error) {
	if !attached {
		return all, nil
	}
	if len(all) == 0 {
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: errors.New("the process exposes no informers")}
	}
	if types == "" {
		return all, nil
	}
	add := func(name string) bool {
		some := Named(all, name)
		found = append(found, some...)
		return len(some) > 0
	}
	if add(types) { // selectors in the name may contain commas
		return found, nil
	}
	for word := range strings.SplitSeq(types, ",") {
		if !add(word) {
			names := Distinct(all)
			return nil, &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("no informer is named %q; available: %s", word, strings.Join(slices.Compact(names), "; "))}
		}
	}
	return found, nil
}

// Named returns the informer with this full name or, if there is none, all informers that the name could
// mean.
func Named(all []debug.Informer, name string) (found []debug.Informer) {
	for _, i := range all {
		if name == i.String() {
			return []debug.Informer{i}
		}
		if flight.NamesWhole(name, i.Reflector.Resource) {
			found = append(found, i)
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, i := range all {
		if flight.Names(name, i.Reflector.Resource) {
			found = append(found, i)
		}
	}
	return found
}

// Several returns the error for a name that matches several informers.
func Several(name string, found []debug.Informer) error {
	return exit.Usage("%q matches %d informers: select one by its full name: %s", name, len(found), strings.Join(Distinct(found), "; "))
}

// Distinct returns unique names for informers, adding types and clusters to duplicates. Each name can be used
// on the command line to select its informer.
func Distinct(all []debug.Informer) (names []string) {
	same := map[string]int{}
	for n := range all {
		same[all[n].Reflector.Resource]++
	}
	for n := range all {
		name := all[n].Reflector.Resource
		if same[name] > 1 {
			name = all[n].String()
		}
		names = append(names, name)
	}
	return names
}

// AndTrouble completes a sentence with the problem that delays an informer's changes, if there is one.
func AndTrouble(i *debug.Informer, now time.Time) string {
	if text := i.Trouble(now); text != "" {
		return ", and " + text
	}
	return ""
}

// Newer reports whether a is known to be newer than b.
func Newer(a, b string) bool {
	order, err := object.CompareRV(a, b)
	return err == nil && order > 0
}
