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

// Heads returns a cache reader for code that needs only the heads of objects: key, UID, resource version,
// generation, labels and owners. On a packed cache it opens no objects; Open returns the object behind a
// head.
func (i *Informer[T]) Heads() indexer.Reader[object.Head] { return i.core.Heads() }

func (i *core) Heads() indexer.Reader[object.Head] { return i.cache.Reader() }

// Open returns the object behind a head obtained from Heads or from a handler added with AddHeadHandler. It
// returns an error that wraps wire.ErrDamaged if a packed object's bytes are corrupted, and an error if the
// head belongs to an object of another type.
func (i *Informer[T]) Open(head object.Head) (T, error) { return as[T](i.core.Object(head)) }

// as converts an object whose type has already been checked.
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
		return nil, fmt.Errorf("a %T is not a head of %s, whose objects are of type %v", head, i.Name(), i.goType)
	}
	return o, nil
}

// Copy is like Open, but returns a private copy that the caller may change. If a packed object is not in
// use, Copy decodes it for the caller instead of copying it.
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
		return nil, fmt.Errorf("DeepCopyObject of a %T from %s returned a %T: a type that embeds another needs its own DeepCopyObject", o, i.Name(), copied)
	}
	return copied, nil
}

// OpenEvent returns a head event with its objects opened, for head handlers that need the full objects of
// some events. It fails as Open does.
func (i *Informer[T]) OpenEvent(e Event[object.Head]) (Event[T], error) {
	told := eventWithoutObjects[T](e)
	var err error
	if told.Object, err = i.Open(e.Object); err == nil && e.Old != nil {
		told.Old, err = i.Open(e.Old)
	}
	return told, err
}

// AddHeadHandler is like AddHandlerWith, for a handler that needs only heads: no packed objects are opened
// for it. Whole objects are passed unchanged.
func (i *Informer[T]) AddHeadHandler(h Handler[object.Head], opts HandlerOptions) *Registration {
	opts.Place = cmp.Or(opts.Place, failure.Place(1))
	return i.core.addHandler(headHandlerOf(h), opts)
}

// Heads returns the event with heads for objects.
func (e Event[T]) Heads() Event[object.Head] {
	told := eventWithoutObjects[object.Head](e)
	told.Object = e.Object
	if any(e.Old) != any(*new(T)) {
		told.Old = e.Old
	}
	return told
}
