package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Version is that of the schema.
const Version = 1

// Names of contestants.
const (
	Millrace          = "millrace"
	MillracePacked    = "millrace-packed" // with caches of bytes
	ClientGo          = "client-go"
	ControllerRuntime = "controller-runtime"
	Floor             = "floor" // reads the bytes and discards them

	// client-go's surface over Millrace informers: those of a factory that was
	// made from a config, and those made by NewInformer, for which client-go
	// decodes.
	ClientGoFactory  = "clientgo+millrace"
	ClientGoInformer = "clientgo+millrace NewInformer"

	// controller-runtime over a Millrace cache and, where there is a
	// controller, with a Millrace queue.
	ControllerRuntimeCache  = "controllerruntime+millrace"
	ControllerRuntimePacked = "controllerruntime+millrace-packed" // with a cache of bytes
)

// Names of metrics. A name ends in its unit: seconds (_s), bytes (_bytes), how
// many in a second (_per_s); without one it is a plain number. Metrics with
// other names may stand in a file, and are shown as they are.
const (
	Wall           = "wall_s"                // from the first request to the end of the work
	CPU            = "cpu_s"                 // user and system time of the process
	PeakRSS        = "peak_rss_bytes"        // the kernel's high-water mark
	LivePerObject  = "live_bytes_per_object" // heap after two collections
	EventsPerSec   = "events_per_s"
	WallPerObject  = "wall_per_object_s"
	CPUPerObject   = "cpu_per_object_s"
	WallPerEvent   = "wall_per_event_s"
	CPUPerEvent    = "cpu_per_event_s"
	AllocsPerEvent = "allocs_per_event"
	P50            = "p50_s" // of event to handler
	P99            = "p99_s"
	P999           = "p999_s"
	ReadsPerSec    = "reads_per_s"
	WritesPerSec   = "writes_per_s"
	Pause          = "pause_s"          // by how much events come later while a handler joins
	PeakOverSteady = "peak_over_steady" // memory at the peak of a relist, as a multiple of that before it
	Held           = "held_bytes"       // what is held at the end for a handler that sleeps
	CaughtUp       = "caught_up_s"      // from its waking to its having heard all

	FirstReconcile  = "first_reconcile_s"   // after the cache was complete
	CPUPerReconcile = "cpu_per_reconcile_s" // of those at the start

	Get             = "get_s" // one lookup, and so on
	ReadNamespace   = "namespace_s"
	ReadLabel       = "label_s"
	ReadIndex       = "index_s"
	GetAllocs       = "get_allocs"
	NamespaceAllocs = "namespace_allocs"
	LabelAllocs     = "label_allocs"
	IndexAllocs     = "index_allocs"

	GetUsed  = "get_used_s"  // one Get of an object that is in use
	GetOther = "get_other_s" // of one that is not
	Thousand = "thousand_s"  // a thousand objects by an index

	CollectorCPU    = "collector_cpu_s"  // of the garbage collector, while events came
	CollectorCycles = "collector_cycles" // how often it ran

	FirstCall = "first_call_s" // from the begin to the first call of a handler

	ThroughputRatio = "throughput_ratio"  // throughput of many that share the work, as a multiple of one's
	MemoryPart      = "memory_part"       // what one of many takes, as a part of what one alone does
	CPUPart         = "cpu_part"          //
	BytesPart       = "bytes_part"        // received
	ByServer        = "by_server"         // 1 if the server left out what is others', 0 if the client did
	MovedAtJoin     = "moved_at_join"     // part of the slots
	MovedAtLeave    = "moved_at_leave"    //
	OwnerlessLeave  = "ownerless_leave_s" // until the last slot of one who left has another owner
	OwnerlessCrash  = "ownerless_crash_s" // of one who died
	Assign          = "assign_s"          // slots for 10,000 members

	InformerGoroutines = "informer_goroutines"
	HandlerGoroutines  = "handler_goroutines"
	HandlerBytes       = "handler_bytes"
)

// RSSOverTime is the name of the series of resident memory, in bytes.
const RSSOverTime = "rss_bytes"

// Names of parameters that this package and the report look at.
const (
	Objects  = "objects"
	Handlers = "handlers"
	Readers  = "readers"
	Workers  = "workers"
	Delayed  = "delayed"
	Hostile  = "hostile"
	Copied   = "copied"
	Keys     = "keys"
	Expired  = "expired"
	Replicas = "replicas"
	Chosen   = "chosen"
)

