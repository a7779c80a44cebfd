package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
)

// jsonDecoder reads JSON with the semantics of Kubernetes: field names match
// with their case, integers stay integers, unknown fields are ignored.
type jsonDecoder[T object.Object] struct {
	*target[T]
	opts Options
}

func (d *jsonDecoder[T]) scan(s *source) *scanner {
	return &scanner{source: s, maxBytes: d.opts.MaxObjectBytes, maxDepth: d.opts.MaxDepth}
}

func (d *jsonDecoder[T]) fail(where string, raw []byte, err error) *Error {
	e := &Error{Media: MediaJSON, Where: where, Bytes: len(raw), Err: err}
	if len(raw) > 0 {
		e.Key = readHead(raw).key()
	}
	return e
}

// head is what an object says about itself. It is read for the sake of error
// messages, and of bodies whose kind decides what they are.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

func (h head) isStatus() bool { return h.Kind == "Status" && h.APIVersion == "v1" }

func (h head) key() object.Key {
	return object.Key{Namespace: excerpt(h.Metadata.Namespace), Name: excerpt(h.Metadata.Name)}
}

// readHead reads as much of the head as can be read: it is for objects that
// were refused already, so that a second failure says nothing new.
func readHead(raw []byte) (h head) {
	_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &h)
	return h
}

func (d *jsonDecoder[T]) Object(body []byte) (T, error) {
	var none T
	s := d.scan(bytesSource(body))
	raw, err := s.value()
	if err == nil {
		err = s.atEnd()
	}
	if err != nil {
		return none, d.fail("object", nil, err)
	}
	return d.decode(raw, "object", false)
}

// atEnd fails where anything but white space follows.
func (s *scanner) atEnd() error {
	switch _, err := s.space(); err {
	case io.EOF:
		return nil
	case nil:
		return s.syntax("nothing more")
	default:
		return err
	}
}

// decode makes an object of raw, which must name its kind itself. A Status
// instead of an object is returned as an *errors.StatusError.
func (d *jsonDecoder[T]) decode(raw []byte, where string, named bool) (T, error) {
	var none T
	obj, bare, err := d.decodeItem(raw, named)
	switch {
	case err == nil && !bare:
		return obj, nil
	case err == nil:
		err = d.wrongKind("", "")
	case !d.isStatus() && readHead(raw).isStatus():
		return none, decodeStatus(raw)
	}
	return none, d.fail(where, raw, err)
}

// decodeItem makes an object of raw. bare says that it does not name its kind.
func (d *jsonDecoder[T]) decodeItem(raw []byte, named bool) (obj T, bare bool, err error) {
	obj, err = d.unmarshal(raw)
	if err != nil {
		h := readHead(raw)
		if wrong := d.checkKind(h.APIVersion, h.Kind); wrong != nil {
			err = wrong
		}
		return obj, false, err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if err := d.checkKind(gvk.GroupVersion().String(), gvk.Kind); err != nil {
		return obj, false, err
	}
	return obj, gvk.Kind == "", d.finish(obj, named)
}

func (t *target[T]) isStatus() bool { return t.kind.Kind == "Status" && t.apiVersion == "v1" }

func (d *jsonDecoder[T]) unmarshal(raw []byte) (T, error) {
	obj := d.new()
	if raw[0] != '{' {
		return obj, fmt.Errorf("%w: want a JSON object", ErrSyntax)
	}
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &u.Object); err != nil {
			return obj, withoutContent(err)
		}
		return obj, nil
	}
	if d.quantities {
		if err := checkQuantities(raw, d.goType); err != nil {
			return obj, err
		}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, obj); err != nil {
		return obj, withoutContent(err)
	}
	return obj, nil
}

func decodeStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, status); err != nil {
		return &Error{Media: MediaJSON, Where: "status", Bytes: len(raw), Err: withoutContent(err)}
	}
	return apierrors.FromObject(status)
}

// jsonList is the state of reading one list body. The fields of a list may
// come in any order, so that items may be read before the list says what it is.
type jsonList[T object.Object] struct {
	*jsonDecoder[T]
	*scanner
	meta       *metav1.ListMeta
	apiVersion string
	kind       string
	status     metav1.Status // what the body is if it turns out to be one
	seenItems  bool
	bare       bool // some items did not name their kind
	items      int
}

func (d *jsonDecoder[T]) List(body io.Reader, meta *metav1.ListMeta) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		l := &jsonList[T]{jsonDecoder: d, scanner: d.scan(newSource(body)), meta: meta}
		if stopped, err := l.run(yield); err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// run reads the body to its end. It reports whether the consumer stopped it.
