package sharedinformer

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// opening is a handler of packed objects that tells another one of the objects
// themselves, one at a time. It opens none that the other one does not look at.
//
// What is damaged is listed anew (see lose), and until then the other handler does not hear
// of it. So that it hears each Add before anything else, and each Delete (L03), what follows
// an Add that was not told is told as one, or not at all; and where a last or an old state is
// damaged, no more than its head is told.
type opening struct {
	next       Handler[object.Head]
	withoutOld bool
	untold     map[object.Key]struct{} // whose Add could not be told; made when there is one
}

// Handle implements Handler.
func (o *opening) Handle(ctx context.Context, e event) error {
	key := object.KeyOf(e.Object)
	_, untold := o.untold[key]
	old := e.Old != nil && !o.withoutOld
	if untold {
		if delete(o.untold, key); e.Type == Delete {
			return nil
		}
		e.Type, old = Add, false
	}
	if funcs, ok := o.next.(interface {
		hears(t EventType, moved bool) bool
	}); ok {
		if !funcs.hears(e.Type, e.Moved) {
			return nil
		}
		old = old && e.Type == Update
	}
	told, packed := e, packedOf(e.Object)
	told.Old = nil
	if old {
		if now, was, both := packed.OpenBoth(packedOf(e.Old)); both {
			told.Object, told.Old = now, was
			return o.next.Handle(ctx, told)
		}
	}
	var err error
	if told.Object, err = opened(packed); err != nil {
		if e.Type == Add {
			if o.untold == nil {
				o.untold = make(map[object.Key]struct{})
			}
			o.untold[key] = struct{}{}
		}
		if e.Type != Delete || !remains(packed, &told.Object) {
			return err
		}
	}
	if old {
		if told.Old, err = opened(packedOf(e.Old)); err != nil && !remains(packedOf(e.Old), &told.Old) {
			return err
		}
	}
	return o.next.Handle(ctx, told)
}

// opened opens an object.
func opened(o *wire.Packed) (object.Head, error) {
	opened, err := o.Open()
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// remains makes an object of what can still be read of a damaged one. It reports false where
// the Go type does not let itself be made from nothing.
func remains(o *wire.Packed, to *object.Head) bool {
	bare, ok := o.Bare()
	if !ok {
		return false
	}
	bare.SetGeneration(o.GetGeneration())
	bare.SetDeletionTimestamp(o.GetDeletionTimestamp())
	bare.SetLabels(maps.Clone(o.GetLabels()))
	bare.SetOwnerReferences(slices.Clone(o.GetOwnerReferences()))
	*to = bare
	return true
}
