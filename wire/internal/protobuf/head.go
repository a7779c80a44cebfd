package protobuf

import (
	"math"

	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// Head is what an object says of itself: which one it is, and in which
// version. It points into the bytes that it was read from.
type Head struct{ Name, Namespace, UID, RV []byte }

// HeadOf reads the head of an object without decoding the rest. Every API
// type has its ObjectMeta as field 1. ok is false where one of these fields is
// there twice or the bytes are not what an API server writes: what they mean, a
// decoder knows.
func HeadOf(raw []byte) (h Head, ok bool) {
	var meta []byte
	for len(raw) > 0 {
		var tag uint64
		var value []byte
		if tag, value, raw = plainField(raw); tag == 0 || tag>>3 == 1 && !once(&meta, tag, value) {
			return h, false
		}
	}
	for len(meta) > 0 {
		var tag uint64
		var value []byte
		tag, value, meta = plainField(meta)
		first := tag != 0
		switch tag >> 3 {
		case 1:
			first = once(&h.Name, tag, value)
		case 3:
			first = once(&h.Namespace, tag, value)
		case 5:
			first = once(&h.UID, tag, value)
		case 6:
			first = once(&h.RV, tag, value)
		}
		if !first {
			return h, false
		}
	}
	return h, true
}

// plainField splits off a field that is a number or bytes. tag is 0 where there
// is none.
func plainField(msg []byte) (tag uint64, value, rest []byte) {
	tag, n := varint(msg)
	size, m := varint(msg[n:])
	start := n + m
	switch {
	case n == 0 || m == 0 || tag>>3 == 0 || tag > math.MaxUint32:
	case tag&7 == frame.WireVarint:
		return tag, nil, msg[start:]
	case tag&7 == frame.WireBytes && size <= uint64(len(msg)-start):
		end := start + int(size)
		return tag, msg[start:end:end], msg[end:]
	}
	return 0, nil, nil
}

// once stores the bytes of a field that was not met before. It returns false
// for any other.
func once(at *[]byte, tag uint64, value []byte) bool {
	if tag&7 != frame.WireBytes || *at != nil {
		return false
	}
	*at = value
	return true
}
