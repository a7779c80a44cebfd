package wire

import (
	"hash/maphash"
	"runtime"
	"sync/atomic"
	"unsafe"
	"weak"
)

// Pool lets the objects that informers hold share their equal parts: the same
// environment, the same probes, the same labels are decoded once and pointed at
// by all objects that have them. It is for objects that nobody changes (L16).
// See NewPool.
//
// A part is a pointer, a slice, a map or a string inside an object, and it is
// known by the bytes that it was decoded from. The pool holds these bytes, and
// the part itself only weakly: when the last object that uses a part is gone,
// the garbage collector takes the part and the pool forgets the bytes (W03).
// What has been seen only once is not remembered, so that content that never
// repeats costs a hash and no memory.
//
// All methods may be called from any goroutine; none waits for another.
type Pool struct {
	seed  maphash.Seed
	parts *parts
	seen  sightings // of what was met once
	small atomic.Pointer[smallValues]
	turn  atomic.Uint64 // a part of every hash; another one after Forget
}

// part is a remembered part. It does not change.
type part struct {
	unit  *unit
	hash  uint64
	raw   []byte // what it was decoded from; its strings lie in there; nil for a string
	at    weak.Pointer[byte]
	n     int // the length of a slice or string
	holds int // bytes: those of raw, and of the parts within it
}

// unit says what kind of part some bytes stand for: parts are shared only where
// type, encoding and projection agree. Its address is its identity.
type unit struct {
	salt uint64
}

// units counts the units there are, for their salts.
var units atomic.Uint64

func newUnit() *unit { return &unit{salt: units.Add(1) * oddSalt} }

// oddSalt spreads small numbers over 64 bits, each to another place.
const oddSalt = 0x9e3779b97f4a7c15

// stringUnit is that of strings, which are the same whatever they are for.
var stringUnit = newUnit()

// NewPool returns an empty pool. It takes about 1 KB, and grows with the number
// of parts in use.
func NewPool() *Pool {
	p := &Pool{seed: maphash.MakeSeed(), parts: newParts()}
	p.small.Store(newSmallValues())
	return p
}

// hash names the bytes of a part for lookup, repeats and remember.
func (p *Pool) hash(u *unit, raw []byte) uint64 {
	return maphash.Bytes(p.seed, raw) ^ u.salt ^ p.turn.Load()
}

// lookup returns the part that was decoded from raw, or nil, and how many bytes
// are remembered for it and what is within it.
func (p *Pool) lookup(u *unit, hash uint64, raw []byte) (at unsafe.Pointer, n, holds int) {
	found := p.parts.find(hash)
	if found == nil || found.unit != u {
		return nil, 0, 0
	}
	at, known := unsafe.Pointer(found.at.Value()), found.raw
	if known == nil && at != nil {
		known = unsafe.Slice((*byte)(at), found.n)
	}
	if string(known) != string(raw) {
		return nil, 0, 0
	}
	return at, found.n, found.holds
}

// remember makes a part known to later lookups, as long as somebody uses it. at
// points to memory of its own: that of a struct, of a slice's elements, of a
// map, or of a string, which has no raw. raw must not change any more. holds is
// as sharer.kept says.
func (p *Pool) remember(u *unit, hash uint64, raw []byte, at unsafe.Pointer, n, holds int) {
	made := &part{unit: u, hash: hash, raw: raw, at: weak.Make((*byte)(at)), n: n, holds: holds}
	p.parts.add(made)
	runtime.AddCleanup((*byte)(at), p.parts.remove, made)
}

// rememberString returns a string like raw that later lookups find.
func (p *Pool) rememberString(hash uint64, raw []byte) string {
	own := make([]byte, len(raw), max(len(raw), ownMemory))
	copy(own, raw)
	p.remember(stringUnit, hash, nil, unsafe.Pointer(unsafe.SliceData(own)), len(own), 0)
	return stringOf(own)
}

// Forget is for when a part was changed, against L16: no object that is decoded
// from now on gets a part that is known now, nor one that has such a part in it.
// Who has them keeps them.
func (p *Pool) Forget() {
	p.small.Store(newSmallValues())
	p.turn.Add(oddSalt) // what was remembered by another hash is not found any more
}

// Len returns how many parts the pool knows now.
func (p *Pool) Len() int { return int(p.parts.len.Load()) }
