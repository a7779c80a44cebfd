package share

import (
	"hash/maphash"
	"runtime"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// Pool lets objects share equal parts. It identifies a part by its encoded bytes, and refers to it
// weakly. Package wire documents the guarantees.
type Pool struct {
	seed  maphash.Seed
	parts *parts
	seen  seenHashes // hashes of parts that have been seen once
	small atomic.Pointer[smallValues]
	salt  atomic.Uint64 // mixed into every hash; changed by Forget
}

// part is a remembered part. It is immutable.
type part struct {
	kind  *partKind
	hash  uint64
	raw   []byte // its encoding, which contains its strings; nil for a string
	at    weak.Pointer[byte]
	n     uint32 // the length of a slice or string
	holds uint32 // size of raw and of the parts within it

	memory guard.Budget // the share of the object's budget that decoding it used
}

// partKind is a kind of part: a type, an encoding and a projection. Parts are shared only within a
// kind. A kind is identified by its address.
type partKind struct {
	salt uint64
}

// partKinds counts the kinds. Their salts are derived from the count.
var partKinds atomic.Uint64

func newPartKind() *partKind { return &partKind{salt: partKinds.Add(1) * oddSalt} }

// oddSalt spreads small numbers over 64 bits.
const oddSalt = 0x9e3779b97f4a7c15

// stringKind is the kind of all strings, whichever field they are in.
var stringKind = newPartKind()

// NewPool returns an empty pool.
func NewPool() *Pool {
	p := &Pool{seed: maphash.MakeSeed(), parts: newParts()}
	p.small.Store(newSmallValues())
	return p
}

// hash returns the hash that identifies a part's bytes in lookup, repeats and remember.
func (p *Pool) hash(kind *partKind, raw []byte) uint64 {
	return maphash.Bytes(p.seed, raw) ^ kind.salt ^ p.salt.Load()
}

// lookup returns the part that was decoded from raw, or zero.
func (p *Pool) lookup(kind *partKind, hash uint64, raw []byte) found {
	part := p.parts.find(hash)
	if part == nil || part.kind != kind {
		return found{}
	}
	at, known := unsafe.Pointer(part.at.Value()), part.raw
	if at == nil {
		return found{}
	}
	if known == nil {
		known = unsafe.Slice((*byte)(at), part.n)
	}
	if string(known) != string(raw) {
		return found{}
	}
	return found{at, known, int(part.n), int(part.holds), part.memory}
}

// remember makes a part available to lookup until it is collected. at points to a separate
// allocation: a struct, the elements of a slice, a map, or the bytes of a string, for which raw is
// nil. raw must not change afterwards. For holds, see Sharer.EndPart.
func (p *Pool) remember(kind *partKind, hash uint64, raw []byte, at unsafe.Pointer, n, holds int, took guard.Budget) {
	made := &part{kind: kind, hash: hash, raw: raw, at: weak.Make((*byte)(at)), n: uint32(n), holds: uint32(holds), memory: took}
	p.parts.add(made)
	runtime.AddCleanup((*byte)(at), p.parts.remove, made)
}

// RememberString returns a string equal to raw, which later lookups will find.
func (p *Pool) RememberString(hash uint64, raw []byte) string {
	own := make([]byte, len(raw), max(len(raw), OwnMemory))
	copy(own, raw)
	p.remember(stringKind, hash, nil, unsafe.Pointer(unsafe.SliceData(own)), len(own), 0, 0)
	return memory.String(own)
}

// Forget makes the pool forget all parts. Objects keep theirs.
func (p *Pool) Forget() {
	p.small.Store(newSmallValues())
	p.salt.Add(oddSalt) // parts with the old hashes are no longer found
}

// Len returns the number of parts that the pool currently remembers.
func (p *Pool) Len() int { return int(p.parts.len.Load()) }
