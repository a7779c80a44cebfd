package wire

import (
	"fmt"
	"io"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/crew"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

func (d *protobufDecoder) Watch(body io.Reader, known Known) iter.Seq2[Event[object.Head], error] {
	return func(yield func(Event[object.Head], error) bool) {
		s := &frame.Protobuf{Source: frame.NewSource(body), MaxBytes: d.opts.MaxObjectBytes}
		newFrame := func() crew.Decode[Event[object.Head]] { return d.newFrame(s.Source, known) }
		p := crew.New(s.Source, newFrame, func(ev Event[object.Head]) bool { return yield(ev, nil) })
		f := &frames{Crew: p, fail: d.fail, next: s.NextFrame}
		f.read(yield)
	}
}

// newFrame returns a function that decodes frames of s, for one goroutine.
func (d *protobufDecoder) newFrame(s *frame.Source, known Known) crew.Decode[Event[object.Head]] {
	run, glance := d.newRun(), newGlance(d.wanted, d)
	run.Versions = true
	return func(i frame.Item, number int) (Event[object.Head], error) {
		ev, err := d.event(run, glance, i.Raw, known)
		if err != nil {
			return Event[object.Head]{}, inFrame(number, err)
		}
		ev.Bytes, ev.Received, ev.Decoded = frame.FramePrefix+len(i.Raw), s.Arrived(), time.Now()
		return ev, nil
	}
}

// event decodes a frame.
func (d *protobufDecoder) event(run *protobuf.Run, glance *glance, raw []byte, known Known) (ev Event[object.Head], err error) {
	typ, obj, err := protobuf.SplitEvent(raw)
	if err == nil {
		ev.Type, err = eventType(typ)
	}
	if err != nil {
		return ev, d.fail("", nil, err)
	}
	switch ev.Type {
	case watch.Error:
		return ev, d.watchError(obj)
	case watch.Added:
	case watch.Bookmark:
		d, known, glance = d.bookmarks, nil, nil
	default:
		known = nil
	}
	raw, err = d.open(obj)
	if err != nil {
		return ev, err
	}
	if v, passed := glance.passes(frame.Item{Raw: raw}); passed {
		ev.pass(v)
		return ev, nil
	}
	ev.Object, err = d.opened(run, raw, known, ev.Type != watch.Bookmark)
	return ev, err
}

func (d *protobufDecoder) watchError(obj []byte) error {
	e, err := protobuf.Open(MediaProtobuf, obj)
	if err == nil && !isStatus(e.APIVersion, e.Kind) {
		err = fmt.Errorf("%w: an ERROR event holds %q %q, want v1 Status", ErrKind, fault.Excerpt(e.APIVersion), fault.Excerpt(e.Kind))
	}
	if err != nil {
		return d.fail("", nil, err)
	}
	return unmarshalStatus(e.Raw)
}
