package wire

import (
	"fmt"
	"io"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/wire/internal/crew"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/json"
)

func (d *jsonDecoder[H]) Watch(body io.Reader, known Known[H]) iter.Seq2[Event[H], error] {
	return func(yield func(Event[H], error) bool) {
		s := d.scan(frame.NewSource(body))
		s.MaxBytes, s.MaxDepth = s.MaxBytes+frame.Overhead, s.MaxDepth+1 // of a frame
		newFrame := func() crew.Decode[Event[H]] { return d.newFrame(s.Source, known) }
		p := crew.New(s.Source, newFrame, func(ev Event[H]) bool { return yield(ev, nil) })
		f := &frames[H]{Crew: p, fail: d.fail, next: s.NextFrame}
		f.read(yield)
	}
}

// newFrame returns a function that decodes frames of s, for one goroutine.
func (d *jsonDecoder[H]) newFrame(s *frame.Source, known Known[H]) crew.Decode[Event[H]] {
	run, glance := d.newRun(), newGlance(d.wanted, d)
	run.Versions = true
	return func(i frame.Item, number int) (Event[H], error) {
		ev, err := d.event(run, glance, i, known)
		if err != nil {
			return Event[H]{}, inFrame(number, err)
		}
		ev.Bytes, ev.Received, ev.Decoded = len(i.Raw), s.Arrived(), time.Now()
		return ev, nil
	}
}

// event decodes a frame.
func (d *jsonDecoder[H]) event(run *json.Run, glance *glance, found frame.Item, known Known[H]) (ev Event[H], err error) {
	typ, obj, err := json.SplitEvent(found, d.opts.MaxDepth)
	if err != nil {
		return ev, d.fail("", nil, err)
	}
	if ev.Type, err = eventType(typ); err != nil {
		return ev, d.fail("", obj.Raw, err)
	}
	if err := d.opts.checkSize(obj.Raw); err != nil {
		return ev, d.fail("", obj.Raw, err)
	}
	switch ev.Type {
	case watch.Error:
		return ev, d.watchError(obj.Raw)
	case watch.Bookmark:
		if d.fields != nil || d.make.packer != nil {
			run = d.bookmarks.newRun() // what a run knows is what of an object is wanted
		}
		d = d.bookmarks
	default:
		if v, passed := glance.passes(obj); passed {
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
	ev.Object, err = d.decode(run, obj, ev.Type != watch.Bookmark)
	return ev, err
}

func (d *jsonDecoder[H]) watchError(raw []byte) error {
	if h := json.ReadClaim(raw); !isStatus(h.APIVersion, h.Kind) {
		return d.fail("", raw, fmt.Errorf("%w: an ERROR event holds %q %q, want v1 Status", ErrKind, fault.Excerpt(h.APIVersion), fault.Excerpt(h.Kind)))
	}
	return decodeStatus(raw)
}
