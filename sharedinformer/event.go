package sharedinformer

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// EventType is the kind of change that a handler receives.
type EventType uint8

const (
	// Add means that the object is new to this handler.
	Add EventType = iota + 1
	// Update means that the object changed.
	Update
	// Delete means that the object was deleted, or now belongs to another process (Event.Moved).
	Delete
	// Resync means that the object did not change. The handler receives it because it requested periodic
	// resyncs.
	Resync
)

// String returns the type in lower case.
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

// Event is one change delivered to a handler. Its objects are shared and must not be modified.
type Event[T object.Head] struct {
	Type EventType
	// Object is the state after the change. For Delete it is the last known state.
	Object T
	// Old is the previous state that the handler received. It is set for every Update, and for a Delete whose
	// Object is newer than the last state the handler received. It is never set with
	// HandlerOptions.WithoutOld.
	Old T
	// Initial marks an Add as part of the initial state, that is, the objects present when the informer
	// synced or when the handler was added.
	Initial bool
	// FinalStateUnknown marks a deletion that the watch missed and that was inferred from a relist or from a
	// newer object with the same name. Object is the last known state.
	FinalStateUnknown bool
	// Moved is set by a sharded informer (Options.Shard) if the object itself did not change. On a Delete it
	// means that the object's slot now belongs to another process, or that the object moved to such a slot.
	// On an Add it means that the object moved to this process; it may be false if the object moved while a
	// watch was interrupted.
	Moved bool

	// Received is when the last byte of the change was read. The durations are measured from then until each
	// stage was completed. All are zero if the event did not come from the network, as with resyncs and the
	// initial Adds for a late handler.
	Received     time.Time
	DecodedAfter time.Duration // object decoded
	QueuedAfter  time.Duration // delta queued
	AppliedAfter time.Duration // cache updated
}

// event is the informer's internal form of an Event. Its objects may be decoded (of any type) or packed.
type event = Event[object.Head]

// Handler receives changes from one informer, in order, one call at a time. The context is canceled when the
// informer stops.
//
// If Handle returns an error, panics or calls runtime.Goexit, the failure is counted in HandlerStatus, logged
// and passed to Options.OnError, and the informer stops if OnError returns failure.Stop. Otherwise the handler
// continues with the next event; the failed one is not delivered again, so use a work queue to retry keys.
// Other handlers and the process are not affected, unless HandlerOptions.CrashOnPanic is set and the handler
// panics.
type Handler[T object.Head] interface {
	Handle(ctx context.Context, e Event[T]) error
}

// HandlerFunc adapts a function to a Handler.
type HandlerFunc[T object.Head] func(ctx context.Context, e Event[T]) error

// Handle calls f.
func (f HandlerFunc[T]) Handle(ctx context.Context, e Event[T]) error { return f(ctx, e) }

// HandlerFuncs is a Handler with one function per event type. Nil functions are not called. Contexts and
// errors are treated as in Handler.
type HandlerFuncs[T object.Head] struct {
	Add    func(ctx context.Context, o T, initial bool) error
	Update func(ctx context.Context, old, new T) error
	Delete func(ctx context.Context, o T, finalStateUnknown bool) error
	// Moved is called instead of Delete when another process takes over the object (Event.Moved). A handler
	// for a sharded informer that keeps per-object state must release it here too.
	Moved func(ctx context.Context, o T) error
	// Resync is called for resyncs. If it is nil, Update is called with the same object as old and
	// new.
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

// handles reports whether f has a function for events of type t; moved is Event.Moved.
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

// untypedHandler is a handler without its type parameter. It must not modify the event, which is shared.
type untypedHandler interface {
	handle(ctx context.Context, e *event) error
}

// headHandler calls a handler that receives heads.
type headHandler struct{ next Handler[object.Head] }

func (h headHandler) handle(ctx context.Context, e *event) error { return h.next.Handle(ctx, *e) }

// typedHandler calls a handler for a specific object type.
type typedHandler[T object.Object] struct{ next Handler[T] }

func (t typedHandler[T]) handle(ctx context.Context, e *event) error {
	return t.next.Handle(ctx, typedEvent[T](e))
}

// typedFuncs is typedHandler for HandlerFuncs.
type typedFuncs[T object.Object] struct{ HandlerFuncs[T] }

func (t typedFuncs[T]) handle(ctx context.Context, e *event) error {
	return t.HandlerFuncs.Handle(ctx, typedEvent[T](e))
}

// headHandlerOf returns an untypedHandler that calls h, or nil if h is nil.
func headHandlerOf(h Handler[object.Head]) untypedHandler {
	if isNil(h) {
		return nil
	}
	return headHandler{h}
}

// untypedHandlerOf returns an untypedHandler that calls h, or nil if h is nil.
func untypedHandlerOf[T object.Object](h Handler[T]) untypedHandler {
	if isNil(h) {
		return nil
	}
	if funcs, ok := h.(HandlerFuncs[T]); ok {
		return typedFuncs[T]{funcs}
	}
	return typedHandler[T]{h}
}

// typedEvent converts e to an event with typed objects.
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

// oldDropper calls next with events without their old state.
type oldDropper struct {
	next    untypedHandler
	scratch event // reused for each event
}

func (f *oldDropper) handle(ctx context.Context, e *event) error {
	defer func() { f.scratch = event{} }()
	f.scratch = *e
	f.scratch.Old = nil
	return f.next.handle(ctx, &f.scratch)
}

// isNil reports whether h is nil or a nil function.
func isNil[T object.Head](h Handler[T]) bool {
	f, ok := h.(HandlerFunc[T])
	return h == nil || ok && f == nil
}

// errFilterOld is the error from a Filter that receives no old states and so cannot tell whether its handler
// has received the object.
var errFilterOld = errors.New("a Filter received an update without the old state, which it needs: leave out HandlerOptions.WithoutOld")

// Filter returns a handler that calls next only for objects that match. If an update makes an object match,
// next receives an Add; if an update makes it stop matching, next receives a Delete. A Delete is passed on if
// next has received the object, regardless of whether its final state matches. This works only if match
// depends solely on the object. If match panics, next is not called, and the panic is attributed to the
// handler.
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
