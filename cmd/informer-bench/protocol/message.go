package protocol

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Start tells a contestant what to do.
type Start struct {
	Scenario string `json:"scenario"`

	// URL is the address of the load server. It is empty for scenarios without one.
	URL string `json:"url,omitempty"`

	// Objects is the number of objects.
	Objects int `json:"objects"`

	// Seed is the seed of the objects that the contestant generates itself.
	Seed uint64 `json:"seed"`

	// Until is the resource version whose event ends the work, or 0 if the work ends with the sync.
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

// NotKnown is the error of a contestant that does not know the scenario, for example one from an earlier
// revision.
const NotKnown = "is not known here"

// Names of marks that the harness acts on.
const (
	MarkBegin  = "begin"  // in scenarios without a server: the setup is done and the work begins
	MarkSynced = "synced" // the cache is complete and the handlers have received it
	MarkDone   = "done"   // all work is done

	// In scenarios with controllers, this mark comes between begin and synced.
	MarkCached     = "cached"     // the cache is complete
	MarkReconciled = "reconciled" // each object was reconciled once
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
	// Objects is the number of objects in its cache, Digest identifies them, and Heard is the number of
	// events its handlers received after the sync. All must be equal for all contestants. A contestant
	// without a cache omits them.
	Objects int    `json:"objects"`
	Digest  Digest `json:"digest,omitempty"`
	Heard   int64  `json:"heard"`

	// Live is the heap in use after two collections, minus the heap in use before the work.
	Live int64 `json:"live"`

	// Metrics are metrics that only the contestant can measure, named as in the results file.
	Metrics map[string]float64 `json:"metrics,omitempty"`
}

// Digest is a checksum of a set of objects that does not depend on their order.
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
