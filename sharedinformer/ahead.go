package sharedinformer

import (
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/indexer"
)

// ahead is a set of objects that a handler hears of before anything else: those that
// were there when it joined, or those of a resync.
type ahead struct {
	objects indexer.View
	as      EventType
	since   time.Time
	heard   atomic.Int64 // calls that have returned; more are only made by the handler's goroutine
}

// next returns the next event, and false where the handler has heard all.
func (a *ahead) next() (e event, ok bool) {
	n := int(a.heard.Load())
	if n == a.objects.Len() {
		return e, false
	}
	return event{Type: a.as, Object: a.objects.At(n), Initial: a.as == Add}, true
}

// left is how many objects the handler has not heard to the end.
func (a *ahead) left() int { return a.objects.Len() - int(a.heard.Load()) }
