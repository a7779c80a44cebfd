package wire

import (
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

func (d *jsonDecoder[T]) Watch(body io.Reader, known Known[T]) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		s := d.scan(newSource(body))
		for n := 0; ; n++ {
			ev, err := d.frame(s, known, n)
			if err == io.EOF {
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// frame reads one event. It returns io.EOF where the stream ends before it.
func (d *jsonDecoder[T]) frame(s *scanner, known Known[T], n int) (Event[T], error) {
	where := "frame " + strconv.Itoa(n)
	c, err := s.space()
	if err == io.EOF {
		return Event[T]{}, io.EOF
	}
	if err == nil && c != '{' {
		return Event[T]{}, d.fail(where, nil, s.syntax("'{'"))
	}
	var raw []byte
	if err == nil {
		raw, err = s.value()
	}
	if err != nil {
		if isTransport(err) {
			return Event[T]{}, fmt.Errorf("read %s: %w", where, err)
		}
		return Event[T]{}, d.fail(where, nil, err)
	}
	ev := Event[T]{Bytes: len(raw), Received: s.read}
	typ, obj, err := d.splitFrame(raw)
	if err != nil {
		return Event[T]{}, d.fail(where, nil, err)
	}
	ev.Type, err = eventType(typ)
	if err != nil {
		return Event[T]{}, d.fail(where, obj, err)
	}
	if ev.Type == watch.Error {
		return Event[T]{}, d.watchError(obj, where)
	}
	if ev.Type == watch.Bookmark {
		d = d.bookmarks
	}
	ev.Object, err = d.decode(obj, where, ev.Type != watch.Bookmark)
	if err != nil {
		return Event[T]{}, err
	}
	if ev.Type == watch.Added {
		ev.Object = known.instead(ev.Object)
	}
	ev.Decoded = time.Now()
	return ev, nil
}

// splitFrame finds the type and the object in a frame.
func (d *jsonDecoder[T]) splitFrame(raw []byte) (typ string, obj []byte, err error) {
	s := d.scan(bytesSource(raw))
	if err := s.expect('{'); err != nil {
		return "", nil, err
	}
	for first := true; ; first = false {
		more, err := s.more('}', first)
		if err != nil {
			return "", nil, err
		}
		if !more {
			break
		}
		name, err := s.key()
		if err != nil {
			return "", nil, err
		}
		value, err := s.value()
		if err != nil {
			return "", nil, err
		}
		switch name {
		case "type":
			if typ, err = unquote(value); err != nil {
				return "", nil, fmt.Errorf("%w: the event type is not a string", ErrSyntax)
			}
		case "object":
			obj = value
		}
	}
	if obj == nil {
		return "", nil, fmt.Errorf("%w: the frame holds no object", ErrSyntax)
	}
	return typ, obj, nil
}

func (d *jsonDecoder[T]) watchError(raw []byte, where string) error {
	if h := readHead(raw); !h.isStatus() {
		return d.fail(where, raw, fmt.Errorf("%w: an ERROR event holds %q %q, want v1 Status", ErrKind, excerpt(h.APIVersion), excerpt(h.Kind)))
	}
	return decodeStatus(raw)
}
