package protocol

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"

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

// On tells whether a flag is set.
func (p Params) On(name string) bool { return p[name] != 0 }

// Kinds of events.
const (
	EventReady  = "ready"
	EventMark   = "mark"
	EventResult = "result"
	EventError  = "error"
)

// NotKnown is what the error of a contestant says that does not know the
// scenario, as one of an earlier revision may not.
const NotKnown = "is not known here"

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
	v, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return fmt.Errorf("read a digest: %w", err)
	}
	*d = Digest(v)
	return nil
}
