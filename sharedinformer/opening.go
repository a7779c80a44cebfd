package sharedinformer

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// opening hears of packed objects and tells another hearer of the objects
// themselves, one at a time. It opens none that the other one does not look at.
//
// A damaged object is listed anew (see lose), and until then the other hearer does not hear
// of it. So that it hears each Add before anything else, and each Delete (L03), an event behind
// an Add that was not told is told as one, or not at all; and if a last or an old state is
// damaged, no more than its head is told.
type opening struct {
	next       hearer
	withoutOld bool
	told       event                   // is used again for each event
	untold     map[object.Key]struct{} // whose Add could not be told; made when there is one
}

func (o *opening) hear(ctx context.Context, e *event) error {
	defer func() { o.told = event{} }()
	o.told = *e
	return o.open(ctx, &o.told)
}

// open opens the objects of a packed event, which is its own, and tells of it.
func (o *opening) open(ctx context.Context, e *event) error {
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
	packed, was := packedOf(e.Object), e.Old
	e.Old = nil
	if old {
		if now, was, both := packed.OpenBoth(packedOf(was)); both {
			e.Object, e.Old = now, was
			return o.next.hear(ctx, e)
		}
	}
	var err error
	if e.Object, err = opened(packed); err != nil {
		if e.Type == Add {
			if o.untold == nil {
				o.untold = make(map[object.Key]struct{})
			}
			o.untold[key] = struct{}{}
		}
		if e.Type != Delete || !remains(packed, &e.Object) {
			return err
		}
	}
	if old {
		if e.Old, err = opened(packedOf(was)); err != nil && !remains(packedOf(was), &e.Old) {
			return err
		}
	}
	return o.next.hear(ctx, e)
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
	bare, ok := o.Placeholder()
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
