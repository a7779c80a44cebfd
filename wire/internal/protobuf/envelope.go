package protobuf

import (
	"fmt"
	"io"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// Magic precedes every protobuf body of the API server. What follows is a
// runtime.Unknown message:
//
//	1 typeMeta {1 APIVersion, 2 kind}   2 raw   3 contentEncoding   4 contentType
const Magic = "k8s\x00"

// Envelope is a runtime.Unknown message.
type Envelope struct {
	Media      string // the only content type that the object may have
	APIVersion string
	Kind       string
	Raw        []byte
	HasRaw     bool
}

// Open reads a whole protobuf body with an object of the media type. Its raw
// is a part of body.
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

// Set takes over one of the small fields of the envelope.
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
