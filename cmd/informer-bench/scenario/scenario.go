package scenario

import (
	"fmt"
	"slices"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Script is what the server does once a contestant has synced.
type Script int

// The scripts.
const (
	Sync      Script = iota // the server does nothing: the work ends with the sync
	Watch                   // it sends events
	Relist                  // it expires the version, and sends one event after the list
	Reconcile               // it sends events; the sync ends with the first reconcile of each object
	Alone                   // there is no server
	Read                    // the server does nothing while a synced contestant reads its cache
	Restart                 // the version may expire before the contestant restarts
)

// Scenario is one kind of work.
type Scenario struct {
	Name     string
	Group    string // for selecting several scenarios together
	Measures string
	Script   Script

	// Contestants take part in this order.
	Contestants []string

	// Variants are measured separately, one after another.
	Variants []protocol.Params

	// PerObject is the number of events per object.
	PerObject float64

	// OverTime records memory over time, not only its peak.
	OverTime bool

	// Smallest makes each round search for the smallest memory limit in which the work succeeds.
	Smallest bool

	// Rounds is the largest number of rounds; zero means no limit.
	Rounds int

	// Afresh makes the server create its objects for each contestant instead of holding them.
	Afresh bool

	// Takes is the peak memory of a contestant per object, in bytes, for contestants that may exceed the
	// machine's memory. A contestant is skipped if it would need half of that memory.
	Takes map[string]int
}

// Peer returns the contestant to compare Millrace with: client-go, or controller-runtime if client-go
// does not take part. If neither takes part, it returns Millrace.
func (s Scenario) Peer() string {
	for _, peer := range []string{results.ClientGo, results.ControllerRuntime} {
		if slices.Contains(s.Contestants, peer) {
			return peer
		}
	}
	return results.Millrace
}

// Choose returns the scenarios with one of the names, or in a group with one of the names, in the order of
// the table. Without names it returns all.
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

// Following lists the scenarios in which every contestant keeps a cache of the server's objects, with
// Params.Handlers handlers, until it is synced and the handlers have received the event Until.
func Following() []string {
	return []string{
		"sync-protobuf", "sync-json", "sync-watchlist", "growth", "limit", "relist-unchanged", "relist-changed",
		"watch-protobuf", "watch-json", "latency", "packed-sync", "packed-json", "packed-watch", "packed-minute", "million", "restart",
	}
}
