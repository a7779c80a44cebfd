package scenario

import (
	"slices"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// packedScenarios are the scenarios for packed caches. With client-go, "handlers that want keys" read only
// the key of each object.
func packedScenarios() []Scenario {
	three := []string{results.Millrace, results.MillracePacked, results.ClientGo}
	return []Scenario{{
		Name: "packed-sync", Measures: "sync-protobuf, for handlers that want keys and for handlers that want objects",
		Contestants: []string{
			results.Millrace, results.MillracePacked, results.ClientGo, results.ControllerRuntimePacked, results.Floor,
		},
		Variants: []protocol.Params{{Keys: 1}, {}, {Keys: 1, Alike: 1}, {Keys: 1, Hostile: 1}},
	}, {
		Name: "packed-json", Measures: "sync-json, as unstructured objects; handlers want keys",
		Contestants: three, Variants: []protocol.Params{{Keys: 1, Custom: 1}},
	}, {
		Name: "packed-watch", Measures: "watch-protobuf, for handlers that want keys and for handlers that want objects",
		Script: Watch, Contestants: three, PerObject: 1,
		Variants: []protocol.Params{{Keys: 1}, {}},
	}, {
		Name: "packed-minute", Measures: "a minute of 1000 events a second, with three times the objects: memory, and CPU of the garbage collector",
		Script: Watch, Contestants: three, PerObject: 0.4, Rounds: 2,
		Variants: []protocol.Params{{scale: 300, Keys: 1, PerSecond: 1000, Collected: 1}},
	}, {
		Name: "packed-read", Measures: "get objects in use, others, and a thousand by an index; controller-runtime returns copies",
		Script: Read, Contestants: append(layered(), results.MillracePacked, results.ControllerRuntimePacked),
		Variants: []protocol.Params{{Millis: 300}},
	}, {
		Name: "restart", Measures: "a process restarts and nothing has changed: until a handler is called, and until it is synced",
		Script: Restart, Contestants: append(slices.Clone(three), results.Floor),
		Variants: []protocol.Params{{Keys: 1}, {Keys: 1, Expired: 1}},
	}, {
		Name: "million", Measures: "stream 2, 10 and 20 times the objects as the server makes them; handlers want keys",
		Contestants: []string{results.MillracePacked, results.ClientGo}, Rounds: 1,
		Afresh: true, Takes: map[string]int{results.ClientGo: 21_000},
		Variants: []protocol.Params{
			{scale: 200, Keys: 1, WatchList: 1}, {scale: 1000, Keys: 1, WatchList: 1}, {scale: 2000, Keys: 1, WatchList: 1},
		},
	}}
}
