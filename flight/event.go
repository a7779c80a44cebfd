package flight

import (
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Kind says what happened.
type Kind uint8

// What happens to an informer.
const (
	// Applied: the cache holds a change. At is when; Received, Decoded and Queued are how
	// long before that the change had been read, made an object, and queued, negative
	// where that is not known. Position is its place among the changes of the informer.
	Applied Kind = iota + 1
	// Replaced: the cache holds a list of Count objects up to the version RV, in the place
	// of nothing (Change is "add") or of another one ("update").
	Replaced
	// Marked: a bookmark says that the cache is complete up to the version RV.
	Marked
	// Turned: a reflector, or a controller, came into the state Outcome: a reflector with
	// the version RV and after Attempt failures, the last of which is Text.
	Turned
	// Failed: something went wrong. Text says what, and Key on which object, if on one.
	Failed
)

// What happens to a handler.
const (
	// Told: the handler was called Count times, which took Took together. It heard the
	// changes of the informer after the place After up to Position; with After equal to
	// Position, it heard something else, such as what was there when it joined. Key is the
	// object where Count is 1. Received is how long ago the last change had been read.
	Told Kind = iota + 32
)

// What happens to a request of a work queue or a controller.
const (
	// Asked: the request was added, because of what happened, Change, to About, by the
	// source Text.
	Asked Kind = iota + 64
	// Taken: a worker has it. Took is how long it had waited, and Attempt counts attempts.
	Taken
	// Parked: the worker has put it aside until the cache has seen its last write.
	Parked
	// Done: the worker is through with it, which took Took. Text is why it failed; Outcome
	// says what is next.
	Done
)

// String names the kind in lower case.
func (k Kind) String() string {
	switch k {
	case Applied:
		return "applied"
	case Replaced:
		return "replaced"
	case Marked:
		return "marked"
	case Turned:
		return "turned"
	case Failed:
		return "failed"
	case Told:
		return "told"
	case Asked:
		return "asked"
	case Taken:
		return "taken"
	case Parked:
		return "parked"
	case Done:
		return "done"
	}
	return "unknown"
}

// MarshalText lets an event print readably as JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Event is one thing that happened. Which fields mean something is said at its Kind; the
// others are zero. Of texts that are too long the beginning is kept: 253 bytes of names, 255
// of Text and Cluster, 64 of all else.
type Event struct {
	At   time.Time
	Kind Kind

	Key      object.Key `json:",omitzero"`
	Cluster  string     // of the request, where it has one
	About    object.Key `json:",omitzero"` // what a request was asked for, where that is not Key
	UID      string
	RV       string
	Change   string // "add", "update", "delete"
	Text     string
	Outcome  string
	After    uint64 `json:",omitzero"`
	Position uint64 `json:",omitzero"`
	Count    int    `json:",omitzero"`
	Bytes    int    `json:",omitzero"` // of the change on the wire
	Attempt  int    `json:",omitzero"`

	Received time.Duration `json:",omitzero"`
	Decoded  time.Duration `json:",omitzero"`
	Queued   time.Duration `json:",omitzero"`
	Took     time.Duration `json:",omitzero"`
}

// Limits of the texts of an event, in bytes.
const (
	maxName = 253 // of a name, and of a namespace
	maxText = 255 // of a text, and of the name of a cluster
	maxWord = 64  // of a UID, a version, a change and an outcome
	// maxRecord is what an event takes at most: its texts, and less than 140 bytes of
	// numbers and lengths.
	maxRecord = 4*maxName + 2*maxText + 4*maxWord + 140
)
