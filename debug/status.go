package debug

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	godebug "runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// Status is the status of a process. It is not a consistent snapshot: its parts are collected one after
// another.
type Status struct {
	At          time.Time
	Process     ProcessStatus
	Memory      Memory
	Informers   []Informer
	Controllers []controller.Status
	Queues      []workqueue.Status // queues that do not belong to a controller
	Election    *leaderelection.Status
	Groups      []Group // groups the process is a member of
	Recorder    flight.Status
}

// ProcessStatus identifies the process.
type ProcessStatus struct {
	Program  string
	Version  string // version of the main module
	Millrace string // version of the Millrace module
	Go       string
	Host     string
	PID      int
	Started  time.Time
	Uptime   time.Duration
	Contents bool // whether whole objects are shown
}

// Memory describes the process's memory use, as reported by package runtime/metrics.
type Memory struct {
	HeapBytes    uint64 // live objects plus dead ones not yet collected
	LiveBytes    uint64 // live objects after the last collection; 0 before the first
	TotalBytes   uint64 // memory mapped by the Go runtime
	LimitBytes   uint64 // GOMEMLIMIT; 0 if none
	Collections  uint64
	Goroutines   uint64
	CachedBytes  int64 // size of the packed objects in all caches
	CachedCount  int   // number of objects in all caches
	CachedPacked int   // number of packed objects in all caches
}

// Informer is the status of one informer and its cluster.
type Informer struct {
	Cluster string // empty for the process's own cluster
	sharedinformer.Status
}

// Which returns a [Which] for this informer and any others with the same name, type and cluster.
func (i *Informer) Which() Which {
	return Which{Informer: i.Reflector.Resource, Type: i.Type, Cluster: i.Cluster, Own: i.Cluster == ""}
}

// String returns the informer's name with its type and, unless it is the process's own, its cluster, such as
// "pods (*v1.Pod) of cluster west". The result can be used as Which.Informer.
func (i *Informer) String() string {
	text := i.Reflector.Resource
	if i.Type != "" {
		text += " (" + i.Type + ")"
	}
	if i.Cluster != "" {
		text += " of cluster " + i.Cluster
	}
	return text
}

// In returns i as far as it concerns one namespace: if the informer reads several namespaces separately, the
// result has only that namespace's reflector, and is synced if that one has its list. Otherwise, it is i.
func (i *Informer) In(namespace string) *Informer {
	for n := range i.Namespaces {
		if r := i.Namespaces[n]; namespaceOf(r.Resource) == namespace {
			only := *i
			only.Reflector, only.Namespaces, only.Synced = r, []reflector.Status{r}, i.Synced || r.RV != "" && i.Leaving == ""
			return &only
		}
	}
	return i
}

// longSilent is how long a watch may be silent before it is suspicious. A server sends a bookmark about
// once a minute.
const longSilent = 2 * time.Minute

// Trouble describes the problem that currently keeps changes from reaching the cache: failures, polling
// instead of watching, a hanging transform or hook, an informer that has stopped, or a watch that has received
// nothing for two minutes, not even the bookmark the API server sends every minute. It returns "" if there is no
// problem or if changes are just queued for the cache.
func (i *Informer) Trouble(now time.Time) string {
	switch r := &i.Reflector; {
	case r.Polling && r.Failure != nil:
		return fmt.Sprintf("watches fail, so the informer polls, last %s ago: %v", short(r.Age(now)), r.Failure)
	case r.Attempts > 0:
		return "no changes arrive: " + r.Missing().Error()
	case r.Held():
		return "no changes arrive: " + r.Waiting
	case r.State == reflector.Stopped:
		return "no changes arrive: " + stopped(r, now)
	}
	return silent(&i.Status, now)
}

// stopped explains why an informer that has stopped without a failure receives no changes.
func stopped(r *reflector.Status, now time.Time) string {
	return fmt.Sprintf("the informer stopped %s ago; unless the process is shutting down, keep alive the context given to its Run, or to its factory's Start", age(now, r.Since))
}

