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

// Listener is what the handler of every contestant does with events: it counts
// those after the sync, notices the one that ends the work, and measures how
// old they are. One goroutine calls Hear and HearUpdate; the other methods are
// for any.
type Listener struct {
	expect int64 // how many events there are, where nothing but their number counts
	until  uint64
	sent   string // the annotation that tells when an event was sent; empty to measure nothing

	heard     atomic.Int64
	first     atomic.Int64 // when the handler was first called, Unix ns
	once      sync.Once
	done      chan struct{}
	latencies []int64 // of Hear's goroutine, until done
}

// NewListener returns one that is done with the event of the resource version
// until. Where sent is not empty, it is the annotation with the time at which an
// event was sent, in Unix nanoseconds.
func NewListener(until uint64, sent string, events int) *Listener {
	l := &Listener{until: until, sent: sent, done: make(chan struct{})}
	if sent != "" {
		l.latencies = make([]int64, 0, events)
	}
	return l
}

// NewCounter returns a Listener that is done with so many events and does not
// look at them: where many handlers hear the same events, to read an object
// that has left the processor's cache costs more than to be told of it.
func NewCounter(events int) *Listener {
	return &Listener{expect: int64(events), done: make(chan struct{})}
}

// HearUpdate takes an update. One that changes nothing is not counted, since
// not every informer spares its handlers those when it lists anew.
func (l *Listener) HearUpdate(old, o object.Head) {
	if l.expect > 0 || old.GetResourceVersion() != o.GetResourceVersion() {
		l.Hear(o)
	}
}

// Hear takes an addition after the sync.
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

// Called is told of each addition, those of the sync too.
func (l *Listener) Called() {
	if l.first.Load() == 0 {
		l.first.Store(time.Now().UnixNano())
	}
}

// Done is closed when the last event was heard.
func (l *Listener) Done() <-chan struct{} { return l.done }

// Heard is how many events were.
func (l *Listener) Heard() int64 { return l.heard.Load() }

// Latencies returns quantiles over all listeners, which must be done: in
// seconds, by the names of the results file.
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

// Quantile returns the q-quantile of sorted values: the smallest of them that
// at least the share q of all does not exceed. It is 0 where there are none.
func Quantile[N int64 | float64](sorted []N, q float64) N {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}
