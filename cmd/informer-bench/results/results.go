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

// Version is the version of the schema.
const Version = 1

// Contestant names.
const (
	Millrace          = "millrace"
	MillracePacked    = "millrace-packed" // with packed caches
	ClientGo          = "client-go"
	ControllerRuntime = "controller-runtime"
	Unmarshal         = "unmarshal" // calls the generated Unmarshal methods from k8s.io/api and keeps the objects
	Floor             = "floor"     // reads the bytes and discards them

	// client-go's interface on top of Millrace informers: created by a factory for a config, or by
	// NewInformer, in which case client-go decodes.
	ClientGoFactory  = "clientgo+millrace"
	ClientGoInformer = "clientgo+millrace NewInformer"

	// controller-runtime on top of a Millrace cache and, in scenarios with a controller, a Millrace queue.
	ControllerRuntimeCache  = "controllerruntime+millrace"
	ControllerRuntimePacked = "controllerruntime+millrace-packed" // with a packed cache
)

// Metric names. A name ends with its unit: seconds (_s), bytes (_bytes), per second (_per_s), or none for
// plain numbers. A file may contain other metrics, which are shown under their own names.
const (
	Wall           = "wall_s"                // from the first request to the end of the work
	CPU            = "cpu_s"                 // user and system time used by the process
	PeakRSS        = "peak_rss_bytes"        // the kernel's high-water mark
	MemoryLimit    = "memory_limit_bytes"    // the smallest memory limit under which the work succeeds
	LivePerObject  = "live_bytes_per_object" // heap after two collections
	EventsPerSec   = "events_per_s"
	WallPerObject  = "wall_per_object_s"
	CPUPerObject   = "cpu_per_object_s"
	WallPerEvent   = "wall_per_event_s"
	CPUPerEvent    = "cpu_per_event_s"
	AllocsPerEvent = "allocs_per_event"
	P50            = "p50_s" // latency from event to handler
	P99            = "p99_s"
	P999           = "p999_s"
	ReadsPerSec    = "reads_per_s"
	WritesPerSec   = "writes_per_s"
	Pause          = "pause_s"          // extra event latency while a handler joins
	PeakOverSteady = "peak_over_steady" // peak memory during a relist, relative to memory before it
	Held           = "held_bytes"       // memory held for a sleeping handler at the end
	CaughtUp       = "caught_up_s"      // from its wake-up until it has handled all events

	FirstReconcile  = "first_reconcile_s"   // after the cache was complete
	CPUPerReconcile = "cpu_per_reconcile_s" // at the start

	Get             = "get_s" // one lookup, and so on
	ReadNamespace   = "namespace_s"
	ReadLabel       = "label_s"
	ReadIndex       = "index_s"
	GetAllocs       = "get_allocs"
	NamespaceAllocs = "namespace_allocs"
	LabelAllocs     = "label_allocs"
	IndexAllocs     = "index_allocs"

	GetUsed  = "get_used_s"  // Get of an object that is in use
	GetOther = "get_other_s" // Get of an object that is not in use
	Thousand = "thousand_s"  // reading a thousand objects through an index

	CollectorCPU    = "collector_cpu_s"  // CPU time of the garbage collector during the events
	CollectorCycles = "collector_cycles" // number of collections

	FirstCall = "first_call_s" // from the start until a handler is first called

	ThroughputRatio = "throughput_ratio"  // total throughput of processes sharing the work, relative to a single process
	MemoryPart      = "memory_part"       // of one of the processes, relative to a single process
	CPUPart         = "cpu_part"          //
	BytesPart       = "bytes_part"        // received
	ByServer        = "by_server"         // 1 if the server filtered by share, 0 if the client did
	MovedAtJoin     = "moved_at_join"     // as a fraction of all slots
	MovedAtLeave    = "moved_at_leave"    //
	OwnerlessLeave  = "ownerless_leave_s" // until the last slot of a departing process has a new owner
	OwnerlessCrash  = "ownerless_crash_s" // the same after a crash
	Assign          = "assign_s"          // assigning slots to 10,000 members

	InformerGoroutines = "informer_goroutines"
	HandlerGoroutines  = "handler_goroutines"
	HandlerBytes       = "handler_bytes"
)

// RSSOverTime is the name of the resident memory series, in bytes.
const RSSOverTime = "rss_bytes"

// Parameter names used by this package and the report.
const (
	Objects  = "objects"
	Handlers = "handlers"
	Readers  = "readers"
	Workers  = "workers"
	Delayed  = "delayed"
	Hostile  = "hostile"
	Alike    = "alike"
	Copied   = "copied"
	Keys     = "keys"
	Expired  = "expired"
	Replicas = "replicas"
	Chosen   = "chosen"
)

// Results contains the results of one run.
type Results struct {
	V       int      `json:"v"`
	Env     Env      `json:"env"`
	Results []Result `json:"results"`
}

