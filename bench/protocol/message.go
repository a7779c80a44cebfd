package protocol

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Start says what a contestant is to do.
type Start struct {
	Scenario string `json:"scenario"`

	// URL is that of the load server; empty for scenarios in process.
	URL string `json:"url,omitempty"`

	// Objects is how many objects there are.
	Objects int `json:"objects"`

	// Seed is that of the objects which a contestant makes itself.
	Seed uint64 `json:"seed"`

	// Until is the resource version whose event ends the work; 0 if the work
	// ends with the sync.
	Until uint64 `json:"until,omitempty"`

	// Params are those of the scenario, with numbers alone as values.
	Params Params `json:"params,omitempty"`
}

// Params are the knobs of a scenario: flags are 0 or 1.
type Params map[string]int

// The names of parameters.
const (
	Custom    = "custom"     // custom resources, which are JSON, instead of pods
	Typed     = "typed"      // custom resources have a Go type
	WatchList = "watchlist"  // stream the initial list
	Handlers  = "handlers"   // how many handlers hear of everything
	Readers   = "readers"    // how many readers list a namespace
	Workers   = "workers"    // how many workers take from the work queue
	Delayed   = "delayed"    // adds are delayed
	Events    = "events"     // how many events there are
	PerSecond = "per_second" // how fast they come; 0 is as fast as they can
	Hostile   = "hostile"    // objects in which nothing repeats
	Millis    = "millis"     // how long the work lasts
	Changed   = "changed"    // how many objects a relist finds changed
	Copied    = "copied"     // what is read may be changed
	From      = "from"       // the resource version of the list, for who does not read it
)

// SentAnnotation tells, in Unix nanoseconds, when an event was sent: that of
// test/apiserver, which the contestants do without.
const SentAnnotation = "millrace.dev/sent"

// On tells whether a flag is set.
func (p Params) On(name string) bool { return p[name] != 0 }

// Kinds of events.
const (
	EventReady  = "ready"
	EventMark   = "mark"
	EventResult = "result"
	EventError  = "error"
)

// Names of marks that the harness acts on.
const (
	MarkBegin  = "begin"  // in process: set up, the work begins
	MarkSynced = "synced" // the cache is complete, the handlers have heard of it
	MarkDone   = "done"   // everything was done

	// Between begin and synced, where there are controllers.
	MarkCached     = "cached"     // the cache is complete
	MarkReconciled = "reconciled" // each object was reconciled once
)

// Event is what a contestant says.
type Event struct {
	Event  string  `json:"event"`
	Name   string  `json:"name,omitempty"`
	Error  string  `json:"error,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// Result is the account that a contestant gives of itself.
type Result struct {
	// Objects is how many objects it has, and Digest which; Heard how many
	// events its handlers were told of after the sync. They must be the same
	// for all contestants. A contestant without a cache leaves them out.
	Objects int    `json:"objects"`
	Digest  Digest `json:"digest,omitempty"`
	Heard   int64  `json:"heard"`

	// Live is the heap that is in use after two collections, less what was in
	// use before the work.
	Live int64 `json:"live"`

	// Metrics are those that only the contestant can know, by the names of
	// the results file.
	Metrics map[string]float64 `json:"metrics,omitempty"`
}

// Digest is a sum over objects, so that their order does not matter.
type Digest uint64

// Add counts an object in: its key, its UID and its resource version.
func (d *Digest) Add(o metav1.Object) {
	h := fnv.New64a()
	for _, s := range [...]string{o.GetNamespace(), o.GetName(), string(o.GetUID()), o.GetResourceVersion()} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(s)))
		_, _ = h.Write(size[:]) // a hash takes everything
		_, _ = h.Write([]byte(s))
	}
	*d += Digest(h.Sum64())
}

// MarshalText writes the digest as 16 hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(d)), nil }

// UnmarshalText is the inverse of MarshalText.
func (d *Digest) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%x", (*uint64)(d))
	return err
}

// Quantile returns the q-quantile of sorted values: the smallest of them that
// at least the share q of all does not exceed. It is 0 where there are none.
func Quantile[N int64 | float64](sorted []N, q float64) N {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// Following lists the scenarios in which a contestant does one and the same:
// keep a cache of the server's objects, with Params.Handlers handlers, until it
// is synced and the handlers have heard of the event Until.
func Following() []string {
	return []string{
		"sync-protobuf", "sync-json", "sync-watchlist", "growth", "relist-unchanged", "relist-changed",
		"watch-protobuf", "watch-json", "latency",
	}
}
