package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/bench/protocol"
	"github.com/millrace-dev/millrace/bench/results"
)

// The contestants, by the names that the results have for them.
const (
	millrace          = results.Millrace
	clientGo          = results.ClientGo
	controllerRuntime = results.ControllerRuntime
	floor             = results.Floor
	clientGoFactory   = results.ClientGoFactory
	clientGoInformer  = results.ClientGoInformer

	controllerRuntimeCache = results.ControllerRuntimeCache
)

// source is what a contestant is built from: a directory below bench/, and a
// build tag where it has several contestants.
type source struct{ directory, tag string }

var sources = map[string]source{
	millrace:               {"millrace", ""},
	clientGo:               {"clientgo", ""},
	clientGoFactory:        {"clientgo", "millrace_factory"},
	clientGoInformer:       {"clientgo", "millrace_informer"},
	controllerRuntime:      {"controllerruntime", ""},
	controllerRuntimeCache: {"controllerruntime", "millrace"},
	floor:                  {"floor", ""},
}

// script says what the server does once a contestant is synced.
type script int

const (
	scriptSync      script = iota // nothing: the work ends with the sync
	scriptWatch                   // it sends events
	scriptRelist                  // it lets the version expire, and sends one event after the list
	scriptReconcile               // it sends events; the sync ends with the first reconcile of each object
	scriptAlone                   // there is no server
)

// scenario is one kind of work.
type scenario struct {
	name     string
	measures string
	script   script

	// contestants take part in this order.
	contestants []string

	// variants are measured one after the other, each for itself.
	variants []protocol.Params

	// perObject is how many events there are for each object.
	perObject float64

	// overTime: how memory develops is of interest, not only its peak.
	overTime bool
}

// Values of a parameter that depend on the number of objects.
const (
	defaultObjects = 50_000
	defaultSeed    = 1
)

func scenarios() []scenario {
	return slices.Concat(syncScenarios(), watchScenarios(), processScenarios(), controllerScenarios())
}

// everyone are all contestants, and cached those that have a cache. The floor
// comes last, since nothing is compared with it but times.
func everyone() []string { return []string{millrace, clientGo, controllerRuntime, floor} }
func cached() []string   { return []string{millrace, clientGo, controllerRuntime} }
func both() []string     { return []string{millrace, clientGo} }

// adapted are everyone and those that put Millrace behind others' interfaces.
func adapted() []string {
	return []string{millrace, clientGoFactory, clientGoInformer, clientGo, controllerRuntimeCache, controllerRuntime, floor}
}

// layered are those that have the layer of controllers, or of the cache below it.
func layered() []string { return []string{millrace, controllerRuntimeCache, controllerRuntime} }

func syncScenarios() []scenario {
	return []scenario{{
		name: "sync-protobuf", measures: "list Pods in protobuf until a handler has heard of each",
		contestants: adapted(), variants: []protocol.Params{{}, {protocol.Hostile: 1}},
	}, {
		name: "sync-json", measures: "list custom resources in JSON, as unstructured and as typed objects",
		contestants: everyone(),
		variants: []protocol.Params{
			{protocol.Custom: 1}, {protocol.Custom: 1, protocol.Typed: 1}, {protocol.Custom: 1, protocol.Hostile: 1},
		},
	}, {
		name: "sync-watchlist", measures: "stream the initial Pods in protobuf (KEP-3157)",
		contestants: everyone(), variants: []protocol.Params{{protocol.WatchList: 1}},
	}, {
		name: "growth", measures: "sync-protobuf with 0.2, 1 and 3 times the objects: cost per object",
		contestants: both(),
		variants:    []protocol.Params{{scale: 20}, {scale: 100}, {scale: 300}},
	}, {
		name: "footprint", measures: "bytes an object, goroutines and bytes an informer and an idle handler",
		contestants: both(), variants: []protocol.Params{{}},
	}}
}

func watchScenarios() []scenario {
	return []scenario{{
		name: "relist-unchanged", measures: "the version expires, a list finds nothing changed (without the back-off before it)",
		script: scriptRelist, contestants: cached(), variants: []protocol.Params{{}},
	}, {
		name: "relist-changed", measures: "the same, with one object in a hundred changed",
		script: scriptRelist, contestants: cached(), variants: []protocol.Params{{changedPercent: 1}},
	}, {
		name: "watch-protobuf", measures: "MODIFIED events of Pods in protobuf, as fast as they are taken",
		script: scriptWatch, contestants: adapted(), perObject: 2,
		variants: []protocol.Params{{}, {protocol.Hostile: 1}},
	}, {
		name: "watch-json", measures: "MODIFIED events of custom resources in JSON, as fast as they are taken",
		script: scriptWatch, contestants: everyone(), perObject: 0.4,
		variants: []protocol.Params{{protocol.Custom: 1}, {protocol.Custom: 1, protocol.Hostile: 1}},
	}, {
		name: "latency", measures: "from the server's socket to a handler, 5000 events a second, 10 handlers",
		script: scriptWatch, contestants: cached(), perObject: 0.5,
		variants: []protocol.Params{{protocol.Handlers: 10, protocol.PerSecond: 5000}},
	}}
}

