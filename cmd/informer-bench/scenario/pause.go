package scenario

import (
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Pauses measures how long events for an existing handler are delayed while another handler joins.
type Pauses struct {
	sent                 []int64      // when each event was fed, Unix ns; set before the event is sent
	joinBegan, joinEnded atomic.Int64 // Unix ns; 0 before

	// The longest delays of events fed before and during the join. The handler's goroutine owns these fields
	// until it is done.
	before, during time.Duration
}

// NewPauses returns a Pauses for a number of events.
func NewPauses(events int) *Pauses { return &Pauses{sent: make([]int64, events)} }

// Sent records that the i-th event is being fed.
func (p *Pauses) Sent(i int) { p.sent[i] = time.Now().UnixNano() }

// Hear handles an event for the existing handler.
func (p *Pauses) Hear(o metav1.Object) {
	i := EventIndex(o)
	if i < len(p.sent)/10 || i >= len(p.sent) {
		return // the first tenth is warm-up
	}
	sent := p.sent[i]
	late := time.Duration(time.Now().UnixNano() - sent)
	ended := p.joinEnded.Load()
	switch {
	case p.joinBegan.Load() == 0:
		p.before = max(p.before, late)
	case ended == 0 || sent <= ended:
		p.during = max(p.during, late)
	}
}

// Metrics returns the longest delays before and during the join, and their difference. Any delay before the
// join is caused by the machine alone.
func (p *Pauses) Metrics() map[string]float64 {
	return map[string]float64{
		results.Pause:    max(0, (p.during - p.before).Seconds()),
		"worst_before_s": p.before.Seconds(),
		"worst_during_s": p.during.Seconds(),
		"join_s":         time.Duration(p.joinEnded.Load() - p.joinBegan.Load()).Seconds(),
	}
}
