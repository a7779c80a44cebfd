package sharedinformer

import (
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// replay is a set of cached objects that a handler is told of before anything else: those that
// were cached when it joined, or those of a resync.
type replay struct {
	objects indexer.View
	as      EventType
	since   time.Time
	acked   atomic.Int64 // calls that have returned; more are only made by the handler's goroutine
	scratch event        // is reused for each event; of the handler's goroutine
}

// current returns the next object, about which a call may be in progress; nil if there is none left.
func (a *replay) current() object.Head {
	n := int(a.acked.Load())
	if n == a.objects.Len() {
		return nil
	}
	return a.objects.At(n)
}

// next returns the next event, and nil if the handler has heard all. It is the handler's goroutine that
// calls it.
func (a *replay) next() *event {
	o := a.current()
	if o == nil {
		return nil
	}
	a.scratch = event{Type: a.as, Object: o, Initial: a.as == Add}
	return &a.scratch
}

// remaining is how many objects the handler has not heard to the end.
func (a *replay) remaining() int { return a.objects.Len() - int(a.acked.Load()) }
