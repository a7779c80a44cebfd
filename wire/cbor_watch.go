package wire

import (
	"fmt"
	"io"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/cbor"
	"github.com/millrace-dev/millrace/wire/internal/crew"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

func (d *cborDecoder) Watch(body io.Reader, known Known) iter.Seq2[Event[object.Head], error] {
	return func(yield func(Event[object.Head], error) bool) {
		s := d.scan(frame.NewSource(body))
		s.MaxBytes, s.MaxDepth = s.MaxBytes+frame.Overhead, s.MaxDepth+3 // of a frame, with a tag around both maps
		newFrame := func() crew.Decode[Event[object.Head]] { return d.newFrame(s.Source, known) }
		p := crew.New(s.Source, newFrame, func(ev Event[object.Head]) bool { return yield(ev, nil) })
		f := &frames{Crew: p, fail: d.fail, next: s.NextFrame}
		f.read(yield)
	}
}

// newFrame returns a function that decodes frames of s, for one goroutine.
func (d *cborDecoder) newFrame(s *frame.Source, known Known) crew.Decode[Event[object.Head]] {
	glance := newGlance(d.wanted, d)
	return func(i frame.Item, number int) (Event[object.Head], error) {
		ev, err := d.event(glance, i.Raw, known)
		if err != nil {
			return Event[object.Head]{}, inFrame(number, err)
		}
		ev.Bytes, ev.Received, ev.Decoded = len(i.Raw), s.Arrived(), time.Now()
		return ev, nil
	}
}

// event decodes a frame.
func (d *cborDecoder) event(glance *glance, raw []byte, known Known) (ev Event[object.Head], err error) {
	typ, obj, err := cbor.SplitEvent(raw)
	if err != nil {
		return ev, d.fail("", nil, err)
	}
	if ev.Type, err = eventType(typ); err != nil {
		return ev, d.fail("", obj, err)
	}
	if err := d.opts.checkSize(obj); err != nil {
		return ev, d.fail("", obj, err)
	}
	switch ev.Type {
	case watch.Error:
		return ev, d.watchError(obj)
	case watch.Bookmark:
		d = d.bookmarks
	default:
		if v, passed := glance.passes(frame.Item{Raw: obj}); passed {
			ev.pass(v)
			return ev, nil
		}
	}
	if ev.Type == watch.Added {
		if have, ok := d.known(known, obj); ok {
			ev.Object = have
			return ev, nil
		}
	}
	ev.Object, err = d.decode(obj, ev.Type != watch.Bookmark)
	return ev, err
}

func (d *cborDecoder) watchError(raw []byte) error {
	if i := cbor.ReadIdentity(raw); !isStatus(i.APIVersion, i.Kind) {
		return d.fail("", raw, fmt.Errorf("%w: an ERROR event holds %q %q, want v1 Status", ErrKind, fault.Excerpt(i.APIVersion), fault.Excerpt(i.Kind)))
	}
	return decodeCBORStatus(raw)
}
