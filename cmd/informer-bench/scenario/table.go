package scenario

import (
	"slices"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/internal/objects"
)

// All returns the scenarios in the order in which they are measured.
func All() []Scenario {
	groups := []struct {
		name      string
		scenarios []Scenario
	}{
		{"sync", syncScenarios()}, {"watch", watchScenarios()}, {"process", processScenarios()},
		{"controllers", controllerScenarios()}, {"sharing", sharingScenarios()}, {"packed", packedScenarios()},
	}
	var all []Scenario
	for _, g := range groups {
		for _, s := range g.scenarios {
			s.Group = g.name
			all = append(all, s)
		}
	}
	return all
}

// Contestants returns all contestants: the libraries, Millrace behind the other libraries' interfaces, the
// bound for generated decoders and, last, the floor, for which only times are compared.
func Contestants() []string {
	return []string{
		results.Millrace, results.MillracePacked, results.ClientGoFactory, results.ClientGoInformer, results.ClientGo,
		results.ControllerRuntimeCache, results.ControllerRuntimePacked, results.ControllerRuntime, results.Unmarshal, results.Floor,
	}
}

// whole returns the contestants that do not pack objects.
func whole() []string {
	return slices.DeleteFunc(Contestants(), func(name string) bool {
		return name == results.MillracePacked || name == results.ControllerRuntimePacked || name == results.Unmarshal
	})
}

// libraries returns the contestants except the adapters.
func libraries() []string {
	return []string{results.Millrace, results.ClientGo, results.ControllerRuntime, results.Floor}
}

// cached returns the libraries except the floor.
func cached() []string {
	return []string{results.Millrace, results.ClientGo, results.ControllerRuntime}
}

func both() []string { return []string{results.Millrace, results.ClientGo} }

// layered returns the contestants that include controllers, or just the cache that controllers use.
func layered() []string {
	return []string{results.Millrace, results.ControllerRuntimeCache, results.ControllerRuntime}
}

func syncScenarios() []Scenario {
	return []Scenario{{
		Name: "sync-protobuf", Measures: "list Pods in protobuf until a handler was called for each; beside it, the limit of generated decoders",
		Contestants: append(whole(), results.Unmarshal), Variants: []protocol.Params{{}, {Alike: 1}, {Hostile: 1}},
	}, {
		Name: "sync-json", Measures: "list custom resources in JSON, as unstructured and as typed objects",
		Contestants: libraries(),
		Variants: []protocol.Params{
			{Custom: 1}, {Custom: 1, Typed: 1}, {Custom: 1, Hostile: 1},
		},
	}, {
		Name: "sync-watchlist", Measures: "stream the initial Pods in protobuf (KEP-3157)",
		Contestants: libraries(), Variants: []protocol.Params{{WatchList: 1}},
	}, {
		Name: "growth", Measures: "sync-protobuf with 0.2, 1 and 3 times the objects: cost per object",
		Contestants: both(),
		Variants:    []protocol.Params{{scale: 20}, {scale: 100}, {scale: 300}},
	}, {
		Name: "limit", Measures: "the smallest memory limit in which Pods and ConfigMaps are listed and, after an expired version, Pods are listed again",
		Script: Relist, Smallest: true, Rounds: 1,
		Contestants: slices.DeleteFunc(Contestants(), func(name string) bool { return name == results.Unmarshal || name == results.Floor }),
		Variants:    []protocol.Params{{scale: 40, configMapPercent: 25}},
	}, {
		Name: "footprint", Measures: "bytes an object, goroutines and bytes an informer and an idle handler",
		Contestants: both(), Variants: []protocol.Params{{}},
	}}
}

