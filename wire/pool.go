package wire

import (
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// Pool lets the objects that informers hold share their equal parts: the same
// environment, the same probes, the same labels are decoded once and pointed at
// by all objects that have them. It is for objects that nobody changes (L16).
// The zero value is not ready for use; see NewPool.
//
// A part is a pointer, a slice or a map inside an object, and it is known by
// the bytes that it was decoded from. The pool holds these bytes, and the part
// itself only weakly: when the last object that uses a part is gone, the
// garbage collector takes the part and the pool forgets the bytes (W03). What
// has been seen only once is not remembered, so that content that never repeats
// costs a hash and no memory.
//
// All methods may be called from any goroutine.
type Pool struct {
	seed   maphash.Seed
	shards [poolShards]*shard       // each by itself, since parts keep theirs alive
	seen   [seenSlots]atomic.Uint32 // marks of what was met once
	small  *smallValues
}

const (
	poolShards = 16      // a power of two
	seenSlots  = 1 << 16 // a power of two; a quarter of a megabyte
	maxParts   = 1 << 15 // in one shard; half a million parts in all
)

// shard is a part of the pool with a lock of its own. Nothing is called under
// it.
type shard struct {
	mu    sync.RWMutex
	parts map[uint64]*part
}

// part is a remembered part. It does not change.
type part struct {
	unit *unit
	raw  []byte // what it was decoded from; its strings lie in there
	at   weak.Pointer[byte]
	n    int // of a slice, its length
}

// unit says what kind of part some bytes stand for: parts are shared only where
// type, encoding and projection agree. Its address is its identity.
type unit struct {
	salt uint64
}

// units counts the units there are, for their salts.
var units atomic.Uint64

func newUnit() *unit {
	return &unit{salt: units.Add(1) * 0x9e3779b97f4a7c15}
}

// NewPool returns an empty pool.
func NewPool() *Pool {
	p := &Pool{seed: maphash.MakeSeed(), small: newSmallValues()}
	for i := range p.shards {
		p.shards[i] = &shard{parts: make(map[uint64]*part)}
	}
	return p
}

// hash names the bytes of a part for lookup, repeats and remember.
func (p *Pool) hash(u *unit, raw []byte) uint64 {
	return maphash.Bytes(p.seed, raw) ^ u.salt
}

// lookup returns the part that was decoded from raw, or nil.
func (p *Pool) lookup(u *unit, hash uint64, raw []byte) (at unsafe.Pointer, n int) {
	s := p.shards[hash%poolShards]
	s.mu.RLock()
	found := s.parts[hash]
	s.mu.RUnlock()
	if found == nil || found.unit != u || string(found.raw) != string(raw) {
		return nil, 0
	}
	return unsafe.Pointer(found.at.Value()), found.n
}

// repeats reports whether the bytes with this hash were met before, as far as
// can be told, and notes that they were met now.
func (p *Pool) repeats(hash uint64) bool {
	mark := uint32(hash>>32) | 1
	return p.seen[hash>>4%seenSlots].Swap(mark) == mark
}

// remember makes a part known to later lookups, as long as somebody uses it. at
// points to memory of its own: that of a struct, of a slice's elements or of a
// map. raw must not change any more.
func (p *Pool) remember(u *unit, hash uint64, raw []byte, at unsafe.Pointer, n int) {
	s := p.shards[hash%poolShards]
	made := &part{unit: u, raw: raw, at: weak.Make((*byte)(at)), n: n}
	s.mu.Lock()
	kept := len(s.parts) < maxParts
	if kept {
		s.parts[hash] = made
	}
	s.mu.Unlock()
	if kept {
		runtime.AddCleanup((*byte)(at), s.forget, gone{hash, made})
	}
}

// gone names a part that nobody uses any more.
type gone struct {
	hash uint64
	part *part
}

func (s *shard) forget(g gone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts[g.hash] == g.part {
		delete(s.parts, g.hash)
	}
}

// Len returns how many parts the pool knows now.
func (p *Pool) Len() int {
	n := 0
	for _, s := range p.shards {
		s.mu.RLock()
		n += len(s.parts)
		s.mu.RUnlock()
	}
	return n
}

// smallValues are the numbers and truth values that optional fields point at
// again and again.
type smallValues struct {
	bools  [2]bool
	int32s [smallNumbers]int32
	int64s [smallNumbers]int64
}

const smallNumbers = 1024

func newSmallValues() *smallValues {
	v := new(smallValues)
	v.bools[1] = true
	for i := range smallNumbers {
		v.int32s[i], v.int64s[i] = int32(i), int64(i)
	}
	return v
}
