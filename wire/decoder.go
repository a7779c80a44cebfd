package wire

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/parallel"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// decoderConfig specifies which objects a decoder reads and which values it yields.
type decoderConfig struct {
	*objectType
	opts   Options
	output output
}

// output determines whether a decoder yields decoded or packed objects.
type output struct {
	convert         func(object.Object) (object.Head, error) // converts a decoded object
	convertBookmark func(object.Object) (object.Head, error) // converts a bookmark, which is not cached
	packer          *Packer                                  // nil if objects are not packed
}

// objectOutput is the output of a decoder that does not pack.
func objectOutput() output {
	itself := func(o object.Object) (object.Head, error) { return o, nil }
	return output{convert: itself, convertBookmark: itself}
}

// forBookmarks returns the output of the decoder for bookmarks.
func (o output) forBookmarks() output {
	return output{convert: o.convertBookmark, convertBookmark: o.convertBookmark}
}

// encoding is the encoding-specific part of a decoder.
type encoding interface {
	// fail returns an error about an object, or about bytes without an object.
	fail(where string, raw []byte, err error) *Error
	// wholeBody returns the single object in a body.
	wholeBody(body []byte) (frame.Item, error)
	// unwrap removes the envelope around an object outside a list.
	unwrap(i frame.Item) (frame.Item, error)
	// status returns an error if the server sent a Status instead of an object, and nil otherwise.
	status(i frame.Item) error
	// watchError returns the error in an ERROR event.
	watchError(i frame.Item) error

	// list returns a reader for a list. The reader passes each item that it finds to the parallel
	// decoder.
	list(*frame.Source, *parallel.Decoder[item], *metav1.ListMeta) listReader
	// frames returns a function that finds a watch's frames. It returns io.EOF if the stream ends
	// between frames.
	frames(*frame.Source) func() (frame.Item, error)
	// splitFrame returns a frame's type and object.
	splitFrame(frame.Item) (eventType string, object frame.Item, err error)
	// frameBytes returns a frame's size on the wire.
	frameBytes(frame.Item) int

	// newObjectDecoder returns a decoder for a single goroutine. pool may be nil. versions indicates
	// that the input may contain several versions of the same object.
	newObjectDecoder(pool *share.Pool, versions bool) objectDecoder
	// identify returns an item's key, UID and version. It returns false if they cannot be found without
	// decoding the item, or if the item is not of the expected kind.
	identify(frame.Item) (object.Version, bool)
	// readHead reads the rest of the head. It returns false if that is impossible without decoding
	// the object.
	readHead(*head.Head, frame.Item) bool
}

// objectDecoder decodes objects one after another. noKind indicates that an object does not fully specify
// its kind.
type objectDecoder interface {
	// object decodes an object. It fails if needName is set and the object has no name.
	object(i frame.Item, needName bool) (o object.Object, noKind bool, err error)
	// pack packs an object without decoding it. It returns false if decoding might fail.
	pack(i frame.Item, needName bool) (packed object.Head, noKind, ok bool)
}

// listReader reads one list.
type listReader interface {
	// read reads the body to its end. Its errors report where the body is malformed.
	read() error
	// check checks a complete list. itemsLackKind indicates that some items may not specify their
	// kind. It returns the selector that the server applied, or "" if there was none.
	check(itemsLackKind bool) (selector string, err error)
}

// decoder implements Decoder for any encoding.
type decoder struct {
	decoderConfig
	encoding
	bookmarks *decoder // decodes bookmarks, which are never projected

	wanted     func(object.Head) bool // nil if no object is filtered out
	onSelector func(selector string)  // may be nil
}

// newDecoderOf returns a decoder for the encoding returned by newEncoding.
func newDecoderOf(c decoderConfig, newEncoding func(decoderConfig) (encoding, error)) (*decoder, error) {
	e, err := newEncoding(c)
	if err != nil {
		return nil, err
	}
	d := &decoder{decoderConfig: c, encoding: e}
	d.bookmarks = d
	if c.fields != nil || c.output.packer != nil {
		d.bookmarks, err = newDecoderOf(decoderConfig{c.withoutSelection(), c.opts, c.output.forBookmarks()}, newEncoding)
	}
	return d, err
}

