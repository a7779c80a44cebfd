package frame

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// Protobuf's wire types (https://protobuf.dev/programming-guides/encoding).
const (
	WireVarint     = 0
	WireFixed64    = 1
	WireBytes      = 2
	WireStartGroup = 3
	WireEndGroup   = 4
	WireFixed32    = 5
)

// ErrProtobuf means that bytes are not protobuf.
var ErrProtobuf = fmt.Errorf("%w: invalid protobuf", fault.ErrSyntax)

// Overhead is the maximum number of bytes in a watch frame besides its object, which are the event's type
// and the envelope.
const Overhead = 1 << 10

// Protobuf finds a message's fields and a watch's frames in a protobuf body without decoding them.
type Protobuf struct {
	*Source
	MaxBytes int // limit for the object in a frame
}

// FieldHeader reads the next field's number, wire type and size. It consumes a varint together with
// its header, and returns size 0 for it.
func (s *Protobuf) FieldHeader() (number, wire int, size uint64, err error) {
	tag, err := s.uvarint()
	if err != nil {
		return 0, 0, 0, err
	}
	if tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return 0, 0, 0, ErrProtobuf
	}
	number, wire = int(tag>>3), int(tag&7)
	switch wire {
	case WireVarint:
		_, err = s.uvarint()
	case WireFixed64:
		size = 8
	case WireFixed32:
		size = 4
	case WireBytes:
		size, err = s.uvarint()
	default:
		err = ErrProtobuf
	}
	return number, wire, size, err
}

func (s *Protobuf) uvarint() (uint64, error) {
	var v uint64
	for i := range binary.MaxVarintLen64 {
		c, err := s.Peek()
		if err != nil {
			return 0, fault.Truncated(err)
		}
		s.pos++
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i == binary.MaxVarintLen64-1 && c > 1 {
				return 0, ErrProtobuf
			}
			return v, nil
		}
	}
	return 0, ErrProtobuf
}

// NextFrame finds one frame: a four-byte big-endian length, followed by a metav1.WatchEvent.
func (s *Protobuf) NextFrame() (Item, error) {
	prefix, err := s.Next(FramePrefix)
	if err == io.EOF {
		return Item{}, io.EOF
	}
	if err != nil {
		return Item{}, fault.Truncated(err)
	}
	size := binary.BigEndian.Uint32(prefix)
	if uint64(size) > uint64(s.MaxBytes)+2*Overhead {
		return Item{}, fmt.Errorf("%w: %d bytes, more than %d", fault.ErrTooLarge, size, s.MaxBytes)
	}
	raw, err := s.Next(int(size))
	if err != nil {
		return Item{}, fault.Truncated(err)
	}
	return Item{Raw: raw}, nil
}

// FramePrefix is the size of a frame's length prefix.
const FramePrefix = 4