func (l *jsonList[T]) run(yield func(T, error) bool) (stopped bool, err error) {
	*l.meta = metav1.ListMeta{}
	if err := l.expect('{'); err != nil {
		return false, l.failed(err)
	}
	for first := true; ; first = false {
		more, err := l.more('}', first)
		if err != nil {
			return false, l.failed(err)
		}
		if !more {
			break
		}
		name, err := l.key()
		if err != nil {
			return false, l.failed(err)
		}
		if name == "items" {
			if stopped, err := l.readItems(yield); stopped || err != nil {
				return stopped, err
			}
			continue
		}
		if err := l.field(name); err != nil {
			return false, l.failed(err)
		}
	}
	if err := l.atEnd(); err != nil {
		return false, l.failed(err)
	}
	if l.kind == "Status" && l.apiVersion == "v1" {
		return false, apierrors.FromObject(&l.status)
	}
	if err := l.checkListKind(l.apiVersion, l.kind, l.bare); err != nil {
		return false, l.failed(err)
	}
	return false, nil
}

// failed says where in the list it went wrong. Errors of the transport pass as
// they are: they say nothing about the bytes.
func (l *jsonList[T]) failed(err error) error {
	if isTransport(l.source, err) {
		return fmt.Errorf("read list after %d items: %w", l.items, err)
	}
	return l.fail("list after "+strconv.Itoa(l.items)+" items", nil, err)
}

// field reads a field of the list other than its items.
func (l *jsonList[T]) field(name string) error {
	raw, err := l.value()
	if err != nil {
		return err
	}
	var into any
	switch name {
	case "apiVersion":
		into = &l.apiVersion
	case "kind":
		into = &l.kind
	case "metadata":
		*l.meta = metav1.ListMeta{}
		into = l.meta
		l.status.ListMeta = metav1.ListMeta{}
	case "status":
		into = &l.status.Status
	case "message":
		into = &l.status.Message
	case "reason":
		into = &l.status.Reason
	case "code":
		into = &l.status.Code
	case "details":
		into = &l.status.Details
	default:
		if !json.Valid(raw) {
			return l.syntax("valid JSON before this")
		}
		return nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fmt.Errorf("field %q of the list: %w", name, withoutContent(err))
	}
	return nil
}

func (l *jsonList[T]) readItems(yield func(T, error) bool) (stopped bool, err error) {
	if l.seenItems {
		return false, l.failed(fmt.Errorf("%w: a second field \"items\"", ErrSyntax))
	}
	l.seenItems = true
	c, err := l.space()
	if err != nil {
		return false, l.failed(truncated(err))
	}
	if c == 'n' {
		raw, err := l.value()
		if err == nil && string(raw) != "null" {
			err = l.syntax("an array or null")
		}
		if err != nil {
			return false, l.failed(err)
		}
		return false, nil
	}
	if err := l.expect('['); err != nil {
		return false, l.failed(err)
	}
	for first := true; ; first = false {
		more, err := l.more(']', first)
		if err != nil || !more {
			if err != nil {
				err = l.failed(err)
			}
			return false, err
		}
		if l.items == 0 && l.kind != "" && l.apiVersion != "" {
			if err := l.checkListKind(l.apiVersion, l.kind, false); err != nil {
				return false, l.failed(err)
			}
		}
		item, err := l.item()
		if err != nil {
			return false, err
		}
		l.items++
		if !yield(item, nil) {
			return true, nil
		}
	}
}

func (l *jsonList[T]) item() (T, error) {
	var none T
	raw, err := l.value()
	if err != nil {
		if isTransport(l.source, err) {
			return none, l.failed(err)
		}
		return none, l.fail("item "+strconv.Itoa(l.items), nil, err)
	}
	obj, bare, err := l.decodeItem(raw, true)
	if err != nil {
		return none, l.fail("item "+strconv.Itoa(l.items), raw, err)
	}
	l.bare = l.bare || bare
	return obj, nil
}

func (d *jsonDecoder[T]) Watch(body io.Reader) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		s := d.scan(newSource(body))
		for n := 0; ; n++ {
			ev, err := d.frame(s, n)
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
func (d *jsonDecoder[T]) frame(s *scanner, n int) (Event[T], error) {
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
		if isTransport(s.source, err) {
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
	ev.Object, err = d.decode(obj, where, ev.Type != watch.Bookmark)
	if err != nil {
		return Event[T]{}, err
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

// eventType checks the type of an event.
func eventType(s string) (watch.EventType, error) {
	switch t := watch.EventType(s); t {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
		return t, nil
	}
	return "", fmt.Errorf("%w %q", ErrEventType, excerpt(s))
}
