package results

import (
	"cmp"
	"fmt"
	"slices"
)

// Bound says whether a limit is a minimum or a maximum.
type Bound int

// The bounds.
const (
	AtMost Bound = iota
	AtLeast
)

// Target is a performance goal: a limit for one metric of a contestant in a scenario.
type Target struct {
	Scenario string

	// Contestant defaults to Millrace itself. The only other contestants with targets are those that run on
	// Millrace.
	Contestant string

	Params Params // the target applies only to rows with these values
	Metric string
	Bound  Bound
	Limit  float64

	// Against is the contestant whose figure is multiplied by the limit. If it is empty, the limit is
	// absolute, in the metric's unit.
	Against string

	// Growth applies the limit to the ratio between the contestant's rows with the most and the fewest
	// objects. The target does not apply to the rows in between.
	Growth bool

	// What describes a target that is listed in a separate table. Missed is a sentence that explains why the
	// target is missed, if it is.
	What   string
	Missed string
}

// Targets returns all targets: for ordinary objects, for objects with no repeated content, for the adapters,
// for shared work and for packed caches. Sharing saves nothing if no content repeats, but the results must be
// no worse than client-go's. Near-identical Pods have no targets.
func Targets() []Target {
	return slices.Concat(usualTargets(), hostileTargets(), adapterTargets(), sharingTargets(), packedTargets())
}

// adapterTargets require that adopting an adapter, a one-line change, pays off if it is given the config, and
// costs nothing if client-go still does the decoding.
func adapterTargets() (targets []Target) {
	const same = 1.02 // smaller differences are noise
	for _, contestant := range []string{ClientGoFactory, ControllerRuntimeCache} {
		targets = append(targets,
			Target{Scenario: "sync-protobuf", Contestant: contestant, Metric: Wall, Limit: 0.3, Against: ClientGo, Missed: adapted},
			Target{Scenario: "sync-protobuf", Contestant: contestant, Metric: LivePerObject, Limit: 0.4, Against: ClientGo},
			Target{Scenario: "limit", Contestant: contestant, Metric: MemoryLimit, Limit: 0.275, Against: ClientGo})
	}
	for _, scenario := range []string{"sync-protobuf", "watch-protobuf"} {
		for _, params := range []Params{nil, {Hostile: 1}} {
			for _, metric := range []string{Wall, CPU, PeakRSS, LivePerObject} {
				targets = append(targets, Target{Scenario: scenario, Contestant: ClientGoInformer, Params: params, Metric: metric, Limit: same, Against: ClientGo, Missed: peerDecodes})
			}
		}
	}
	return targets
}

// sharingTargets are the targets for eight processes that split the work of one.
func sharingTargets() []Target {
	return []Target{
		{Scenario: "share-work", Metric: ThroughputRatio, Bound: AtLeast, Limit: 7},
		{Scenario: "share-work", Metric: MovedAtJoin, Limit: 1.0/9 + 0.02},
		{Scenario: "share-work", Metric: MovedAtLeave, Limit: 1.0/8 + 0.02},
		{Scenario: "share-work", Metric: OwnerlessLeave, Limit: 1},
		{Scenario: "share-work", Metric: OwnerlessCrash, Limit: 17}, // the lease is 15 s
		{Scenario: "share-work", Metric: Assign, Limit: 0.05},
		{Scenario: "share-cache", Params: Params{Chosen: 0}, Metric: MemoryPart, Limit: 0.16},
		{Scenario: "share-cache", Params: Params{Chosen: 0}, Metric: CPUPart, Limit: 0.16, Missed: "The process reads the bytes of all Pods, to decode an eighth of them."},
		{Scenario: "share-cache", Params: Params{Chosen: 1}, Metric: MemoryPart, Limit: 0.14},
		{Scenario: "share-cache", Params: Params{Chosen: 1}, Metric: CPUPart, Limit: 0.14, Missed: "Meanwhile Go returns the memory of the list of everything to the system, which takes a quarter of the CPU time."},
		{Scenario: "share-cache", Params: Params{Chosen: 1}, Metric: BytesPart, Limit: 0.14},
	}
}

func hostileTargets() (targets []Target) {
	for _, scenario := range []string{"sync-protobuf", "sync-json", "watch-protobuf", "watch-json"} {
		for _, metric := range []string{Wall, CPU, PeakRSS, LivePerObject} {
			t := Target{Scenario: scenario, Params: Params{Hostile: 1}, Metric: metric, Limit: 1, Against: ClientGo}
			if scenario == "sync-protobuf" && metric == CPU {
				t.Limit, t.Missed = 0.6, unshared
			}
			targets = append(targets, t)
		}
	}
	return targets
}

