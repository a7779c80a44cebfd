package protobuf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// Magic is the prefix of every protobuf body from the API server. It is followed by a runtime.Unknown
// message:
//
//	1 typeMeta {1 APIVersion, 2 kind}   2 raw   3 contentEncoding   4 contentType
const Magic = "k8s\x00"

// Envelope is a runtime.Unknown message.
type Envelope struct {
	Media      string // the only content type allowed for the object
	APIVersion string
	Kind       string
	Raw        []byte
	HasRaw     bool
}

// Open reads a whole protobuf body that contains an object of the media type. Its raw is part
// of body.
func Open(media string, body []byte) (Envelope, error) {
	e := Envelope{Media: media}
	if len(body) < len(Magic) || string(body[:len(Magic)]) != Magic {
		return e, fmt.Errorf("%w: the protobuf prefix is missing", fault.ErrSyntax)
	}
	rest := body[len(Magic):]
	for len(rest) > 0 {
		var f field
		var err error
		if f, rest, err = NextField(rest); err != nil {
			return e, err
		}
		if f.Wire != frame.WireBytes {
			continue
		}
		if f.Number == 2 {
			e.Raw, e.HasRaw = f.Bytes, true
			continue
		}
		if err := e.Set(f.Number, f.Bytes); err != nil {
			return e, err
		}
	}
	if !e.HasRaw {
		return e, fmt.Errorf("the body ends before the object: %w", io.ErrUnexpectedEOF)
	}
	return e, nil
}

// Set stores one of the envelope's small fields.
func (e *Envelope) Set(number int, content []byte) error {
	switch number {
	case 1:
		return e.setTypeMeta(content)
	case 3:
		if len(content) > 0 {
			return fmt.Errorf("%w: content encoding %q", fault.ErrMedia, fault.Excerpt(string(content)))
		}
	case 4:
		if ct := string(content); ct != "" && ct != e.Media {
			return fmt.Errorf("%w: a protobuf envelope around %q", fault.ErrMedia, fault.Excerpt(ct))
		}
	}
	return nil
}

func (e *Envelope) setTypeMeta(msg []byte) error {
	for len(msg) > 0 {
		var f field
		var err error
		if f, msg, err = NextField(msg); err != nil {
			return err
		}
		switch {
		case f.Wire != frame.WireBytes:
		case f.Number == 1:
			e.APIVersion = string(f.Bytes)
		case f.Number == 2:
			e.Kind = string(f.Bytes)
		}
	}
	return nil
}

// SplitEvent returns the fields of a metav1.WatchEvent: 1 type, 2 RawExtension{1 raw}.
func SplitEvent(msg []byte) (typ string, obj []byte, err error) {
	for len(msg) > 0 {
		var f field
		if f, msg, err = NextField(msg); err != nil {
			return "", nil, err
		}
		switch {
		case f.Wire != frame.WireBytes:
		case f.Number == 1:
			typ = string(f.Bytes)
		case f.Number == 2:
			for ext := f.Bytes; len(ext) > 0; {
				var inner field
				if inner, ext, err = NextField(ext); err != nil {
					return "", nil, err
				}
				if inner.Number == 1 && inner.Wire == frame.WireBytes {
					obj = inner.Bytes
				}
			}
		}
	}
	if obj == nil {
		return "", nil, fmt.Errorf("%w: the frame holds no object", fault.ErrSyntax)
	}
	return typ, obj, nil
}

// field is a field of a message in memory. For frame.WireBytes, bytes is part of the message,
// not a copy.
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
