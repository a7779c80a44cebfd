package sharedinformer

import (
	"fmt"
	"sync/atomic"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// packed is the machine of an informer that caches bytes.
type packed[T object.Object] struct {
	*core[*wire.Packed[T]]
	by     *wire.Packer[T]
	reader indexer.Reader[T]

	bytes, kept atomic.Int64 // of what is cached; see PackedStatus
	damages     atomic.Uint64
}

func newPacked[T object.Object](from source.ListerWatcher[T], opts Options) *packed[T] {
	pool := partsOf(from)
	by := wire.NewPacker[T](pool)
	by.KeepAnnotations(opts.Annotations)
	i := &packed[T]{by: by, core: newCore[*wire.Packed[T]](source.Packing(from, by), opts, by.Equal)}
	i.snapshots = newSnapshots(i.core, opts, packedForm[T]{by})
	i.reader = indexer.Opened[T](i.cache)
	by.OnLose(i.lose)
	i.tally = i.count
	if opts.DetectMutations > 0 {
		detector := newOpenedMutations[T](opts.DetectMutations, i.reportNow)
		if pool != nil {
			detector.forget = pool.Forget
		}
		by.OnOpen(detector.opened)
		i.mutations = detector
	}
	return i
}

// count weighs what comes into the cache and what leaves it.
func (i *packed[T]) count(events []Event[*wire.Packed[T]]) {
	weigh := func(o *wire.Packed[T], sign int64) {
		i.bytes.Add(sign * int64(o.Size()))
		if o.Kept() {
			i.kept.Add(sign)
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

// Status implements machine.
func (i *packed[T]) Status() Status {
	s := i.core.Status()
	s.Store = Packed
	s.Packed = PackedStatus{Bytes: i.bytes.Load(), Kept: int(i.kept.Load()), Opened: i.by.Opened(), Damaged: i.damages.Load()}
	return s
}

// lose is told of each object whose bytes turn out to be damaged, in any goroutine and under
// the locks of the cache. Nothing is served in its place, and the server is asked for it
// again: since it has no version any more, a list brings it as a new one.
func (i *packed[T]) lose(o *wire.Packed[T], err error) {
	i.damages.Add(1)
	f := i.note(&failure.Failure{Phase: failure.PhaseCache, Key: object.KeyOf(o), Err: fmt.Errorf("%w; a list follows", err)})
	if of := feedOf(i.feeds.all(), o.GetNamespace()); of != nil {
		of.reflector.Relist(f)
	}
}

// partsOf returns the pool of the parts that a source's objects share, nil for none.
func partsOf(from any) *wire.Pool {
	if sharer, ok := from.(source.Sharer); ok {
		return sharer.SharedParts()
	}
	return nil
}
