package sharedinformer

import (
	"context"
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Heads returns the read side of the cache for those who need no more of an object than its
// head: key, UID, resource version, generation, labels, owners. Of a packed cache it opens
// nothing. Open makes the object of a head.
func (i *Informer[T]) Heads() indexer.Reader[object.Head] { return i.heads }

// Open returns the object of a head that Heads or a handler of AddHeadHandler was given. It
// fails where the bytes of a packed object are damaged, with an error that wraps
// wire.ErrDamaged, and where the head is of objects of another type.
func (i *Informer[T]) Open(head object.Head) (T, error) {
	switch o := head.(type) {
	case *wire.Packed[T]:
		return o.Open()
	case T:
		return o, nil
	}
	var none T
	return none, fmt.Errorf("a %T is no head of %s, whose objects are of type %v", head, i.Name(), reflect.TypeFor[T]())
}

// Copy returns the object of a head as Open does, but as the caller's own, which may be
// changed. A packed object that nobody has in use is made for the caller, and not copied.
func (i *Informer[T]) Copy(head object.Head) (T, error) {
	if packed, ok := head.(*wire.Packed[T]); ok {
		return packed.Copy()
	}
	o, err := i.Open(head)
	if err != nil {
		return o, err
	}
	return o.DeepCopyObject().(T), nil
}

// OpenEvent returns an event of heads with the objects themselves. It fails as Open does.
func (i *Informer[T]) OpenEvent(e Event[object.Head]) (Event[T], error) {
	told := recast[T](e)
	var err error
	if told.Object, err = i.Open(e.Object); err == nil && e.Old != nil {
		told.Old, err = i.Open(e.Old)
	}
	return told, err
}

// AddHeadHandler is AddHandlerWith for a handler that needs no more of an object than its
// head: no packed object is opened for it. Whole objects are told as they are.
func (i *Informer[T]) AddHeadHandler(h Handler[object.Head], opts HandlerOptions) *Registration {
	if opts.Place == "" {
		opts.Place = failure.Place(1)
	}
	if isNil(h) {
		panic(fmt.Sprintf("%s: the handler added to %s is nil", opts.Place, i.Name()))
	}
	if opts.WithoutOld {
		h = forgetting[object.Head]{h}
	}
	if i.packed != nil {
		return &Registration{i.packed.addHandler(beheading[*wire.Packed[T]]{h}, opts)}
	}
	return &Registration{i.whole.addHandler(beheading[T]{h}, opts)}
}

// beheading is a handler that tells another one of heads.
type beheading[T object.Head] struct{ next Handler[object.Head] }

// Handle implements Handler.
func (b beheading[T]) Handle(ctx context.Context, e Event[T]) error {
	return b.next.Handle(ctx, e.Heads())
}

// Heads returns the event with the heads of its objects.
func (e Event[T]) Heads() Event[object.Head] {
	told := recast[object.Head](e)
	told.Object = e.Object
	if any(e.Old) != any(*new(T)) {
		told.Old = e.Old
	}
	return told
}

// recast returns what e says, without its objects.
func recast[T, S object.Head](e Event[S]) Event[T] {
	return Event[T]{
		Type: e.Type, Initial: e.Initial, FinalStateUnknown: e.FinalStateUnknown, Moved: e.Moved,
		Received: e.Received, DecodedAfter: e.DecodedAfter, QueuedAfter: e.QueuedAfter, AppliedAfter: e.AppliedAfter,
	}
}
