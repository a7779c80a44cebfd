package sharedinformer

import (
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// ahead is a set of objects that a handler hears of before anything else: those that
// were there when it joined, or those of a resync.
type ahead struct {
	objects indexer.View
	as      EventType
	since   time.Time
	heard   atomic.Int64 // calls that have returned; more are only made by the handler's goroutine
	told    event        // is used again for each event; of the handler's goroutine
}

// object returns the next object, which the handler may hear of already; nil if it has heard all.
func (a *ahead) object() object.Head {
	n := int(a.heard.Load())
	if n == a.objects.Len() {
		return nil
	}
	return a.objects.At(n)
}

// next returns the next event, and nil if the handler has heard all. It is the handler's goroutine that
// calls it.
func (a *ahead) next() *event {
	o := a.object()
	if o == nil {
		return nil
	}
	a.told = event{Type: a.as, Object: o, Initial: a.as == Add}
	return &a.told
}

// left is how many objects the handler has not heard to the end.
func (a *ahead) left() int { return a.objects.Len() - int(a.heard.Load()) }