// silent returns a message if a watch has received nothing for too long. Otherwise it returns "", as it does
// if the reflector may have stopped reading because the cache cannot keep up.
func silent(s *sharedinformer.Status, now time.Time) string {
	silence := s.Silence(now)
	switch {
	case silence < longSilent, s.QueueAge >= longSilent:
		return ""
	case s.Reflector.Bookmarks == 0:
		return fmt.Sprintf("its watch has received nothing for %s, and never a bookmark: if the server sends none, a quiet watch looks like a dead one", short(silence))
	}
	return fmt.Sprintf("its watch has received nothing for %s, not even a bookmark: it may be dead, and the cache stale", short(silence))
}

// started is the approximate start time of the process.
var started = time.Now()

// status collects the process's status.
func (p *Process) status() Status {
	s := Status{At: time.Now(), Process: p.describe(), Recorder: p.opts.Recorder.Or().Status()}
	for _, one := range p.informers() {
		s.Informers = append(s.Informers, Informer{one.cluster, one.status})
	}
	for _, c := range p.opts.controllers() {
		s.Controllers = append(s.Controllers, c.Status())
	}
	for _, q := range p.opts.queues() {
		s.Queues = append(s.Queues, q.Status())
	}
	s.Election, s.Groups = p.opts.election(), p.groups()
	s.Memory = memory(s.Informers)
	return s
}

func (p *Process) describe() ProcessStatus {
	s := ProcessStatus{
		Program: p.opts.program(), Go: runtime.Version(), PID: os.Getpid(),
		Started: started, Uptime: time.Since(started), Contents: p.opts.Contents,
	}
	s.Host, _ = os.Hostname() // empty if unknown
	if info, ok := godebug.ReadBuildInfo(); ok {
		s.Version, s.Millrace = info.Main.Version, versionIn(info)
	}
	return s
}

// versionIn returns the version of the module that contains this package.
func versionIn(info *godebug.BuildInfo) string {
	const module = "github.com/millrace-dev/millrace"
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

func memory(informers []Informer) (m Memory) {
	figures := []struct {
		name string
		to   *uint64
	}{
		{"/memory/classes/heap/objects:bytes", &m.HeapBytes},
		{"/gc/heap/live:bytes", &m.LiveBytes},
		{"/memory/classes/total:bytes", &m.TotalBytes},
		{"/gc/gomemlimit:bytes", &m.LimitBytes},
		{"/gc/cycles/total:gc-cycles", &m.Collections},
		{"/sched/goroutines:goroutines", &m.Goroutines},
	}
	samples := make([]metrics.Sample, len(figures))
	for n, f := range figures {
		samples[n].Name = f.name
	}
	metrics.Read(samples)
	for n, f := range figures {
		if samples[n].Value.Kind() == metrics.KindUint64 {
			*f.to = samples[n].Value.Uint64()
		}
	}
	if m.LimitBytes == 1<<63-1 {
		m.LimitBytes = 0
	}
	for _, i := range informers {
		m.CachedCount += i.Objects
		m.CachedBytes += i.Packed.Bytes
		if i.Store == sharedinformer.Packed {
			m.CachedPacked += i.Objects - i.Packed.Kept
		}
	}
	return m
}

// one is an informer with its status and a view of its cache.
type one struct {
	cluster string
	status  sharedinformer.Status
	view    sharedinformer.View // nil if only the status is available
}

// informers returns the status of all informers.
func (p *Process) informers() (all []one) {
	for _, c := range p.opts.clusters() {
		if absent(c.Informers) {
			continue
		}
		// The informers may be user code, which may panic.
		err := failure.Apart("the status of the informers", func() error {
			if v, ok := c.Informers.(viewed); ok {
				for _, view := range v.Views() {
					all = append(all, one{c.Name, view.Status(), view})
				}
				return nil
			}
			for _, s := range c.Informers.Status() {
				all = append(all, one{c.Name, s, nil})
			}
			return nil
		})
		if err != nil {
			now := time.Now()
			failed := &failure.Failure{Resource: c.Name, Phase: failure.PhaseHook, Err: err, Attempts: 1, Since: now, Last: now}
			all = append(all, one{c.Name, sharedinformer.Status{Reflector: reflector.Status{Resource: c.Name}, Failure: failed}, nil})
		}
	}
	return all
}

// absent reports whether informers is nil or a nil pointer.
func absent(informers Informers) bool {
	v := reflect.ValueOf(informers)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
