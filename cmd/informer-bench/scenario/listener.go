package scenario

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/object"
)

// Listener is the handler used by all contestants. It counts events after the sync, detects the last one, and
// measures latencies. Hear and HearUpdate must be called from a single goroutine; the other methods are safe
// for concurrent use.
type Listener struct {
	expect int64 // the number of events to wait for, if only their number matters
	until  uint64
	sent   string // annotation with the send time; empty to skip measuring

	heard     atomic.Int64
	first     atomic.Int64 // first call of the handler, Unix ns
	once      sync.Once
	done      chan struct{}
	latencies []int64 // owned by Hear's goroutine until done
}

// NewListener returns a listener that is done after the event with resource version until. sent is the
// annotation that contains an event's send time in Unix nanoseconds; if it is empty, latencies are not
// measured.
func NewListener(until uint64, sent string, events int) *Listener {
	l := &Listener{until: until, sent: sent, done: make(chan struct{})}
	if sent != "" {
		l.latencies = make([]int64, 0, events)
	}
	return l
}

// NewCounter returns a Listener that is done after the given number of events. It does not look at them: with
// many handlers, reading an object that has left the CPU cache costs more than the call itself.
func NewCounter(events int) *Listener {
	return &Listener{expect: int64(events), done: make(chan struct{})}
}

// HearUpdate handles an update. It ignores no-op updates, which some informers deliver after a relist.
func (l *Listener) HearUpdate(old, o object.Head) {
	if l.expect > 0 || old.GetResourceVersion() != o.GetResourceVersion() {
		l.Hear(o)
	}
}

// Hear handles an addition after the sync.
func (l *Listener) Hear(o object.Head) {
	heard := l.heard.Add(1)
	if l.expect > 0 {
		if heard == l.expect {
			close(l.done)
		}
		return
	}
	if l.sent != "" {
		if sent, err := strconv.ParseInt(o.GetAnnotations()[l.sent], 10, 64); err == nil {
			l.latencies = append(l.latencies, time.Now().UnixNano()-sent)
		}
	}
	rv, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err == nil && l.until > 0 && rv >= l.until {
		l.once.Do(func() { close(l.done) })
	}
}

// Called must be called for every addition, including those during the sync.
func (l *Listener) Called() {
	if l.first.Load() == 0 {
		l.first.Store(time.Now().UnixNano())
	}
}

// Done returns a channel that is closed after the last event.
func (l *Listener) Done() <-chan struct{} { return l.done }

// Heard returns the number of events so far.
func (l *Listener) Heard() int64 { return l.heard.Load() }

// Latencies returns latency quantiles across all listeners, in seconds, keyed by metric name. The listeners
// must be done.
func Latencies(listeners ...*Listener) map[string]float64 {
	var all []int64
	for _, l := range listeners {
		all = append(all, l.latencies...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	seconds := func(q float64) float64 { return time.Duration(Quantile(all, q)).Seconds() }
	return map[string]float64{results.P50: seconds(0.5), results.P99: seconds(0.99), results.P999: seconds(0.999)}
}

// ListenerOf returns a new listener for the events of a scenario.
func ListenerOf(s *protocol.Session) *Listener {
	if s.Scenario == "fanout" {
		return NewCounter(s.Params[Events])
	}
	sent := ""
	if s.Scenario == "latency" {
		sent = SentAnnotation
	}
	return NewListener(s.Until, sent, s.Params[Events])
}

// Quantile returns the q-quantile of sorted values: the smallest value such that at least a fraction q of all
// values do not exceed it. It returns 0 if there are no values.
func Quantile[N int64 | float64](sorted []N, q float64) N {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}
