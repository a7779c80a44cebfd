package wire

import (
	"fmt"
	"io"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// magic precedes every protobuf body of the API server. What follows is a
// runtime.Unknown message:
//
//	1 typeMeta {1 apiVersion, 2 kind}   2 raw   3 contentEncoding   4 contentType
const magic = "k8s\x00"

// envelope is a runtime.Unknown message.
type envelope struct {
	apiVersion string
	kind       string
	raw        []byte
	hasRaw     bool
}

// openEnvelope reads a whole protobuf body. Its raw is a part of body.
func openEnvelope(body []byte) (envelope, error) {
	var e envelope
	if len(body) < len(magic) || string(body[:len(magic)]) != magic {
		return e, fmt.Errorf("%w: the protobuf prefix is missing", fault.ErrSyntax)
	}
	rest := body[len(magic):]
	for len(rest) > 0 {
		var f field
		var err error
		if f, rest, err = nextField(rest); err != nil {
			return e, err
		}
		if f.wire != frame.WireBytes {
			continue
		}
		if f.number == 2 {
			e.raw, e.hasRaw = f.bytes, true
			continue
		}
		if err := e.set(f); err != nil {
			return e, err
		}
	}
	if !e.hasRaw {
		return e, fmt.Errorf("the body ends before the object: %w", io.ErrUnexpectedEOF)
	}
	return e, nil
}

// set takes over one of the small fields of the envelope.
func (e *envelope) set(f field) error {
	switch f.number {
	case 1:
		return e.setTypeMeta(f.bytes)
	case 3:
		if len(f.bytes) > 0 {
			return fmt.Errorf("%w: content encoding %q", fault.ErrMedia, fault.Excerpt(string(f.bytes)))
		}
	case 4:
		if ct := string(f.bytes); ct != "" && ct != MediaProtobuf {
			return fmt.Errorf("%w: a protobuf envelope around %q", fault.ErrMedia, fault.Excerpt(ct))
		}
	}
	return nil
}

func (e *envelope) setTypeMeta(msg []byte) error {
	for len(msg) > 0 {
		var f field
		var err error
		if f, msg, err = nextField(msg); err != nil {
			return err
		}
		switch {
		case f.wire != frame.WireBytes:
		case f.number == 1:
			e.apiVersion = string(f.bytes)
		case f.number == 2:
			e.kind = string(f.bytes)
		}
	}
	return nil
}

func (e *envelope) isStatus() bool { return e.kind == "Status" && e.apiVersion == "v1" }
