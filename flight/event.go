package flight

import (
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Kind is the kind of an event.
type Kind uint8

// Informer events.
const (
	// Applied means that a change was applied to the cache at time At. Received, Decoded and Queued are how
	// long before that the change was read, decoded and queued; they are negative if unknown. Position is the
	// change's position among all of the informer's changes.
	Applied Kind = iota + 1
	// Replaced means that the cache now contains a list of Count objects at version RV. Change is "add" for
	// the first list, and "update" if the list replaced another one.
	Replaced
	// Marked means that a bookmark confirmed the cache to be complete up to version RV.
	Marked
	// Turned means that a reflector or controller entered the state named in Outcome. For a reflector, RV is
	// its version, Attempt is the number of failures, and Text is the last failure.
	Turned
	// Failed means that a failure occurred. Text describes it, and Key is the affected object, if any.
	Failed
)

// Handler events.
const (
	// Told means that the handler was called Count times, for a total of Took. It received the informer's
	// changes after position After, up to Position. If After equals Position, it received something else,
	// such as the objects cached when it was added. Key is the object if Count is 1. Received is the time
	// since the last change was read.
	Told Kind = iota + 32
)

// Events for a request in a work queue or controller.
const (
	// Asked means that the source named in Text added the request because of a Change to the object About.
	Asked Kind = iota + 64
	// Taken means that a worker picked up the request. Took is how long the request had waited, and Attempt
	// is the attempt number.
	Taken
	// Parked means that the worker set the request aside until the cache has the last write to its object.
	Parked
	// Done means that the worker finished after Took. Text is the error, if any; Outcome is the next step.
	Done
)

// String returns the kind in lower case.
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

// MarshalText makes the kind readable in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Event is one event. Its Kind documents which fields are used; the others are zero. Long texts are
// truncated: names to 253 bytes, Text and Cluster to 255, and everything else to 64.
type Event struct {
	At   time.Time
	Kind Kind

	Key      object.Key `json:",omitzero"`
	Cluster  string     // the request's, if any
	About    object.Key `json:",omitzero"` // the object that caused a request, if not Key
	UID      string
	RV       string
	Change   string // "add", "update", "delete"
	Text     string
	Outcome  string
	After    uint64 `json:",omitzero"`
	Position uint64 `json:",omitzero"`
	Count    int    `json:",omitzero"`
	Bytes    int    `json:",omitzero"` // of the change as sent by the server
	Attempt  int    `json:",omitzero"`

	Received time.Duration `json:",omitzero"`
	Decoded  time.Duration `json:",omitzero"`
	Queued   time.Duration `json:",omitzero"`
	Took     time.Duration `json:",omitzero"`
}

// Maximum lengths of an event's strings, in bytes.
const (
	maxName = 253 // of a name, and of a namespace
	maxText = 255 // of a text or a cluster name
	maxWord = 64  // of a UID, a version, a change and an outcome
	// maxRecord is the maximum size of a record: its strings plus less than 140 bytes of numbers and lengths.
	maxRecord = 4*maxName + 2*maxText + 4*maxWord + 140
)
