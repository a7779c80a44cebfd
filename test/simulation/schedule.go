package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/reflector"
)

// Schedule is one play: a world, and what happens in it. It is plain data, so that it can
// be shrunk, written down as JSON, and put into a test as it is printed.
type Schedule struct {
	Seed  uint64 // of everything that is drawn while it is played
	World World
	Steps []Step
}

// World is what there is at the beginning.
type World struct {
	Objects   int           // pods, and a third as many widgets
	Weight    int           // bytes that each object has beside what it says
	FirstRV   uint64        // resource version of the empty server; 0 is 100
	History   int           // changes that the server keeps for watches
	Bookmarks time.Duration // between two bookmarks
	Streams   apiservertest.StreamingLists
	Fronts    int           // servers beside the first
	Lag       time.Duration // by which they see changes later

	// Garbled: bytes of answers are altered, as TLS would not let them be. What the cache has
	// may then be anything that can be decoded, so only that everything goes on is looked at.
	Garbled bool

	Informers  []Form
	Reconciles bool // a controller keeps a ConfigMap for each pod
	Candidates int  // for one Lease
	Drift      bool // whose clocks go at different rates
	Loans      bool // a factory, of which informers are borrowed
	Backlog    bool // a bare work queue
}

// Form is how one informer is made.
type Form struct {
	Of            Kind
	Initial       reflector.Initial
	PageSize      int64
	Compact       bool
	CBOR          bool
	WatchTimeout  time.Duration
	StreamTimeout time.Duration
	Slow          time.Duration // how long its owner takes to hear of a state
	Selected      bool          // only objects whose label "half" is "even"
	Packed        bool          // the cache has bytes
	Snapshot      bool          // it is another process whenever it starts again, which begins with the file of the one before
	Transformed   bool          // objects go through a function that changes them, and fails now and then
	Namespaces    int           // a bit for each of the namespaces, each watched on its own; 0 is all by one feed, for good, allOfThem until they are set
}

// lags reports whether a server may be behind, which a first list need not notice.
func (s Schedule) lags() bool {
	return s.World.Fronts > 0 || slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Do == "lag" })
}

// Kind is what an informer is of.
type Kind uint8

const (
	Pods     Kind = iota // typed, protobuf
	Metadata             // of pods
	Kept                 // pods, of which only labels and node are kept
	Widgets              // custom, unstructured
	kinds
)

// Step is one thing that happens, Wait after the one before. Who and N are taken modulo
// what there is, so that a schedule makes sense whatever is taken out of it.
type Step struct {
	Wait time.Duration `json:",omitzero"`
	Do   Deed
	Who  int           `json:",omitzero"` // object, informer, handler, process or candidate
	N    int           `json:",omitzero"` // how many, or which way
	For  time.Duration `json:",omitzero"`
}

// Deed is the name of what happens; see deeds.
type Deed string

// String writes the schedule as Go source.
func (s Schedule) String() string {
	var b strings.Builder
	text := fmt.Sprintf("%#v", s)
	text = strings.ReplaceAll(text, "[]simulation.Step{", "[]simulation.Step{\n\t")
	text = strings.ReplaceAll(text, "}, simulation.Step{", "},\n\tsimulation.Step{")
	b.WriteString(text)
	return b.String()
}

// Played is how much was played.
type Played struct {
	Schedules, Steps, Requests, Events int
	Virtual                            time.Duration
}

// Add adds what else was played.
func (p *Played) Add(more Played) {
	p.Schedules += more.Schedules
	p.Steps += more.Steps
	p.Requests += more.Requests
	p.Events += more.Events
	p.Virtual += more.Virtual
}