func watchScenarios() []Scenario {
	return []Scenario{{
		Name: "relist-unchanged", Measures: "the version expires, a list finds nothing changed (without the back-off before it)",
		Script: Relist, Contestants: cached(), Variants: []protocol.Params{{}},
	}, {
		Name: "relist-changed", Measures: "the same, with one object in a hundred changed",
		Script: Relist, Contestants: cached(), Variants: []protocol.Params{{changedPercent: 1}},
	}, {
		Name: "watch-protobuf", Measures: "MODIFIED events of Pods in protobuf, as fast as the contestant reads them",
		Script: Watch, Contestants: whole(), PerObject: 2,
		Variants: []protocol.Params{{}, {Alike: 1}, {Hostile: 1}},
	}, {
		Name: "watch-json", Measures: "MODIFIED events of custom resources in JSON, as fast as the contestant reads them",
		Script: Watch, Contestants: libraries(), PerObject: 0.4,
		Variants: []protocol.Params{{Custom: 1}, {Custom: 1, Hostile: 1}},
	}, {
		Name: "latency", Measures: "from the server's socket to a handler, 5000 events a second, 10 handlers",
		Script: Watch, Contestants: cached(), PerObject: 0.5,
		Variants: []protocol.Params{{Handlers: 10, PerSecond: 5000}},
	}}
}

func processScenarios() []Scenario {
	return []Scenario{{
		Name: "fanout", Measures: "events in memory to 1, 10 and 100 handlers",
		Script: Alone, Contestants: both(), PerObject: 10,
		Variants: []protocol.Params{
			{scale: 20, Handlers: 1}, {scale: 20, Handlers: 10}, {scale: 20, Handlers: 100},
		},
	}, {
		Name: "readers", Measures: "0 to 80 readers list namespaces of small objects beside one writer, ten events ahead",
		Script: Alone, Contestants: both(),
		Variants: []protocol.Params{
			{scale: 20, Readers: 0, Millis: 2000},
			{scale: 20, Readers: 80, Millis: 2000},
			{scale: 320, Readers: 80, Millis: 2000},
		},
	}, {
		Name: "workqueue", Measures: "keys added, got and done: by one worker, by eight, and after a delay",
		Script: Alone, Contestants: both(), PerObject: 20,
		Variants: []protocol.Params{
			{Workers: 1}, {Workers: 8}, {Workers: 1, Delayed: 1},
		},
	}, {
		Name: "late-handler", Measures: "a handler joins at 5000 events a second: the delay for the others",
		Script: Alone, Contestants: both(), PerObject: 0.5,
		Variants: []protocol.Params{{PerSecond: 5000}},
	}, {
		Name: "slow-handler", Measures: "a handler sleeps through a million events of 1000 objects: the memory held for it",
		Script: Alone, Contestants: both(), PerObject: 1000, OverTime: true,
		Variants: []protocol.Params{{scale: 2}},
	}}
}

func sharingScenarios() []Scenario {
	return []Scenario{{
		Name: "share-work", Measures: "reconciles that wait 5 ms, by 8 programs and by one; slots when a program joins, leaves and dies",
		Script: Read, Contestants: []string{results.Millrace}, Rounds: 2,
		Variants: []protocol.Params{{scale: 4, Replicas: 8}},
	}, {
		Name: "share-cache", Measures: "list one of 8 shares, and everything: memory, CPU and bytes of the share relative to everything",
		Script: Read, Contestants: []string{results.Millrace},
		Variants: []protocol.Params{{Replicas: 8}, {Replicas: 8, Chosen: 1}},
	}}
}

func controllerScenarios() []Scenario {
	return []Scenario{{
		Name: "reconcile", Measures: "a controller with nothing to do: each Pod at the start, then 5000 changes a second",
		Script: Reconcile, Contestants: layered(), PerObject: 0.2,
		Variants: []protocol.Params{{PerSecond: 5000}},
	}, {
		Name: "manager", Measures: "a manager with ten kinds of a fifth of the objects each, until its first reconcile",
		Script: Read, Contestants: layered(),
		Variants: []protocol.Params{{scale: 20, Kinds: len(objects.Kinds())}},
	}, {
		Name: "cached-read", Measures: "get, list by namespace, by label and by field index, of shared objects and of copies",
		Script: Alone, Contestants: layered(),
		Variants: []protocol.Params{{Millis: 100}, {Millis: 100, Copied: 1}},
	}}
}
