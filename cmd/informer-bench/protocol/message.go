package protocol

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Start is the command that starts a contestant's work.
type Start struct {
	Scenario string `json:"scenario"`

	// URL is the address of the load server. It is empty for scenarios without one.
	URL string `json:"url,omitempty"`

	// Objects is the number of objects.
	Objects int `json:"objects"`

	// Seed is the seed for objects that the contestant generates itself.
	Seed uint64 `json:"seed"`

	// Until is the resource version of the last event to wait for, or 0 if the work ends with the sync.
	Until uint64 `json:"until,omitempty"`

	// Params are the parameters of the scenario.
	Params Params `json:"params,omitempty"`
}

// Params are the parameters of a scenario. Flags are 0 or 1.
type Params map[string]int

// On reports whether a flag is set.
func (p Params) On(name string) bool { return p[name] != 0 }

// Kinds of events.
const (
	EventReady  = "ready"
	EventMark   = "mark"
	EventResult = "result"
	EventError  = "error"
)

// NotKnown is the error sent by a contestant that does not implement the scenario, such as one from an
// earlier revision.
const NotKnown = "is not known here"

// Names of the marks that trigger an action in the harness.
const (
	MarkBegin  = "begin"  // in scenarios without a server: setup is done, work starts
	MarkSynced = "synced" // the cache is complete and the handlers have received it
	MarkDone   = "done"   // all work is done

	// Scenarios with controllers also set this mark, between begin and synced.
	MarkCached     = "cached"     // the cache is complete
	MarkReconciled = "reconciled" // each object has been reconciled once
)

// Event is a message from a contestant.
type Event struct {
	Event  string  `json:"event"`
	Name   string  `json:"name,omitempty"`
	Error  string  `json:"error,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// Result is a contestant's report about itself.
type Result struct {
	// Objects is the number of objects in the cache, Digest is their checksum, and Heard is the number of
	// events that handlers received after the sync. All contestants must report the same values. A contestant
	// without a cache omits them.
	Objects int    `json:"objects"`
	Digest  Digest `json:"digest,omitempty"`
	Heard   int64  `json:"heard"`

	// Live is the heap in use after two collections, minus the heap in use before the work.
	Live int64 `json:"live"`

	// Metrics contains metrics that only the contestant can measure, named as in the results file.
	Metrics map[string]float64 `json:"metrics,omitempty"`
}

// Digest is an order-independent checksum of a set of objects.
type Digest uint64

// Add adds an object: its key, UID and resource version.
func (d *Digest) Add(o metav1.Object) {
	h := fnv.New64a()
	for _, s := range [...]string{o.GetNamespace(), o.GetName(), string(o.GetUID()), o.GetResourceVersion()} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(s)))
		_, _ = h.Write(size[:]) // a hash never fails
		_, _ = h.Write([]byte(s))
	}
	*d += Digest(h.Sum64())
}

// MarshalText returns the digest as 16 hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(d)), nil }

// UnmarshalText parses the result of MarshalText.
func (d *Digest) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return fmt.Errorf("read a digest: %w", err)
	}
	*d = Digest(v)
	return nil
}
