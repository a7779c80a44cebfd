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
	"github.com/millrace-dev/millrace/wire/internal/json"
)

func (d *jsonDecoder) Watch(body io.Reader, known Known) iter.Seq2[Event[object.Head], error] {
	return func(yield func(Event[object.Head], error) bool) {
		s := d.scan(frame.NewSource(body))
		s.MaxBytes, s.MaxDepth = s.MaxBytes+frame.Overhead, s.MaxDepth+1 // of a frame
		newFrame := func() crew.Decode[Event[object.Head]] { return d.newFrame(s.Source, known) }
		p := crew.New(s.Source, newFrame, func(ev Event[object.Head]) bool { return yield(ev, nil) })
		f := &frames{Crew: p, fail: d.fail, next: s.NextFrame}
		f.read(yield)
	}
}

// newFrame returns a function that decodes frames of s, for one goroutine.
func (d *jsonDecoder) newFrame(s *frame.Source, known Known) crew.Decode[Event[object.Head]] {
	run, glance := d.newRun(), newGlance(d.wanted, d)
	run.Versions = true
	return func(i frame.Item, number int) (Event[object.Head], error) {
		ev, err := d.event(run, glance, i, known)
		if err != nil {
			return Event[object.Head]{}, inFrame(number, err)
		}
		ev.Bytes, ev.Received, ev.Decoded = len(i.Raw), s.Arrived(), time.Now()
		return ev, nil
	}
}

// event decodes a frame.
func (d *jsonDecoder) event(run *json.Run, glance *glance, found frame.Item, known Known) (ev Event[object.Head], err error) {
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

func (d *jsonDecoder) watchError(raw []byte) error {
	if h := json.ReadClaim(raw); !isStatus(h.APIVersion, h.Kind) {
		return d.fail("", raw, fmt.Errorf("%w: an ERROR event holds %q %q, want v1 Status", ErrKind, fault.Excerpt(h.APIVersion), fault.Excerpt(h.Kind)))
	}
	return decodeStatus(raw)
}