// WithFilter implements [Decoder].
func (d *decoder) WithFilter(wanted func(object.Head) bool) Decoder {
	filtering := *d
	filtering.wanted = wanted
	return &filtering
}

// OnSelector implements [Decoder].
func (d *decoder) OnSelector(told func(selector string)) Decoder {
	reporting := *d
	reporting.onSelector = told
	return &reporting
}

// Object implements [Decoder].
func (d *decoder) Object(body []byte) (object.Head, error) {
	i, err := d.wholeBody(body)
	if err != nil {
		return nil, d.fail("object", nil, err)
	}
	if i, err = d.unwrap(i); err != nil {
		return nil, err
	}
	return d.decodeWithKind(d.newObjectDecoder(nil, false), i, false)
}

// decodeWithKind decodes an object that must specify its own kind. If the body is a Status instead,
// decodeWithKind returns it as an *errors.StatusError.
func (d *decoder) decodeWithKind(od objectDecoder, i frame.Item, needName bool) (object.Head, error) {
	made, noKind, err := d.decode(od, i, needName)
	switch {
	case err == nil && !noKind:
		return made, nil
	case err == nil:
		return nil, d.fail("object", i.Raw, d.wrongKind("", "", ""))
	}
	return nil, d.undecodable(i, err)
}

// undecodable returns the error for an object that cannot be decoded: if it is a Status, that.
func (d *decoder) undecodable(i frame.Item, err error) error {
	if !d.isStatus() {
		if status := d.status(i); status != nil {
			return status
		}
	}
	return d.fail("object", i.Raw, err)
}

// decode returns the value to yield for an object. If possible, it packs the bytes as is; otherwise, it
// decodes them.
func (d *decoder) decode(od objectDecoder, i frame.Item, needName bool) (made object.Head, noKind bool, err error) {
	if made, noKind, ok := od.pack(i, needName); ok {
		return made, noKind, nil
	}
	o, noKind, err := od.object(i, needName)
	if err == nil {
		made, err = d.output.convert(o)
	}
	return made, noKind, err
}

// decodeWhole decodes all of an object's fields.
func (d *decoder) decodeWhole(i frame.Item) (object.Object, error) {
	o, _, err := d.bookmarks.newObjectDecoder(nil, false).object(i, false)
	return o, err
}

// cached returns the caller's object if i is the same version of the same object, as opposed to an object
// with the same name but a different UID (L04).
func (d *decoder) cached(cached Cached, i frame.Item) (have object.Head, ok bool) {
	if cached == nil {
		return nil, false
	}
	v, ok := d.identify(i)
	if !ok || v.Key.Name == "" || v.RV == "" {
		return nil, false
	}
	have, ok = cached(v.Key)
	return have, ok && have.GetResourceVersion() == v.RV && have.GetUID() == v.UID
}

// List implements [Decoder].
func (d *decoder) List(body io.Reader, meta *metav1.ListMeta, cached Cached) iter.Seq2[object.Head, error] {
	return func(yield func(object.Head, error) bool) {
		s, noKind := frame.NewSource(body), false
		workers := parallel.New(s, func() parallel.Decode[item] { return d.items(cached) }, func(i item) bool {
			noKind = noKind || i.noKind
			return i.excluded || yield(i.object, nil)
		})
		defer workers.Close()
		*meta = metav1.ListMeta{}
		l := d.list(s, workers, meta)
		err := l.read()
		if earlier := workers.Flush(); earlier != nil {
			err = earlier
		}
		selector := ""
		if err == nil {
			selector, err = l.check(noKind)
		}
		switch {
		case err == parallel.ErrStopped:
		case err != nil:
			yield(nil, listError(d.fail, workers.Count(), err))
		case d.onSelector != nil && selector != "":
			d.onSelector(selector)
		}
	}
}

