package sharedinformer

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// EventType says what a handler is told.
type EventType uint8

const (
	// Add: the object is new to this handler.
	Add EventType = iota + 1
	// Update: the object changed.
	Update
	// Delete: the object is gone, or is another process's (Event.Moved).
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
type Event[T object.Head] struct {
	Type EventType
	// Object is the state after the change. For Delete it is the last state
	// that is known.
	Object T
	// Old is the state that the handler knew before: always with an Update, and
	// with a Delete where Object is a later one; never with HandlerOptions.WithoutOld.
	Old T
	// Initial marks an Add as part of the state that was there when the
	// informer synced or the handler joined.
	Initial bool
	// FinalStateUnknown marks a Delete that was missed and found by a relist
	// or a re-creation: Object is the last state that was seen.
	FinalStateUnknown bool
	// Moved says, where an informer has a share of the objects (Options.Shard), that nothing
	// has happened to the object. A Delete with it is no deletion: the slot of the object is
	// another process's now, or the object has come into such a slot. An Add with it
	// says that the object came the other way; where it moved while a watch was
	// interrupted, the Add may lack that.
	Moved bool

	// Received is when the last byte of the change had been read; the others say
	// how long after that it passed a stage. All are zero where the event did not
	// come from the network: a resync, the initial Adds of a late handler.
	Received     time.Time
	DecodedAfter time.Duration // the object was made
	QueuedAfter  time.Duration // it entered the queue
	AppliedAfter time.Duration // the cache held it
}

// event is an Event as the informer has it, of objects of any type, or of packed ones.
type event = Event[object.Head]

// Handler hears of the changes of one informer, one call at a time, in order.
// The context ends when the informer stops. An error is reported and counted;
// the change is not told again, since to retry by key is a work queue's job.
type Handler[T object.Head] interface {
	Handle(ctx context.Context, e Event[T]) error
}

// HandlerFunc is a Handler made of a function.
type HandlerFunc[T object.Head] func(ctx context.Context, e Event[T]) error

// Handle calls f.
func (f HandlerFunc[T]) Handle(ctx context.Context, e Event[T]) error { return f(ctx, e) }

// HandlerFuncs is a Handler made of one function for each type of event. Those
// left nil are not called. Context and error are those of Handler.
type HandlerFuncs[T object.Head] struct {
	Add    func(ctx context.Context, o T, initial bool) error
	Update func(ctx context.Context, old, new T) error
	Delete func(ctx context.Context, o T, finalStateUnknown bool) error
	// Moved is told, and Delete is not, of an object that is another process's from now on
	// (Event.Moved). Where an informer has a share of the objects, who keeps something for
	// each object lets go of it here too.
	Moved func(ctx context.Context, o T) error
	// Resync is told of resyncs. Where it is nil, Update is, with old and new
	// the same object.
	Resync func(ctx context.Context, o T) error
}

// Handle calls the function for the type of e.
func (h HandlerFuncs[T]) Handle(ctx context.Context, e Event[T]) error {
	switch {
	case e.Type == Add && h.Add != nil:
		return h.Add(ctx, e.Object, e.Initial)
	case e.Type == Update && h.Update != nil:
		return h.Update(ctx, e.Old, e.Object)
	case e.Type == Delete && e.Moved:
		if h.Moved != nil {
			return h.Moved(ctx, e.Object)
		}
	case e.Type == Delete && h.Delete != nil:
		return h.Delete(ctx, e.Object, e.FinalStateUnknown)
	case e.Type == Resync && h.Resync != nil:
		return h.Resync(ctx, e.Object)
	case e.Type == Resync && h.Update != nil:
		return h.Update(ctx, e.Object, e.Object)
	}
	return nil
}

// handles reports whether there is a function for events of type t; moved is Event.Moved.
func (h HandlerFuncs[T]) handles(t EventType, moved bool) bool {
	switch {
	case t == Add:
		return h.Add != nil
	case t == Update:
		return h.Update != nil
	case t == Delete && moved:
		return h.Moved != nil
	case t == Delete:
		return h.Delete != nil
	}
	return h.Resync != nil || h.Update != nil
}

// untypedHandler is a handler without its type parameter. It must not change the event, which others get too.
type untypedHandler interface {
	handle(ctx context.Context, e *event) error
}

// headHandler calls a handler of heads.
type headHandler struct{ next Handler[object.Head] }

func (h headHandler) handle(ctx context.Context, e *event) error { return h.next.Handle(ctx, *e) }

// typedHandler calls a handler of objects of one type.
type typedHandler[T object.Object] struct{ next Handler[T] }

func (t typedHandler[T]) handle(ctx context.Context, e *event) error {
	return t.next.Handle(ctx, typedEvent[T](e))
}

// typedFuncs is typedHandler for HandlerFuncs.
type typedFuncs[T object.Object] struct{ HandlerFuncs[T] }

func (t typedFuncs[T]) handle(ctx context.Context, e *event) error {
	return t.HandlerFuncs.Handle(ctx, typedEvent[T](e))
}

// headHandlerOf returns the untypedHandler that calls h; nil for nil.
func headHandlerOf(h Handler[object.Head]) untypedHandler {
	if isNil(h) {
		return nil
	}
	return headHandler{h}
}

// untypedHandlerOf returns the untypedHandler that calls h; nil for nil.
func untypedHandlerOf[T object.Object](h Handler[T]) untypedHandler {
	if isNil(h) {
		return nil
	}
	if funcs, ok := h.(HandlerFuncs[T]); ok {
		return typedFuncs[T]{funcs}
	}
	return typedHandler[T]{h}
}

// typedEvent returns an event with its objects as those of one type.
func typedEvent[T object.Object](e *event) (told Event[T]) {
	told.Type, told.Initial, told.FinalStateUnknown, told.Moved = e.Type, e.Initial, e.FinalStateUnknown, e.Moved
	told.Received, told.DecodedAfter, told.QueuedAfter, told.AppliedAfter = e.Received, e.DecodedAfter, e.QueuedAfter, e.AppliedAfter
	told.Object, _ = e.Object.(T)
	told.Old, _ = e.Old.(T)
	return told
}

// eventWithoutObjects returns e without its objects.
func eventWithoutObjects[T, S object.Head](e Event[S]) Event[T] {
	return Event[T]{
		Type: e.Type, Initial: e.Initial, FinalStateUnknown: e.FinalStateUnknown, Moved: e.Moved,
		Received: e.Received, DecodedAfter: e.DecodedAfter, QueuedAfter: e.QueuedAfter, AppliedAfter: e.AppliedAfter,
	}
}

// oldDropper passes events on without the old state.
type oldDropper struct {
	next    untypedHandler
	scratch event // is reused for each event
}

func (f *oldDropper) handle(ctx context.Context, e *event) error {
	defer func() { f.scratch = event{} }()
	f.scratch = *e
	f.scratch.Old = nil
	return f.next.handle(ctx, &f.scratch)
}

// isNil reports whether h is nil, or a nil function.
func isNil[T object.Head](h Handler[T]) bool {
	f, ok := h.(HandlerFunc[T])
	return h == nil || ok && f == nil
}

// errFilterOld: a Filter cannot tell what its handler knows.
var errFilterOld = errors.New("a Filter was told of an update without the old state, which it needs: leave out HandlerOptions.WithoutOld")

// Filter returns a handler that passes on to next only what concerns objects
// that match. An update that makes an object match is an Add to next, one that
// makes it match no longer is a Delete. A Delete is passed on if next knows the
// object, whatever its final state is. For that match must depend on nothing but
// the object. Where match panics, next does not hear of the event, and the panic
// counts as the handler's.
func Filter[T object.Head](match func(T) bool, next Handler[T]) Handler[T] {
	if match == nil || isNil(next) {
		panic(failure.Place(1) + ": Filter needs a function and a handler, and one of them is nil")
	}
	var none T
	return HandlerFunc[T](func(ctx context.Context, e Event[T]) error {
		known := e.Object
		if any(e.Old) != any(none) {
			known = e.Old
		} else if e.Type == Update {
			return errFilterOld
		}
		pass := match(known)
		if e.Type == Update {
			switch now := match(e.Object); {
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
