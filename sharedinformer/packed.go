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
		detector := &openedMutations[T]{
			mutationDetector: newMutationDetector[T](opts.DetectMutations, i.reportNow),
			cached:           make(map[object.Key]*wire.Packed[T]),
			early:            make(map[*wire.Packed[T]]*original[T]),
		}
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

// openedMutations detects mutations of objects that were opened. The cache itself cannot be
// changed.
type openedMutations[T object.Object] struct {
	*mutationDetector[T]

	// Guarded by mu.
	cached map[object.Key]*wire.Packed[T]
	early  map[*wire.Packed[T]]*original[T] // opened by an index, before they are cached, or when they have left
}

// opened is called with each object before anybody else has it.
func (m *openedMutations[T]) opened(p *wire.Packed[T], o T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := object.KeyOf(p)
	if m.cached[key] == p {
		m.watch(key, o)
	} else {
		m.early[p] = &original[T]{shared: o, copy: o.DeepCopyObject().(T), key: key}
	}
}

func (m *openedMutations[T]) learn(events []Event[*wire.Packed[T]]) (look func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []*original[T]
	for i := range events {
		e := &events[i]
		key := object.KeyOf(e.Object)
		if before, ok := m.watched[key]; ok {
			left = append(left, before)
			delete(m.watched, key)
		}
		if e.Type == Delete {
			delete(m.cached, key)
			continue
		}
		m.cached[key] = e.Object
		if o, ok := m.early[e.Object]; ok {
			m.watched[key] = o
		} else if e.Object.Kept() {
			o, _ := e.Object.InUse()
			m.watch(key, o)
		}
	}
	clear(m.early)
	return func() { m.checkLeft(left) }
}

// look looks at the object if it is in use.
func (m *openedMutations[T]) look(shared *wire.Packed[T], handler string) {
	if o, ok := shared.InUse(); ok {
		m.mutationDetector.look(o, handler)
	}
}