// items returns a function that decodes items. Each goroutine needs its own.
func (d *decoder) items(cached Cached) parallel.Decode[item] {
	od, lazy := d.newObjectDecoder(d.opts.Pool.sharePool(), false), newLazyHead(d)
	return func(i frame.Item, number int) (item, error) {
		if _, excluded, err := lazy.excludes(i); err != nil {
			return item{}, d.fail(whereItem(number), i.Raw, err)
		} else if excluded {
			return item{excluded: true}, nil
		}
		if have, ok := d.cached(cached, i); ok {
			return item{object: have}, nil
		}
		made, noKind, err := d.decode(od, i, true)
		if err != nil {
			return item{}, d.fail(whereItem(number), i.Raw, err)
		}
		return item{object: made, noKind: noKind}, nil
	}
}

// Watch implements [Decoder].
func (d *decoder) Watch(body io.Reader, cached Cached) iter.Seq2[Event[object.Head], error] {
	return func(yield func(Event[object.Head], error) bool) {
		s := frame.NewSource(body)
		workers := parallel.New(s, func() parallel.Decode[Event[object.Head]] { return d.events(s, cached) }, func(e Event[object.Head]) bool { return yield(e, nil) })
		defer workers.Close()
		err := d.findFrames(workers, d.frames(s))
		if earlier := workers.Flush(); earlier != nil {
			err = earlier
		}
		if err != io.EOF && err != parallel.ErrStopped {
			yield(Event[object.Head]{}, err)
		}
	}
}

// findFrames finds all frames up to the end of the stream.
func (d *decoder) findFrames(workers *parallel.Decoder[Event[object.Head]], next func() (frame.Item, error)) error {
	for {
		found, err := next()
		switch {
		case err == nil:
			workers.Add(found)
		case err == io.EOF || err == workers.Err():
			return err
		case frame.IsTransport(err):
			return fmt.Errorf("read %s: %w", whereFrame(workers.Count()), err)
		default:
			return d.fail(whereFrame(workers.Count()), nil, err)
		}
	}
}

// events returns a function that decodes the frames of s. Each goroutine needs its own.
func (d *decoder) events(s *frame.Source, cached Cached) parallel.Decode[Event[object.Head]] {
	od, lazy := d.newObjectDecoder(d.opts.Pool.sharePool(), true), newLazyHead(d)
	return func(i frame.Item, number int) (Event[object.Head], error) {
		e, err := d.event(od, lazy, i, cached)
		if err != nil {
			if of, ok := errors.AsType[*Error](err); ok {
				of.Where = whereFrame(number)
			}
			return Event[object.Head]{}, err
		}
		e.Bytes, e.Received, e.Decoded = d.frameBytes(i), s.ReadTime(), time.Now()
		return e, nil
	}
}

// event decodes a frame.
func (d *decoder) event(od objectDecoder, lazy *lazyHead, found frame.Item, cached Cached) (e Event[object.Head], err error) {
	typ, i, err := d.splitFrame(found)
	if err != nil {
		return e, d.fail("", nil, err)
	}
	if e.Type, err = eventType(typ); err != nil {
		return e, d.fail("", i.Raw, err)
	}
	if e.Type == watch.Error {
		return e, d.watchError(i)
	}
	if i, err = d.unwrap(i); err != nil {
		return e, err
	}
	if e.Type == watch.Bookmark {
		if d.encoding != d.bookmarks.encoding {
			d = d.bookmarks
			od = d.newObjectDecoder(d.opts.Pool.sharePool(), false)
		}
	} else {
		if v, excluded, err := lazy.excludes(i); err != nil {
			return e, d.undecodable(i, err)
		} else if excluded {
			e.setPassed(v)
			return e, nil
		}
	}
	if e.Type == watch.Added {
		if have, ok := d.cached(cached, i); ok {
			e.Object = have
			return e, nil
		}
	}
	e.Object, err = d.decodeWithKind(od, i, e.Type != watch.Bookmark)
	return e, err
}

// setPassed turns e into an event for an object that the filter rejected.
func (e *Event[T]) setPassed(v object.Version) {
	v = v.Clone()
	e.Passed = &v
}

// errNotStatus returns the error for an ERROR event whose object is not a Status.
func errNotStatus(apiVersion, kind string) error {
	return fmt.Errorf("%w: an ERROR event contains %q %q, want v1 Status", ErrKind, fault.Excerpt(apiVersion), fault.Excerpt(kind))
}