func processScenarios() []scenario {
	return []scenario{{
		name: "fanout", measures: "events in memory to 1, 10 and 100 handlers",
		script: scriptAlone, contestants: both(), perObject: 10,
		variants: []protocol.Params{
			{scale: 20, protocol.Handlers: 1}, {scale: 20, protocol.Handlers: 10}, {scale: 20, protocol.Handlers: 100},
		},
	}, {
		name: "readers", measures: "0 to 80 readers list namespaces of small objects beside one writer, ten events ahead",
		script: scriptAlone, contestants: both(),
		variants: []protocol.Params{
			{scale: 20, protocol.Readers: 0, protocol.Millis: 2000},
			{scale: 20, protocol.Readers: 80, protocol.Millis: 2000},
			{scale: 320, protocol.Readers: 80, protocol.Millis: 2000},
		},
	}, {
		name: "workqueue", measures: "keys added, got and done: by one worker, by eight, and after a delay",
		script: scriptAlone, contestants: both(), perObject: 20,
		variants: []protocol.Params{
			{protocol.Workers: 1}, {protocol.Workers: 8}, {protocol.Workers: 1, protocol.Delayed: 1},
		},
	}, {
		name: "late-handler", measures: "a handler joins at 5000 events a second: by how much the others hear later",
		script: scriptAlone, contestants: both(), perObject: 0.5,
		variants: []protocol.Params{{protocol.PerSecond: 5000}},
	}, {
		name: "slow-handler", measures: "a handler sleeps through a million events of 1000 objects: what is held for it",
		script: scriptAlone, contestants: both(), perObject: 1000, overTime: true,
		variants: []protocol.Params{{scale: 2}},
	}}
}

func controllerScenarios() []scenario {
	return []scenario{{
		name: "reconcile", measures: "a controller that finds nothing to do: each Pod at the start, then 5000 changes a second",
		script: scriptReconcile, contestants: layered(), perObject: 0.2,
		variants: []protocol.Params{{protocol.PerSecond: 5000}},
	}, {
		name: "cached-read", measures: "get, list by namespace, by label and by field index, as it is cached and as a copy",
		script: scriptAlone, contestants: layered(),
		variants: []protocol.Params{{protocol.Millis: 100}, {protocol.Millis: 100, protocol.Copied: 1}},
	}}
}

// Parameters that are resolved before a contestant sees them.
const (
	scale          = "scale_percent"   // of the number of objects
	changedPercent = "changed_percent" // of the objects
)

// job is a variant of a scenario with every number settled.
type job struct {
	scenario
	objects int
	params  protocol.Params // what tells the variant from others of its scenario
}

// resolve settles the numbers for that many objects.
func (s scenario) resolve(objects int) []job {
	var jobs []job
	for _, variant := range s.variants {
		j := job{scenario: s, objects: objects, params: maps.Clone(variant)}
		if percent, ok := j.params[scale]; ok {
			delete(j.params, scale)
			j.objects = max(1, objects*percent/100)
		}
		if percent, ok := j.params[changedPercent]; ok {
			delete(j.params, changedPercent)
			j.params[protocol.Changed] = max(1, j.objects*percent/100)
		}
		if s.perObject > 0 {
			j.params[protocol.Events] = max(1, int(float64(j.objects)*s.perObject))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// lists is how many lists a contestant asks for that does what the scenario is
// about.
func (j job) lists() int {
	switch {
	case j.params.On(protocol.WatchList):
		return 0
	case j.script == scriptRelist:
		return 2
	}
	return 1
}

// peer is whom Millrace is compared with: client-go, or controller-runtime where
// client-go takes no part.
func (s scenario) peer() string {
	if slices.Contains(s.contestants, clientGo) {
		return clientGo
	}
	return controllerRuntime
}

// title is the scenario and its parameters in a line.
func (j job) title() string {
	parts := []string{fmt.Sprintf("%s: %d objects", j.name, j.objects)}
	for _, name := range slices.Sorted(maps.Keys(j.params)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, j.params[name]))
	}
	return strings.Join(parts, ", ")
}

// choose returns the scenarios of those names, in the order of the list; all if
// there are none.
func choose(names []string) ([]scenario, error) {
	all := scenarios()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []scenario
	for _, s := range all {
		if slices.Contains(names, s.name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s scenario) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no scenario %q: see informer-bench list", name)
		}
	}
	return chosen, nil
}
