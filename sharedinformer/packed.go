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

// PackedStatus contains the statistics of a packed cache.
type PackedStatus struct {
	Bytes   int64  // size of the cached objects and their heads; shared data is counted only for the first object
	Kept    int    // objects cached whole because packing would alter them; if there are many, do not use a packed cache for this kind
	Opened  uint64 // number of times an object was opened; if this far exceeds the number of changes, the program reads everything and should use a whole cache
	Damaged uint64 // objects whose bytes were corrupted; a nonzero value suggests faulty memory
}

// packing is the state of a packed cache.
type packing struct {
	packer *wire.Packer

	bytes, kept atomic.Int64 // statistics of the cached objects; see PackedStatus
	damages     atomic.Uint64
}

func newPacking(pool *wire.Pool, annotations []string) *packing {
	p := &packing{packer: wire.NewPacker(pool)}
	p.packer.KeepAnnotations(annotations)
	return p
}

// packedOf returns o as a packed cache entry.
func packedOf(o object.Head) *wire.Packed { return o.(*wire.Packed) }

// weigh updates the byte count for objects entering and leaving the cache.
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

// status returns the statistics of the packed cache.
func (p *packing) status() PackedStatus {
	return PackedStatus{Bytes: p.bytes.Load(), Kept: int(p.kept.Load()), Opened: p.packer.Opened(), Damaged: p.damages.Load()}
}

// objectDamaged is called for each object whose bytes are corrupted, from any goroutine and with the cache's
// locks held. The object is not served until a relist replaces it. Its version is cleared, so the relist
// treats it as changed.
func (i *core) objectDamaged(o *wire.Packed, err error) {
	i.packing.damages.Add(1)
	f := i.completeFailure(&failure.Failure{Phase: failure.PhaseCache, Key: object.KeyOf(o), Err: fmt.Errorf("%w; a list follows", err)})
	if of := feedCovering(i.feeds.all(), o.GetNamespace()); of != nil {
		of.reflector.Relist(f)
	}
}

// opener receives events with packed objects and calls next with the opened objects, one at a time. It opens
// only the objects that next uses.
//
// A corrupted object is relisted (see objectDamaged), and until then next is not called for it. To keep Adds
// first and paired with Deletes (L03), the event after a skipped Add becomes an Add, or is skipped if it is a
// Delete. If a deleted object's last state or an old state is corrupted, next receives an object built from
// its head.
type opener struct {
	next        untypedHandler
	withoutOld  bool
	scratch     event                   // reused for each event
	skippedAdds map[object.Key]struct{} // objects whose Add was skipped; allocated lazily
}

func (o *opener) handle(ctx context.Context, e *event) error {
	defer func() { o.scratch = event{} }()
	o.scratch = *e
	return o.openEvent(ctx, &o.scratch)
}

// openEvent opens the objects in a packed event and calls next with it. It may modify the event.
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

// openHead opens an object and returns it as an object.Head.
func openHead(o *wire.Packed) (object.Head, error) {
	opened, err := o.Open()
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// bareObject builds an object from a corrupted object's head. It returns false if it cannot create a value of
// the Go type.
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