// Results is one run of the harness.
type Results struct {
	V       int      `json:"v"`
	Env     Env      `json:"env"`
	Results []Result `json:"results"`
}

// Env is where, when and how a run was made.
type Env struct {
	Date    time.Time `json:"date"`
	Command string    `json:"command"` // exactly as it was typed
	Rounds  int       `json:"rounds"`

	CPU         string `json:"cpu"`   // the processor's name
	Cores       int    `json:"cores"` // those that the processes may use
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
	OS          string `json:"os"` // as Go names it
	Arch        string `json:"arch"`
	Go          string `json:"go"` // the version

	// Versions are those of the contestants and of what they are made of.
	Versions map[string]string `json:"versions"`

	// Notes are remarks on this run, one a sentence.
	Notes []string `json:"notes,omitempty"`
}

// Result is what one contestant did in one scenario with one set of
// parameters, over all rounds.
type Result struct {
	Scenario   string          `json:"scenario"`
	Params     Params          `json:"params,omitempty"`
	Contestant string          `json:"contestant"`
	Metrics    map[string]Stat `json:"metrics"`

	// Ratio is, by contestant and metric, this one's figure divided by that
	// one's: the median of the quotients round by round.
	Ratio map[string]map[string]float64 `json:"ratio,omitempty"`

	// Series are measurements over time, of one round.
	Series map[string][]Point `json:"series,omitempty"`
}

// Params are the knobs of a scenario. A flag is 0 or 1; one that is left out is 0.
type Params map[string]int

// String is name=value, sorted by name.
func (p Params) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, p[name]))
	}
	return strings.Join(parts, " ")
}

// given are the parameters without those that are 0, which may be left out.
func (p Params) given() Params {
	p = maps.Clone(p)
	maps.DeleteFunc(p, func(_ string, value int) bool { return value == 0 })
	return p
}

// Has tells whether p has all values of some.
func (p Params) Has(some Params) bool {
	for name, value := range some {
		if p[name] != value {
			return false
		}
	}
	return true
}

// Point is a measurement at a time, in seconds from the start.
type Point struct {
	T float64 `json:"t"`
	V float64 `json:"v"`
}

// Load reads a file that Save wrote.
func Load(path string) (*Results, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	r := new(Results)
	if err := json.Unmarshal(raw, r); err != nil {
		// A later version may have other types where this one has its own.
		var other struct{ V int }
		if json.Unmarshal(raw, &other) == nil && other.V > Version {
			return nil, fmt.Errorf("read results: %s: %w", path, wrongVersion(other.V))
		}
		return nil, fmt.Errorf("read results: %s is not a results file: %w", path, err)
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("read results: %s: %w", path, err)
	}
	return r, nil
}

// Save writes the results to a file, whole or not at all.
func (r *Results) Save(path string) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	if err := replace(path, buf.Bytes()); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	return nil
}

// Writable says why Save could not write to a path, as far as that can be told
// without writing: for a program that has hours of work before it.
func Writable(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("save results: %s is a directory", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".results-*")
	if err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	return nil
}

// replace puts a file in place of what is there, if all of it can be written.
func replace(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".results-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func wrongVersion(v int) error {
	return fmt.Errorf("version %d of the schema: this program knows version %d", v, Version)
}

func (r *Results) validate() error {
	if r.V != Version {
		return wrongVersion(r.V)
	}
	seen := map[string]bool{}
	for i := range r.Results {
		x := &r.Results[i]
		if x.Scenario == "" || x.Contestant == "" {
			return fmt.Errorf("result %d: scenario and contestant must be named", i)
		}
		id := x.Scenario + " " + x.Params.given().String() + " " + x.Contestant
		if seen[id] {
			return fmt.Errorf("result %d: %s is there twice", i, id)
		}
		seen[id] = true
	}
	return nil
}

// Find is the result of a contestant in a scenario with exactly these
// parameters, or nil.
func (r *Results) Find(scenario string, params Params, contestant string) *Result {
	for i := range r.Results {
		x := &r.Results[i]
		if x.Scenario == scenario && x.Contestant == contestant && x.Params.Has(params) && params.Has(x.Params) {
			return x
		}
	}
	return nil
}
