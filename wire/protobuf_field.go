package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// The wire types of protobuf (https://protobuf.dev/programming-guides/encoding).
const (
	wireVarint     = 0
	wireFixed64    = 1
	wireBytes      = 2
	wireStartGroup = 3
	wireEndGroup   = 4
	wireFixed32    = 5
)

var errProto = fmt.Errorf("%w: invalid protobuf", fault.ErrSyntax)

// field is one field of a message in memory. For wireBytes, bytes is a part of
// the message, not a copy.
type field struct {
	number int
	wire   int
	bytes  []byte
}

// nextField splits the first field off a message.
func nextField(msg []byte) (f field, rest []byte, err error) {
	tag, n := binary.Uvarint(msg)
	if n <= 0 || tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return f, nil, errProto
	}
	f.number, f.wire = int(tag>>3), int(tag&7)
	msg = msg[n:]
	var size uint64
	switch f.wire {
	case wireVarint:
		_, n := binary.Uvarint(msg)
		if n <= 0 {
			return f, nil, errProto
		}
		return f, msg[n:], nil
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	case wireBytes:
		length, n := binary.Uvarint(msg)
		if n <= 0 {
			return f, nil, errProto
		}
		size, msg = length, msg[n:]
	default:
		return f, nil, errProto
	}
	if size > uint64(len(msg)) {
		return f, nil, fmt.Errorf("%w: a field runs past the end of its message", fault.ErrSyntax)
	}
	f.bytes = msg[:size:size]
	return f, msg[size:], nil
}

// fieldHeader reads the number, the wire type and the size of the next field.
// A varint is consumed with its header, so that its size is 0.
func (s *source) fieldHeader() (number, wire int, size uint64, err error) {
	tag, err := s.uvarint()
	if err != nil {
		return 0, 0, 0, err
	}
	if tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return 0, 0, 0, errProto
	}
	number, wire = int(tag>>3), int(tag&7)
	switch wire {
	case wireVarint:
		_, err = s.uvarint()
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	case wireBytes:
		size, err = s.uvarint()
	default:
		err = errProto
	}
	return number, wire, size, err
}

func (s *source) uvarint() (uint64, error) {
	var v uint64
	for i := range binary.MaxVarintLen64 {
		c, err := s.peek()
		if err != nil {
			return 0, fault.Truncated(err)
		}
		s.pos++
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i == binary.MaxVarintLen64-1 && c > 1 {
				return 0, errProto
			}
			return v, nil
		}
	}
	return 0, errProto
}
