package results

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// known lists the metrics in display order, with their titles.
func known() [][2]string {
	return [][2]string{
		{Wall, "wall"},
		{CPU, "CPU"},
		{MemoryLimit, "smallest memory limit"},
		{PeakRSS, "peak RSS"},
		{PeakOverSteady, "peak over steady memory"},
		{LivePerObject, "live heap an object"},
		{EventsPerSec, "events"},
		{WallPerObject, "wall an object"},
		{CPUPerObject, "CPU an object"},
		{WallPerEvent, "wall an event"},
		{CPUPerEvent, "CPU an event"},
		{AllocsPerEvent, "allocations an event"},
		{P50, "latency p50"},
		{P99, "latency p99"},
		{P999, "latency p99.9"},
		{ReadsPerSec, "reads"},
		{WritesPerSec, "writes"},
		{Pause, "intake pause"},
		{Held, "memory held"},
		{CaughtUp, "time to catch up"},
		{FirstReconcile, "first reconcile after sync"},
		{CPUPerReconcile, "CPU a reconcile at the start"},
		{Get, "get"},
		{ReadNamespace, "list by namespace"},
		{ReadLabel, "list by label"},
		{ReadIndex, "list by index"},
		{GetAllocs, "allocations a get"},
		{NamespaceAllocs, "allocations a list by namespace"},
		{LabelAllocs, "allocations a list by label"},
		{IndexAllocs, "allocations a list by index"},
		{GetUsed, "get, in use"},
		{GetOther, "get, not in use"},
		{Thousand, "1,000 objects by index"},
		{CollectorCPU, "CPU of the collector"},
		{CollectorCycles, "collections"},
		{FirstCall, "until a handler is called"},
		{ThroughputRatio, "throughput over that of one"},
		{MemoryPart, "memory of one of them"},
		{CPUPart, "CPU of one of them"},
		{BytesPart, "bytes received by one of them"},
		{ByServer, "chosen by the server"},
		{MovedAtJoin, "slots moved when one more comes"},
		{MovedAtLeave, "slots moved when one leaves"},
		{OwnerlessLeave, "without an owner when one leaves"},
		{OwnerlessCrash, "without an owner when one dies"},
		{Assign, "slots of 10,000 members"},
		{InformerGoroutines, "goroutines an informer"},
		{HandlerGoroutines, "goroutines a handler"},
		{HandlerBytes, "memory a handler"},
	}
}

// Title returns a metric's title for use in tables. It defaults to the metric's name.
func Title(metric string) string {
	for _, k := range known() {
		if k[0] == metric {
			return k[1]
		}
	}
	return metric
}

// MoreIsBetter reports whether higher values of a metric are better, as for rates.
func MoreIsBetter(metric string) bool { return strings.HasSuffix(metric, "_per_s") }

// Ordered returns the metrics of a result in display order: the known ones, then others by name.
func Ordered(metrics map[string]Stat) []string {
	place := map[string]int{}
	for i, k := range known() {
		place[k[0]] = i - len(known()) // negative, so that unknown metrics (0) sort last
	}
	return slices.SortedFunc(maps.Keys(metrics), func(a, b string) int {
		return cmp.Or(cmp.Compare(place[a], place[b]), strings.Compare(a, b))
	})
}
