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
		s, run := d.scan(newSource(body)), d.newRun()
		for n := 0; ; n++ {
			ev, err := d.frame(run, s, known, n)
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
func (d *jsonDecoder[T]) frame(run *jsonRun, s *scanner, known Known[T], n int) (Event[T], error) {
	where := "frame " + strconv.Itoa(n)
	c, err := s.space()
	if err == io.EOF {
		return Event[T]{}, io.EOF
	}
	if err == nil && c != '{' {
		return Event[T]{}, d.fail(where, nil, s.syntax("'{'"))
	}
	var whole item
	if err == nil {
		whole, err = s.value()
	}
	if err != nil {
		if isTransport(err) {
			return Event[T]{}, fmt.Errorf("read %s: %w", where, err)
		}
		return Event[T]{}, d.fail(where, nil, err)
	}
	ev := Event[T]{Bytes: len(whole.raw), Received: s.read}
	typ, obj, err := d.splitFrame(whole)
	if err != nil {
		return Event[T]{}, d.fail(where, nil, err)
	}
	ev.Type, err = eventType(typ)
	if err != nil {
		return Event[T]{}, d.fail(where, obj.raw, err)
	}
	if ev.Type == watch.Error {
		return Event[T]{}, d.watchError(obj.raw, where)
	}
	if ev.Type == watch.Bookmark {
		d = d.bookmarks
	}
	have := false
	if ev.Type == watch.Added {
		ev.Object, have = d.known(known, obj)
	}
	if !have {
		ev.Object, err = d.decode(run, obj, where, ev.Type != watch.Bookmark)
	}
	if err != nil {
		return Event[T]{}, err
	}
	ev.Decoded = time.Now()
	return ev, nil
}

// splitFrame finds the type and the object in a frame. It uses the tape, and
// looks again without it where the frame is out of the ordinary.
func (d *jsonDecoder[T]) splitFrame(whole item) (typ string, obj item, err error) {
	typ, start, place, err := eventFields(whole)
	if err == nil {
		return typ, whole.within(start, place), nil
	}
	s := d.scan(bytesSource(whole.raw))
	if err := s.expect('{'); err != nil {
		return "", item{}, err
	}
	for first := true; ; first = false {
		more, err := s.more('}', first)
		if err != nil {
			return "", item{}, err
		}
		if !more {
			break
		}
		name, err := s.key()
		if err != nil {
			return "", item{}, err
		}
		value, err := s.value()
		if err != nil {
			return "", item{}, err
		}
		switch name {
		case "type":
			if typ, err = unquote(value.raw); err != nil {
				return "", item{}, fmt.Errorf("%w: the event type is not a string", ErrSyntax)
			}
		case "object":
			obj = item{raw: value.raw}
		}
	}
	if obj.raw == nil {
		return "", item{}, fmt.Errorf("%w: the frame holds no object", ErrSyntax)
	}
	return typ, obj, nil
}

// eventFields reads the two fields of an event, in any order: its type, and
// where its object begins, in the bytes and on the tape. It fails where there
// is anything else.
func eventFields(frame item) (typ string, start, place int, err error) {
	w := walk{item: frame}
	for more := w.enter('}'); more; {
		name, plain, err := w.text()
		if err != nil || !plain {
			return "", 0, 0, errUnusual
		}
		if err := w.colon(); err != nil {
			return "", 0, 0, err
		}
		switch c := w.peek(); {
		case string(name) == "type" && typ == "" && c == '"':
			text, plain, err := w.text()
			if err != nil || !plain {
				return "", 0, 0, errUnusual
			}
			typ = string(text)
		case string(name) == "object" && place == 0 && c == '{':
			start, place = w.at, w.next
			w.jump()
		default:
			return "", 0, 0, errUnusual
		}
		if more, err = w.more('}'); err != nil {
			return "", 0, 0, err
		}
	}
	if typ == "" || place == 0 || w.at != len(frame.raw) {
		return "", 0, 0, errUnusual
	}
	return typ, start, place, nil
}

func (d *jsonDecoder[T]) watchError(raw []byte, where string) error {
	if h := readHead(raw); !h.isStatus() {
		return d.fail(where, raw, fmt.Errorf("%w: an ERROR event holds %q %q, want v1 Status", ErrKind, excerpt(h.APIVersion), excerpt(h.Kind)))
	}
	return decodeStatus(raw)
}
