package sharedinformer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// PackedStatus is a packed cache seen from outside.
type PackedStatus struct {
	Bytes   int64  // of the cached objects, with their heads; a part that several share counts for the first of them
	Kept    int    // cached objects that are whole, because bytes do not give them back; many mean that the store does not suit the kind
	Opened  uint64 // how often an object was made of its bytes; many more than there are changes mean that the program looks at everything, and is better off with whole objects
	Damaged uint64 // objects whose bytes could not be read any more; more than none means that the memory of the machine is broken
}

// packing is what an informer that caches bytes has besides.
type packing struct {
	packer *wire.Packer

	bytes, kept atomic.Int64 // of what is cached; see PackedStatus
	damages     atomic.Uint64
}

func newPacking(pool *wire.Pool, annotations []string) *packing {
	p := &packing{packer: wire.NewPacker(pool)}
	p.packer.KeepAnnotations(annotations)
	return p
}

// packedOf returns an entry of a cache of packed objects.
func packedOf(o object.Head) *wire.Packed { return o.(*wire.Packed) }

// weigh counts the bytes that enter and leave the cache.
func (p *packing) weigh(events []event) {
	weigh := func(o object.Head, sign int64) {
		packed := packedOf(o)
		p.bytes.Add(sign * int64(packed.Size()))
		if packed.KeptWhole() {
			p.kept.Add(sign)
		}
	}
	for n := range events {
		e := &events[n]
		if e.Type != Delete {
			weigh(e.Object, 1)
		}
		if e.Old != nil {
			weigh(e.Old, -1)
		} else if e.Type == Delete {
			weigh(e.Object, -1)
		}
	}
}

// status returns the figures of the packed cache.
func (p *packing) status() PackedStatus {
	return PackedStatus{Bytes: p.bytes.Load(), Kept: int(p.kept.Load()), Opened: p.packer.Opened(), Damaged: p.damages.Load()}
}

// objectDamaged is called with each object whose bytes turn out to be damaged, in any goroutine and under
// the locks of the cache. Nothing is served in its place, and the server is asked for it
// again: since it has no version any more, a list brings it as a new one.
func (i *core) objectDamaged(o *wire.Packed, err error) {
	i.packing.damages.Add(1)
	f := i.completeFailure(&failure.Failure{Phase: failure.PhaseCache, Key: object.KeyOf(o), Err: fmt.Errorf("%w; a list follows", err)})
	if of := feedCovering(i.feeds.all(), o.GetNamespace()); of != nil {
		of.reflector.Relist(f)
	}
}

// opener receives events of packed objects and calls next with the objects
// themselves, one at a time. It opens none that next does not look at.
//
// A damaged object is listed again (see objectDamaged), and until then next is not called for
// it. So that next gets each Add before anything else, and each Delete (L03), an event behind
// a skipped Add becomes one, or is skipped too; and if a last or an old state is damaged, next
// gets no more than its head.
type opener struct {
	next        untypedHandler
	withoutOld  bool
	scratch     event                   // is reused for each event
	skippedAdds map[object.Key]struct{} // whose Add was skipped; made when there is one
}

func (o *opener) handle(ctx context.Context, e *event) error {
	defer func() { o.scratch = event{} }()
	o.scratch = *e
	return o.openEvent(ctx, &o.scratch)
}

// openEvent opens the objects of a packed event, which is its own, and calls next with it.
func (o *opener) openEvent(ctx context.Context, e *event) error {
	key := object.KeyOf(e.Object)
	_, untold := o.skippedAdds[key]
	old := e.Old != nil && !o.withoutOld
	if untold {
		if delete(o.skippedAdds, key); e.Type == Delete {
			return nil
		}
		e.Type, old = Add, false
	}
	if funcs, ok := o.next.(interface {
		handles(t EventType, moved bool) bool
	}); ok {
		if !funcs.handles(e.Type, e.Moved) {
			return nil
		}
		old = old && e.Type == Update
	}
	packed, was := packedOf(e.Object), e.Old
	e.Old = nil
	if old {
		if now, was, both := packed.OpenBoth(packedOf(was)); both {
			e.Object, e.Old = now, was
			return o.next.handle(ctx, e)
		}
	}
	var err error
	if e.Object, err = openHead(packed); err != nil {
		if e.Type == Add {
			if o.skippedAdds == nil {
				o.skippedAdds = make(map[object.Key]struct{})
			}
			o.skippedAdds[key] = struct{}{}
		}
		if e.Type != Delete || !bareObject(packed, &e.Object) {
			return err
		}
	}
	if old {
		if e.Old, err = openHead(packedOf(was)); err != nil && !bareObject(packedOf(was), &e.Old) {
			return err
		}
	}
	return o.next.handle(ctx, e)
}

// openHead opens an object.
func openHead(o *wire.Packed) (object.Head, error) {
	opened, err := o.Open()
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// bareObject makes an object of the head of a damaged one. It reports false if
// the Go type does not let itself be made from nothing.
func bareObject(o *wire.Packed, to *object.Head) bool {
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
