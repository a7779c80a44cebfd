package sharedinformer

import (
	"cmp"
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
func (i *Informer[T]) Heads() indexer.Reader[object.Head] { return i.core.Heads() }

func (i *core) Heads() indexer.Reader[object.Head] { return i.cache.Reader() }

// Open returns the object of a head that Heads or a handler of AddHeadHandler was given. It
// fails where the bytes of a packed object are damaged, with an error that wraps
// wire.ErrDamaged, and where the head is of objects of another type.
func (i *Informer[T]) Open(head object.Head) (T, error) { return as[T](i.core.Object(head)) }

// as returns an object as one of a type that it was found to have.
func as[T object.Object](o object.Object, err error) (T, error) {
	typed, _ := o.(T)
	return typed, err
}

func (i *core) Object(head object.Head) (object.Object, error) {
	o, ok := head.(object.Object)
	if packed, is := head.(*wire.Packed); is {
		var err error
		if o, err = packed.Open(); err != nil {
			return nil, err
		}
		ok = true
	}
	if !ok || !reflect.TypeOf(o).AssignableTo(i.goType) {
		return nil, fmt.Errorf("a %T is no head of %s, whose objects are of type %v", head, i.Name(), i.goType)
	}
	return o, nil
}

// Copy returns the object of a head as Open does, but as the caller's own, which may be
// changed. A packed object that nobody has in use is made for the caller, and not copied.
func (i *Informer[T]) Copy(head object.Head) (T, error) { return as[T](i.core.copy(head)) }

func (i *core) copy(head object.Head) (object.Object, error) {
	if packed, ok := head.(*wire.Packed); ok && packed.Type().AssignableTo(i.goType) {
		return packed.Copy()
	}
	o, err := i.Object(head)
	if err != nil {
		return nil, err
	}
	copied, ok := o.DeepCopyObject().(object.Object)
	if !ok || !reflect.TypeOf(copied).AssignableTo(i.goType) {
		return nil, fmt.Errorf("DeepCopyObject of a %T, of %s, returns a %T: a type that embeds another needs its own", o, i.Name(), copied)
	}
	return copied, nil
}

// OpenEvent returns an event of heads with the objects themselves, for handlers of heads that need
// the objects of some events. It fails as Open does.
func (i *Informer[T]) OpenEvent(e Event[object.Head]) (Event[T], error) {
	told := eventWithoutObjects[T](e)
	var err error
	if told.Object, err = i.Open(e.Object); err == nil && e.Old != nil {
		told.Old, err = i.Open(e.Old)
	}
	return told, err
}

// AddHeadHandler is AddHandlerWith for a handler that needs no more of an object than its
// head: no packed object is opened for it. Whole objects are told as they are.
func (i *Informer[T]) AddHeadHandler(h Handler[object.Head], opts HandlerOptions) *Registration {
	opts.Place = cmp.Or(opts.Place, failure.Place(1))
	return i.core.addHandler(headHandlerOf(h), opts)
}

// Heads returns the event with the heads of its objects.
func (e Event[T]) Heads() Event[object.Head] {
	told := eventWithoutObjects[object.Head](e)
	told.Object = e.Object
	if any(e.Old) != any(*new(T)) {
		told.Old = e.Old
	}
	return told
}
