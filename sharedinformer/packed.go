package sharedinformer

import (
	"fmt"
	"sync/atomic"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

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
