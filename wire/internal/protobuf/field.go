package protobuf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// field is one field of a message in memory. For frame.WireBytes, bytes is a part of
// the message, not a copy.
type field struct {
	Number int
	Wire   int
	Bytes  []byte
}

// NextField splits the first field off a message.
func NextField(msg []byte) (f field, rest []byte, err error) {
	tag, n := binary.Uvarint(msg)
	if n <= 0 || tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return f, nil, frame.ErrProtobuf
	}
	f.Number, f.Wire = int(tag>>3), int(tag&7)
	msg = msg[n:]
	var size uint64
	switch f.Wire {
	case frame.WireVarint:
		_, n := binary.Uvarint(msg)
		if n <= 0 {
			return f, nil, frame.ErrProtobuf
		}
		return f, msg[n:], nil
	case frame.WireFixed64:
		size = 8
	case frame.WireFixed32:
		size = 4
	case frame.WireBytes:
		length, n := binary.Uvarint(msg)
		if n <= 0 {
			return f, nil, frame.ErrProtobuf
		}
		size, msg = length, msg[n:]
	default:
		return f, nil, frame.ErrProtobuf
	}
	if size > uint64(len(msg)) {
		return f, nil, fmt.Errorf("%w: a field runs past the end of its message", fault.ErrSyntax)
	}
	f.Bytes = msg[:size:size]
	return f, msg[size:], nil
}
