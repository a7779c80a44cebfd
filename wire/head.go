package wire

import (
	"encoding/binary"

	"github.com/millrace-dev/millrace/object"
)

// headEnds are where the parts of the prefix of a packed object end, each behind the one before.
// What follows the last of them is its rest.
type headEnds struct{ name, uid, rv uint32 }

// appendHead appends the head of o, without its sharedMeta.
func appendHead(dst []byte, o object.Head, annotations []string) ([]byte, headEnds) {
	dst, at := appendNames(dst, o.GetName(), string(o.GetUID()), o.GetResourceVersion())
	have := o.GetAnnotations()
	return appendRest(dst, o.GetGeneration(), annotations, func(key string) (string, bool) {
		value, ok := have[key]
		return value, ok
	}), at
}

// appendNames appends the parts of a head that have ends.
func appendNames(dst []byte, name, uid, rv string) ([]byte, headEnds) {
	start := len(dst)
	var at headEnds
	dst = append(dst, name...)
	at.name = uint32(len(dst) - start)
	dst = append(dst, uid...)
	at.uid = uint32(len(dst) - start)
	dst = append(dst, rv...)
	at.rv = uint32(len(dst) - start)
	return dst, at
}

// packedRest is what a packed object has of its head beside the names and versions, and not in
// common with others: the generation, and then the annotations that can be read without decoding, each
// with its number among those of the packer. It is empty where there is none of that.
type packedRest string

// appendRest appends the rest of a head, with those of the annotations that it has.
func appendRest(dst []byte, generation int64, annotations []string, annotation func(key string) (value string, ok bool)) []byte {
	start := len(dst)
	dst = binary.AppendVarint(dst, generation)
	for n, key := range annotations {
		if value, ok := annotation(key); ok {
			dst = binary.AppendUvarint(dst, uint64(n))
			dst = binary.AppendUvarint(dst, uint64(len(value)))
			dst = append(dst, value...)
		}
	}
	if len(dst) == start+1 && dst[start] == 0 {
		return dst[:start]
	}
	return dst
}

func (r packedRest) generation() int64 {
	folded, _ := r.number()
	return int64(folded>>1) ^ -int64(folded&1) // as Varint has it
}

// annotation returns the n-th of the annotations that are kept.
func (r packedRest) annotation(n int) (value string, ok bool) {
	_, r = r.number()
	for len(r) > 0 {
		var at, size uint64
		at, r = r.number()
		size, r = r.number()
		size = min(size, uint64(len(r))) // more would be damage
		if at == uint64(n) {
			return string(r[:size]), true
		}
		r = r[size:]
	}
	return "", false
}

// number reads an unsigned number, and returns what follows it.
func (r packedRest) number() (uint64, packedRest) {
	var n uint64
	for i := range min(len(r), binary.MaxVarintLen64) {
		n |= uint64(r[i]&0x7f) << (7 * i)
		if r[i] < 0x80 {
			return n, r[i+1:]
		}
	}
	return n, ""
}
