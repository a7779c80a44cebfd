package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

func (d *protobufDecoder[T]) Watch(body io.Reader, known Known[T]) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		s, run := newSource(body), d.newRun()
		run.versions = true
		for n := 0; ; n++ {
			ev, err := d.frame(run, s, known, "frame "+strconv.Itoa(n))
			if err == io.EOF {
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// frame reads one event: four bytes of length, big endian, then a
// metav1.WatchEvent. It returns io.EOF where the stream ends before it.
func (d *protobufDecoder[T]) frame(run *protoRun, s *source, known Known[T], where string) (Event[T], error) {
	var none Event[T]
	prefix, err := s.next(4)
	if err == io.EOF {
		return none, io.EOF
	}
	if err != nil {
		return none, d.readFailed(where, err)
	}
	size := binary.BigEndian.Uint32(prefix)
	if uint64(size) > uint64(d.opts.MaxObjectBytes)+2*frameOverhead {
		return none, d.fail(where, nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, d.opts.MaxObjectBytes))
	}
	raw, err := s.next(int(size))
	if err != nil {
		return none, d.readFailed(where, err)
	}
	ev := Event[T]{Bytes: 4 + int(size), Received: s.read}
	typ, obj, err := splitWatchEvent(raw)
	if err != nil {
		return none, d.fail(where, nil, err)
	}
	if ev.Type, err = eventType(typ); err != nil {
		return none, d.fail(where, nil, err)
	}
	if ev.Type == watch.Error {
		return none, d.watchError(obj, where)
	}
	switch ev.Type {
	case watch.Added:
	case watch.Bookmark:
		d, known = d.bookmarks, nil
	default:
		known = nil
	}
	if ev.Object, err = d.open(run, obj, known, where, ev.Type != watch.Bookmark); err != nil {
		return none, err
	}
	ev.Decoded = time.Now()
	return ev, nil
}

func (d *protobufDecoder[T]) readFailed(where string, err error) error {
	if isTransport(err) {
		return fmt.Errorf("read %s: %w", where, err)
	}
	return d.fail(where, nil, truncated(err))
}

func (d *protobufDecoder[T]) watchError(obj []byte, where string) error {
	e, err := openEnvelope(obj)
	if err == nil && !e.isStatus() {
		err = fmt.Errorf("%w: an ERROR event holds %q %q, want v1 Status", ErrKind, excerpt(e.apiVersion), excerpt(e.kind))
	}
	if err != nil {
		return d.fail(where, nil, err)
	}
	return unmarshalStatus(e.raw)
}

// splitWatchEvent takes a metav1.WatchEvent apart: 1 type, 2 RawExtension{1 raw}.
func splitWatchEvent(msg []byte) (typ string, obj []byte, err error) {
	for len(msg) > 0 {
		var f field
		if f, msg, err = nextField(msg); err != nil {
			return "", nil, err
		}
		switch {
		case f.wire != wireBytes:
		case f.number == 1:
			typ = string(f.bytes)
		case f.number == 2:
			for ext := f.bytes; len(ext) > 0; {
				var inner field
				if inner, ext, err = nextField(ext); err != nil {
					return "", nil, err
				}
				if inner.number == 1 && inner.wire == wireBytes {
					obj = inner.bytes
				}
			}
		}
	}
	if obj == nil {
		return "", nil, fmt.Errorf("%w: the frame holds no object", ErrSyntax)
	}
	return typ, obj, nil
}