// Values small enough to be treated as zero.
const (
	none = 0.01    // allocations, including the runtime's own
	flat = 1 << 20 // bytes, below the noise from the garbage collector
)

// Reasons for missing several targets.
const (
	listTime    = "Decoding takes 45 % of the CPU time, half of that to allocate memory; the collector takes 19 %, and reading 15 %."
	unrepeated  = "A Pod contains 5 KB that no other Pod repeats."
	discards    = "The floor reads the bytes and discards them."
	typedJSON   = "If objects have a Go type, client-go decodes them twice as fast."
	adapted     = "Millrace without an adapter misses this limit too; the adapter's own code takes less than 1 % of the CPU time."
	peerDecodes = "client-go lists and decodes; Millrace's cache takes 2 % of the CPU time, and the one that it replaces takes 3 %."
	unshared    = "If nothing repeats, allocating memory takes 27 % of the CPU time, and the collector takes 20 %."
	untypedMaps = "Half of the time for decoding goes into the maps of unstructured objects."
	eventTime   = "Decoding takes half of the CPU time, and more than two fifths of that looks up parts."
	queueLocks  = "Adding, taking out and finishing a key lock the queue once each."
)

func usualTargets() []Target {
	return []Target{
		{Scenario: "sync-protobuf", Metric: Wall, Limit: 0.22, Against: ClientGo, Missed: listTime},
		{Scenario: "sync-protobuf", Metric: CPU, Limit: 0.25, Against: ClientGo, Missed: listTime},
		{Scenario: "sync-protobuf", Metric: PeakRSS, Limit: 0.25, Against: ClientGo, Missed: unrepeated},
		{Scenario: "sync-protobuf", Metric: LivePerObject, Limit: 0.33, Against: ClientGo, Missed: unrepeated},
		{Scenario: "sync-protobuf", Metric: Wall, Limit: 5, Against: Floor, Missed: discards},

		{Scenario: "sync-json", Metric: Wall, Limit: 0.10, Against: ClientGo, Missed: typedJSON},
		{Scenario: "sync-json", Metric: CPU, Limit: 0.12, Against: ClientGo, Missed: typedJSON},
		{Scenario: "sync-json", Metric: PeakRSS, Limit: 0.25, Against: ClientGo},
		{Scenario: "sync-json", Metric: LivePerObject, Limit: 0.33, Against: ClientGo},
		{Scenario: "sync-json", Metric: Wall, Limit: 5, Against: Floor, Missed: discards},

		{Scenario: "sync-watchlist", Metric: Wall, Limit: 0.15, Against: ClientGo, Missed: listTime},
		{Scenario: "sync-watchlist", Metric: CPU, Limit: 0.20, Against: ClientGo, Missed: listTime},
		{Scenario: "sync-watchlist", Metric: PeakRSS, Limit: 0.25, Against: ClientGo, Missed: unrepeated},
		{Scenario: "sync-watchlist", Metric: LivePerObject, Limit: 0.33, Against: ClientGo, Missed: unrepeated},
		{Scenario: "sync-watchlist", Metric: Wall, Limit: 5, Against: Floor, Missed: discards},

		{Scenario: "limit", Metric: MemoryLimit, Limit: 0.25, Against: ClientGo},

		{Scenario: "footprint", Metric: LivePerObject, Limit: 0.33, Against: ClientGo, Missed: unrepeated},

		{Scenario: "growth", Metric: CPUPerObject, Limit: 1.2, Growth: true},

		{Scenario: "relist-unchanged", Metric: Wall, Limit: 0.10, Against: ClientGo},
		{Scenario: "relist-unchanged", Metric: CPU, Limit: 0.10, Against: ClientGo},
		{Scenario: "relist-unchanged", Metric: PeakOverSteady, Limit: 1.1},

		{Scenario: "watch-protobuf", Metric: CPUPerEvent, Limit: 0.22, Against: ClientGo, Missed: eventTime},
		{Scenario: "watch-protobuf", Metric: EventsPerSec, Bound: AtLeast, Limit: 4, Against: ClientGo, Missed: eventTime},
		{Scenario: "watch-json", Metric: CPUPerEvent, Limit: 0.08, Against: ClientGo, Missed: untypedMaps},
		{Scenario: "watch-json", Metric: EventsPerSec, Bound: AtLeast, Limit: 12, Against: ClientGo, Missed: untypedMaps},

		{Scenario: "fanout", Params: Params{Handlers: 1}, Metric: WallPerEvent, Limit: 0.33, Against: ClientGo, Missed: "Each event is also recorded, for informer-debug why."},
		{Scenario: "fanout", Params: Params{Handlers: 10}, Metric: WallPerEvent, Limit: 0.2, Against: ClientGo},
		{Scenario: "fanout", Params: Params{Handlers: 100}, Metric: WallPerEvent, Limit: 0.1, Against: ClientGo},
		{Scenario: "fanout", Metric: AllocsPerEvent, Limit: 2},

		{Scenario: "latency", Metric: P99, Limit: 0.33, Against: ClientGo},

		{Scenario: "readers", Params: Params{Readers: 80}, Metric: ReadsPerSec, Bound: AtLeast, Limit: 10, Against: ClientGo},
		{Scenario: "readers", Params: Params{Readers: 80}, Metric: WritesPerSec, Bound: AtLeast, Limit: 3, Against: ClientGo, Missed: "The readers occupy all CPUs."},

		{Scenario: "workqueue", Params: Params{Workers: 1, Delayed: 0}, Metric: WallPerEvent, Limit: 0.33, Against: ClientGo, Missed: queueLocks},
		{Scenario: "workqueue", Params: Params{Workers: 8, Delayed: 0}, Metric: WallPerEvent, Limit: 0.33, Against: ClientGo, Missed: queueLocks},
		{Scenario: "workqueue", Params: Params{Delayed: 0}, Metric: AllocsPerEvent, Limit: none},

		{Scenario: "late-handler", Metric: Pause, Limit: 0.001},
		{Scenario: "slow-handler", Metric: Held, Limit: flat},

		{Scenario: "reconcile", Metric: CPUPerReconcile, Limit: 0.5, Against: ControllerRuntime},
		{Scenario: "reconcile", Metric: CPUPerEvent, Limit: 0.45, Against: ControllerRuntime, Missed: "The events are 200 µs apart. Decoding takes 60 % of the CPU time, and half of that looks up parts."},
		{Scenario: "reconcile", Metric: FirstReconcile, Limit: 0.05, Missed: "The controller puts all Pods into its queue before it starts the workers."},
		{Scenario: "reconcile", Metric: PeakRSS, Limit: 0.4, Against: ControllerRuntime},

		{Scenario: "manager", Metric: Wall, Limit: 0.4, Against: ControllerRuntime},
		{Scenario: "manager", Metric: CPU, Limit: 0.4, Against: ControllerRuntime},

		{Scenario: "cached-read", Params: Params{Copied: 0}, Metric: GetAllocs, Limit: none},
		{Scenario: "cached-read", Params: Params{Copied: 0}, Metric: NamespaceAllocs, Limit: none},
		{Scenario: "cached-read", Params: Params{Copied: 0}, Metric: LabelAllocs, Limit: none},
		{Scenario: "cached-read", Params: Params{Copied: 0}, Metric: IndexAllocs, Limit: none},
	}
}

