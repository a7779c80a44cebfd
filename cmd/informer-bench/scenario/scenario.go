package scenario

import (
	"fmt"
	"slices"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Script determines how the server behaves once a contestant has synced.
type Script int

// The scripts.
const (
	Sync      Script = iota // the server does nothing; the work is done after the sync
	Watch                   // it sends events
	Relist                  // it expires the resource version, and sends one event after the list
	Reconcile               // it sends events; the sync is complete when each object has been reconciled once
	Alone                   // there is no server
	Read                    // the server does nothing while a synced contestant reads its cache
	Restart                 // the resource version may expire before the contestant restarts
)

// Scenario is one kind of work.
type Scenario struct {
	Name     string
	Group    string // selects several scenarios at once
	Measures string
	Script   Script

	// Contestants are listed in the order in which they take turns.
	Contestants []string

	// Variants are measured one at a time.
	Variants []protocol.Params

	// PerObject is the number of events per object.
	PerObject float64

	// OverTime means that memory is recorded over time, in addition to its peak.
	OverTime bool

	// Smallest means that each round looks for the smallest memory limit under which the work succeeds.
	Smallest bool

	// Rounds is the maximum number of rounds; zero means no limit.
	Rounds int

	// Afresh means that the server recreates its objects for each contestant instead of keeping them in
	// memory.
	Afresh bool

	// Takes is the peak memory per object, in bytes, of contestants that may exceed the machine's memory. A
	// contestant is skipped if it would need more than half of the machine's memory.
	Takes map[string]int
}

// Peer returns the contestant to compare Millrace with: client-go, or controller-runtime if client-go is not
// measured. If neither is, it returns Millrace.
func (s Scenario) Peer() string {
	for _, peer := range []string{results.ClientGo, results.ControllerRuntime} {
		if slices.Contains(s.Contestants, peer) {
			return peer
		}
	}
	return results.Millrace
}

// Choose returns the scenarios whose name, or whose group's name, is in names, in table order. It returns all
// scenarios if there are no names.
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
			return nil, fmt.Errorf("unknown scenario or group %q: see informer-bench list", name)
		}
	}
	return chosen, nil
}

// Following lists the scenarios in which contestants cache the server's objects, with Params.Handlers
// handlers. The work ends when the cache has synced and the handlers have received the event Until.
func Following() []string {
	return []string{
		"sync-protobuf", "sync-json", "sync-watchlist", "growth", "limit", "relist-unchanged", "relist-changed",
		"watch-protobuf", "watch-json", "latency", "packed-sync", "packed-json", "packed-watch", "packed-minute", "million", "restart",
	}
}
