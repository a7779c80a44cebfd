package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/reflector"
)

// Schedule is a world and what happens in it. It is plain data, so it can be shrunk, stored as JSON, and
// pasted into a test as printed.
type Schedule struct {
	Seed  uint64 // for all random numbers drawn during the run
	World World
	Steps []Step
}

// World is the initial state.
type World struct {
	Objects   int           // pods; there are a third as many widgets
	Weight    int           // extra bytes per object
	FirstRV   uint64        // resource version of the empty server; 0 means 100
	History   int           // number of changes that the server keeps for watches
	Bookmarks time.Duration // time between bookmarks
	Streams   apiservertest.StreamingLists
	Fronts    int           // additional servers
	Lag       time.Duration // their delay in seeing changes

	// Garbled corrupts bytes in responses, which TLS would detect. The cache may then contain anything that
	// can be decoded, so only progress is checked.
	Garbled bool

	Informers  []Form
	Reconciles bool // a controller keeps a ConfigMap for each pod
	Candidates int  // for one Lease
	Drift      bool // their clocks run at different rates
	Loans      bool // a factory whose informers are borrowed
	Backlog    bool // a bare work queue
}

// Form is the configuration of one informer.
type Form struct {
	Of            Kind
	Initial       reflector.Initial
	PageSize      int64
	Compact       bool
	CBOR          bool
	WatchTimeout  time.Duration
	StreamTimeout time.Duration
	Slow          time.Duration // how long the informer's owner takes to handle a state
	Selected      bool          // only objects whose label "half" is "even"
	Packed        bool          // use a packed cache
	Snapshot      bool          // each restart simulates a new process, which starts with the previous one's snapshot
	Transformed   bool          // a transform changes objects, and sometimes fails
	Namespaces    int           // a bit per namespace, each with its own feed; 0 means one permanent feed for all namespaces, and allOfThem means one feed until namespaces are set
}

// lags reports whether a server may lag, in which case the first list may be stale.
func (s Schedule) lags() bool {
	return s.World.Fronts > 0 || slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Do == "lag" })
}

// Kind is the kind of an informer's objects.
type Kind uint8

const (
	Pods     Kind = iota // typed, protobuf
	Metadata             // of pods
	Kept                 // pods reduced to labels and node
	Widgets              // custom, unstructured
	kinds
)

// Step is one event, which happens Wait after the previous one. Who and N are taken modulo the number of
// possible values, so a schedule stays valid whatever is removed from it.
type Step struct {
	Wait time.Duration `json:",omitzero"`
	Do   Deed
	Who  int           `json:",omitzero"` // object, informer, handler, process or candidate
	N    int           `json:",omitzero"` // number or variant
	For  time.Duration `json:",omitzero"`
}

// Deed is an event's name; see deeds.
type Deed string

// String returns the schedule as Go source.
func (s Schedule) String() string {
	var b strings.Builder
	text := fmt.Sprintf("%#v", s)
	text = strings.ReplaceAll(text, "[]simulation.Step{", "[]simulation.Step{\n\t")
	text = strings.ReplaceAll(text, "}, simulation.Step{", "},\n\tsimulation.Step{")
	b.WriteString(text)
	return b.String()
}

// Played counts the schedules run, with their steps, requests and so on.
type Played struct {
	Schedules, Steps, Requests, Events int
	Virtual                            time.Duration
}

// Add adds another count to p.
func (p *Played) Add(more Played) {
	p.Schedules += more.Schedules
	p.Steps += more.Steps
	p.Requests += more.Requests
	p.Events += more.Events
	p.Virtual += more.Virtual
}
