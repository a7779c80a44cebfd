package scenario

import (
	"fmt"
	"slices"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Script says what the server does once a contestant is synced.
type Script int

// The scripts.
const (
	Sync      Script = iota // nothing: the work ends with the sync
	Watch                   // it sends events
	Relist                  // it lets the version expire, and sends one event after the list
	Reconcile               // it sends events; the sync ends with the first reconcile of each object
	Alone                   // there is no server
	Read                    // nothing, while a synced contestant reads its cache
	Restart                 // the version expires, if it does, before the contestant begins anew
)

// Scenario is one kind of work.
type Scenario struct {
	Name     string
	Group    string // of scenarios that can be asked for together
	Measures string
	Script   Script

	// Contestants take part in this order.
	Contestants []string

	// Variants are measured one after the other, each for itself.
	Variants []protocol.Params

	// PerObject is how many events there are for each object.
	PerObject float64

	// OverTime: how memory develops is of interest, not only its peak.
	OverTime bool

	// Rounds is how many there are at most; as many as are asked for if zero.
	Rounds int

	// Afresh lets the server make its objects for each contestant, and hold none.
	Afresh bool

	// Takes is how many bytes a contestant takes at its peak for an object, where it may be
	// more than there is: it is left out if all would take half of the machine's memory.
	Takes map[string]int
}

// Peer is the contestant that Millrace is compared with: client-go, or
// controller-runtime where client-go takes no part. Millrace has no peer but itself where
// neither does.
func (s Scenario) Peer() string {
	for _, peer := range []string{results.ClientGo, results.ControllerRuntime} {
		if slices.Contains(s.Contestants, peer) {
			return peer
		}
	}
	return results.Millrace
}

// Choose returns the scenarios that have one of the names, or are in a group that has, in
// the order of the list; all if there are no names.
func Choose(names []string) ([]Scenario, error) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []Scenario
	for _, s := range all {
		if slices.Contains(names, s.Name) || slices.Contains(names, s.Group) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s Scenario) bool { return s.Name == name || s.Group == name }) {
			return nil, fmt.Errorf("there is no scenario, nor a group of them, %q: see informer-bench list", name)
		}
	}
	return chosen, nil
}

// Following lists the scenarios in which a contestant does one and the same:
// keep a cache of the server's objects, with Params.Handlers handlers, until it
// is synced and the handlers have heard of the event Until.
func Following() []string {
	return []string{
		"sync-protobuf", "sync-json", "sync-watchlist", "growth", "relist-unchanged", "relist-changed",
		"watch-protobuf", "watch-json", "latency", "packed-sync", "packed-json", "packed-watch", "packed-minute", "million", "restart",
	}
}
