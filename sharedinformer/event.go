package sharedinformer

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// EventType says what a handler is told.
type EventType uint8

const (
	// Add: the object is new to this handler.
	Add EventType = iota + 1
	// Update: the object changed.
	Update
	// Delete: the object is gone.
	Delete
	// Resync: nothing changed; the handler asked to be told now and then.
	Resync
)

// String names the type in lower case.
func (t EventType) String() string {
	switch t {
	case Add:
		return "add"
	case Update:
		return "update"
	case Delete:
		return "delete"
	case Resync:
		return "resync"
	}
	return "unknown"
}

// Event is one change as a handler hears of it. The objects are shared and
// must not be changed.
type Event[T object.Object] struct {
	Type EventType
	// Object is the state after the change. For Delete it is the last state
	// that is known.
	Object T
	// Old is the state that the handler knew before: always with an Update, and
	// with a Delete where Object is a later one.
	Old T
	// Initial marks an Add as part of the state that was there when the
	// informer synced or the handler joined.
	Initial bool
	// FinalStateUnknown marks a Delete that was missed and found by a relist
	// or a re-creation: Object is the last state that was seen.
	FinalStateUnknown bool

	// Received is when the last byte of the change had been read; the others
	// are how long after that it passed a stage. All are zero where it was not
	// the network that brought the event: a resync, the initial Adds of a late
	// handler.
	Received time.Time
	Decoded  time.Duration // the object was made
	Queued   time.Duration // it entered the queue
	Applied  time.Duration // the cache held it
}

// Handler hears of the changes of one informer, one call at a time, in order.
// The context ends when the informer stops. An error is reported and counted;
// the change is not told again, since to retry by key is a work queue's job.
type Handler[T object.Object] interface {
	Handle(ctx context.Context, e Event[T]) error
}

// HandlerFunc is a Handler made of a function.
type HandlerFunc[T object.Object] func(ctx context.Context, e Event[T]) error

// Handle calls f.
func (f HandlerFunc[T]) Handle(ctx context.Context, e Event[T]) error { return f(ctx, e) }

// HandlerFuncs is a Handler made of one function for each type of event. Those
// left nil are not called.
type HandlerFuncs[T object.Object] struct {
	Add    func(o T, initial bool)
	Update func(old, new T)
	Delete func(o T, finalStateUnknown bool)
	// Resync is told of resyncs. Where it is nil, Update is, with old and new
	// the same object.
	Resync func(o T)
}

// Handle calls the function for the type of e.
func (h HandlerFuncs[T]) Handle(_ context.Context, e Event[T]) error {
	switch {
	case e.Type == Add && h.Add != nil:
		h.Add(e.Object, e.Initial)
	case e.Type == Update && h.Update != nil:
		h.Update(e.Old, e.Object)
	case e.Type == Delete && h.Delete != nil:
		h.Delete(e.Object, e.FinalStateUnknown)
	case e.Type == Resync && h.Resync != nil:
		h.Resync(e.Object)
	case e.Type == Resync && h.Update != nil:
		h.Update(e.Object, e.Object)
	}
	return nil
}

// Filter returns a handler that passes on to next only what concerns objects
// for which keep is true. An update that makes an object pass is an Add to
// next, one that makes it fail is a Delete. A Delete is passed on if next knows
// the object, whatever its final state is. For that keep must depend on nothing
// but the object.
func Filter[T object.Object](keep func(T) bool, next Handler[T]) Handler[T] {
	var none T
	return HandlerFunc[T](func(ctx context.Context, e Event[T]) error {
		known := e.Object
		if any(e.Old) != any(none) {
			known = e.Old
		}
		pass := keep(known)
		if e.Type == Update {
			switch now := keep(e.Object); {
			case !pass && now:
				e.Type, e.Old, pass = Add, none, true
			case pass && !now:
				e.Type, e.Object, e.Old = Delete, e.Old, none
			}
		}
		if !pass {
			return nil
		}
		return next.Handle(ctx, e)
	})
}