// Env describes where, when and how a run was made.
type Env struct {
	Date    time.Time `json:"date"`
	Command string    `json:"command"` // as typed
	Rounds  int       `json:"rounds"`

	CPU         string `json:"cpu"`   // processor model
	Cores       int    `json:"cores"` // available to processes
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
	OS          string `json:"os"` // GOOS
	Arch        string `json:"arch"`
	Go          string `json:"go"` // version

	// Versions maps contestants and their libraries to their versions.
	Versions map[string]string `json:"versions"`

	// Notes are remarks about this run, one sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Continue adds the versions of a run that continues this one. It returns an error if the figures of both
// cannot be in one file, because the machine, Go, a version or the number of rounds differs.
func (e *Env) Continue(by Env) error {
	for _, c := range []struct {
		what        string
		before, now any
	}{
		{"processor", e.CPU, by.CPU},
		{"number of cores", e.Cores, by.Cores},
		{"system", e.OS + "/" + e.Arch, by.OS + "/" + by.Arch},
		{"Go version", e.Go, by.Go},
		{"number of rounds", e.Rounds, by.Rounds},
	} {
		if c.before != c.now {
			return fmt.Errorf("the %s was %v and is %v now", c.what, c.before, c.now)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by.Versions)) {
		if before, now := e.Versions[name], by.Versions[name]; before != "" && before != now {
			return fmt.Errorf("the version of %s was %s and is %s now", name, before, now)
		}
	}
	if e.Versions == nil {
		e.Versions = map[string]string{}
	}
	maps.Copy(e.Versions, by.Versions)
	return nil
}

// Has reports whether r contains results of a scenario.
func (r *Results) Has(scenario string) bool {
	return slices.ContainsFunc(r.Results, func(one Result) bool { return one.Scenario == scenario })
}

// Result contains one contestant's figures for one scenario and one set of parameters, across all rounds.
type Result struct {
	Scenario   string          `json:"scenario"`
	Params     Params          `json:"params,omitempty"`
	Contestant string          `json:"contestant"`
	Metrics    map[string]Stat `json:"metrics"`

	// Ratio maps another contestant and a metric to the median, over all rounds, of this contestant's figure
	// divided by the other's.
	Ratio map[string]map[string]float64 `json:"ratio,omitempty"`

	// Series are measurements over time, from one round.
	Series map[string][]Point `json:"series,omitempty"`
}

// Params are the parameters of a scenario. Flags are 0 or 1; omitted parameters are 0.
type Params map[string]int

// String returns name=value pairs, sorted by name.
func (p Params) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, p[name]))
	}
	return strings.Join(parts, " ")
}

// given returns the non-zero parameters; zero values may be omitted.
func (p Params) given() Params {
	p = maps.Clone(p)
	maps.DeleteFunc(p, func(_ string, value int) bool { return value == 0 })
	return p
}

// Has reports whether p contains all the values in some.
func (p Params) Has(some Params) bool {
	for name, value := range some {
		if p[name] != value {
			return false
		}
	}
	return true
}

// SameLoad reports whether p and other use the same kind of objects: ordinary ones, near-identical ones, or
// ones with no repeated content.
func (p Params) SameLoad(other Params) bool {
	return p[Hostile] == other[Hostile] && p[Alike] == other[Alike]
}

// Point is a measurement at a time, in seconds from the start.
type Point struct {
	T float64 `json:"t"`
	V float64 `json:"v"`
}

// Load reads a file written by Save.
func Load(path string) (*Results, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	r := new(Results)
	if err := json.Unmarshal(raw, r); err != nil {
		// A later version may use different types.
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

// Save writes the results to a file atomically.
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

// Writable returns an error if it can tell, without writing anything, that Save would fail for path. Call it
// before starting a run that takes hours.
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

// replace replaces a file atomically.
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
	return fmt.Errorf("schema version %d: this program supports version %d", v, Version)
}

func (r *Results) validate() error {
	if r.V != Version {
		return wrongVersion(r.V)
	}
	seen := map[string]bool{}
	for i := range r.Results {
		x := &r.Results[i]
		if x.Scenario == "" || x.Contestant == "" {
			return fmt.Errorf("result %d: scenario and contestant must be set", i)
		}
		id := x.Scenario + " " + x.Params.given().String() + " " + x.Contestant
		if seen[id] {
			return fmt.Errorf("result %d: %s appears twice", i, id)
		}
		seen[id] = true
	}
	return nil
}

// Find returns the result of a contestant in a scenario with exactly these parameters, or nil.
func (r *Results) Find(scenario string, params Params, contestant string) *Result {
	for i := range r.Results {
		x := &r.Results[i]
		if x.Scenario == scenario && x.Contestant == contestant && x.Params.Has(params) && params.Has(x.Params) {
			return x
		}
	}
	return nil
}
