package wire

import (
	"fmt"
	"io"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

func (d *jsonDecoder[T]) Watch(body io.Reader, known Known[T]) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		s := d.scan(frame.NewSource(body))
		newFrame := func() decodeFunc[Event[T]] { return d.newFrame(s.Source, known) }
		p := newParallel(s.Source, newFrame, func(ev Event[T]) bool { return yield(ev, nil) })
		f := &frames[T]{parallel: p, fail: d.fail, next: s.NextFrame}
		f.read(yield)
	}
}

// newFrame returns a function that decodes frames of s, for one goroutine.
func (d *jsonDecoder[T]) newFrame(s *frame.Source, known Known[T]) decodeFunc[Event[T]] {
	run := d.newRun()
	run.versions = true
	return func(i frame.Item, number int) (Event[T], error) {
		ev, err := d.event(run, i, known)
		if err != nil {
			return Event[T]{}, inFrame(number, err)
		}
		ev.Bytes, ev.Received, ev.Decoded = len(i.Raw), s.Arrived(), time.Now()
		return ev, nil
	}
}

// event decodes a frame.
func (d *jsonDecoder[T]) event(run *jsonRun, frame frame.Item, known Known[T]) (ev Event[T], err error) {
	typ, obj, err := d.splitFrame(frame)
	if err != nil {
		return ev, d.fail("", nil, err)
	}
	if ev.Type, err = eventType(typ); err != nil {
		return ev, d.fail("", obj.Raw, err)
	}
	switch ev.Type {
	case watch.Error:
		return ev, d.watchError(obj.Raw)
	case watch.Bookmark:
		if d.bookmarks != d {
			d, run = d.bookmarks, d.bookmarks.newRun() // what a run knows is what of an object is wanted
		}
	case watch.Added:
		if have, ok := d.known(known, obj); ok {
			ev.Object = have
			return ev, nil
		}
	}
	ev.Object, err = d.decode(run, obj, ev.Type != watch.Bookmark)
	return ev, err
}

// splitFrame finds the type and the object in a frame. It uses the tape, and
// looks again without it where the frame is out of the ordinary.
func (d *jsonDecoder[T]) splitFrame(whole frame.Item) (typ string, obj frame.Item, err error) {
	typ, start, place, err := eventFields(whole)
	if err == nil {
		return typ, whole.Within(start, place), nil
	}
	s := d.scan(frame.FromBytes(whole.Raw))
	if err := s.Expect('{'); err != nil {
		return "", frame.Item{}, err
	}
	for first := true; ; first = false {
		more, err := s.More('}', first)
		if err != nil {
			return "", frame.Item{}, err
		}
		if !more {
			break
		}
		name, err := s.Key()
		if err != nil {
			return "", frame.Item{}, err
		}
		value, err := s.Value()
		if err != nil {
			return "", frame.Item{}, err
		}
		switch name {
		case "type":
			if typ, err = frame.Unquote(value.Raw); err != nil {
				return "", frame.Item{}, fmt.Errorf("%w: the event type is not a string", ErrSyntax)
			}
		case "object":
			obj = frame.Item{Raw: value.Raw}
		}
	}
	if obj.Raw == nil {
		return "", frame.Item{}, fmt.Errorf("%w: the frame holds no object", ErrSyntax)
	}
	return typ, obj, nil
}

// eventFields reads the two fields of an event, in any order: its type, and
// where its object begins, in the bytes and on the tape. It fails where there
// is anything else.
func eventFields(frame frame.Item) (typ string, start, place int, err error) {
	w := walk{Item: frame}
	for more := w.enter('}'); more; {
		name, plain, err := w.text()
		if err != nil || !plain {
			return "", 0, 0, fault.ErrUnusual
		}
		if err := w.colon(); err != nil {
			return "", 0, 0, err
		}
		switch c := w.peek(); {
		case string(name) == "type" && typ == "" && c == '"':
			text, plain, err := w.text()
			if err != nil || !plain {
				return "", 0, 0, fault.ErrUnusual
			}
			typ = string(text)
		case string(name) == "object" && place == 0 && c == '{':
			start, place = w.at, w.next
			w.jump()
		default:
			return "", 0, 0, fault.ErrUnusual
		}
		if more, err = w.more('}'); err != nil {
			return "", 0, 0, err
		}
	}
	if typ == "" || place == 0 || w.at != len(frame.Raw) {
		return "", 0, 0, fault.ErrUnusual
	}
	return typ, start, place, nil
}

func (d *jsonDecoder[T]) watchError(raw []byte) error {
	if h := readHead(raw); !h.isStatus() {
		return d.fail("", raw, fmt.Errorf("%w: an ERROR event holds %q %q, want v1 Status", ErrKind, fault.Excerpt(h.APIVersion), fault.Excerpt(h.Kind)))
	}
	return decodeStatus(raw)
}