// applies reports whether the target applies to x.
func (t Target) applies(x *Result) bool {
	return x.Contestant == cmp.Or(t.Contestant, Millrace) && x.Scenario == t.Scenario && x.Params.SameLoad(t.Params) && x.Params.Has(t.Params)
}

// Want describes the limit: "≤ 0.15 × client-go".
func (t Target) Want() string {
	sign := "≤"
	if t.Bound == AtLeast {
		sign = "≥"
	}
	switch {
	case t.Growth:
		return fmt.Sprintf("%s %.3g × with the fewest objects", sign, t.Limit)
	case t.Against != "":
		return fmt.Sprintf("%s %.3g × %s", sign, t.Limit, t.Against)
	}
	return sign + " " + Format(t.Metric, t.Limit)
}

// String describes the target without its scenario: "wall ≤ 0.15 × client-go", or "reads ≥ 10 × client-go
// (readers=80)".
func (t Target) String() string {
	text := t.Figure() + " " + t.Want()
	if len(t.Params) > 0 {
		text += " (" + t.Params.String() + ")"
	}
	return text
}

// Figure returns the figure that the target applies to: "wall", or "wall of clientgo+millrace".
func (t Target) Figure() string {
	if t.Contestant == "" {
		return Title(t.Metric)
	}
	return Title(t.Metric) + " of " + t.Contestant
}
