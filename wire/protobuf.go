package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
)

// frameOverhead is what a watch frame may have beyond its object: the type of
// the event and the envelope, with their lengths.
const frameOverhead = 1 << 10

// maxSmallField bounds the fields of a list body that are not items.
const maxSmallField = 1 << 20

// protobufDecoder reads protobuf with the Unmarshal method of the Go type.
type protobufDecoder[T object.Object] struct {
	*target[T]
	opts Options
}

func (d *protobufDecoder[T]) fail(where string, raw []byte, err error) *Error {
	e := &Error{Media: MediaProtobuf, Where: where, Bytes: len(raw), Err: err}
	// Every API type has its ObjectMeta as field 1, as PartialObjectMetadata has.
	var head metav1.PartialObjectMetadata
	if len(raw) > 0 && head.Unmarshal(raw) == nil {
		e.Key = object.Key{Namespace: excerpt(head.Namespace), Name: excerpt(head.Name)}
	}
	return e
}

func (d *protobufDecoder[T]) Object(body []byte) (T, error) {
	return d.open(body, "object", false)
}

// open decodes an object in its envelope, which must name its kind.
func (d *protobufDecoder[T]) open(body []byte, where string, named bool) (T, error) {
	var none T
	if len(body) > d.opts.MaxObjectBytes+frameOverhead {
		return none, d.fail(where, nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, len(body), d.opts.MaxObjectBytes))
	}
	e, err := openEnvelope(body)
	if err != nil {
		return none, d.fail(where, nil, err)
	}
	if e.isStatus() && !d.isStatus() {
		return none, unmarshalStatus(e.raw)
	}
	if err = d.checkKind(e.apiVersion, e.kind); err == nil && e.kind == "" {
		err = d.wrongKind(e.apiVersion, e.kind)
	}
	if err != nil {
		return none, d.fail(where, e.raw, err)
	}
	return d.decode(e.raw, where, named)
}

func (d *protobufDecoder[T]) decode(raw []byte, where string, named bool) (T, error) {
	var none T
	if d.quantities {
		if err := checkProtoQuantities(raw); err != nil {
			return none, d.fail(where, raw, err)
		}
	}
	obj := d.new()
	if err := any(obj).(unmarshaler).Unmarshal(raw); err != nil {
		return none, d.fail(where, raw, withoutContent(err))
	}
	if err := d.finish(obj, named); err != nil {
		return none, d.fail(where, raw, err)
	}
	return obj, nil
}

func unmarshalStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := status.Unmarshal(raw); err != nil {
		return &Error{Media: MediaProtobuf, Where: "status", Bytes: len(raw), Err: withoutContent(err)}
	}
	return apierrors.FromObject(status)
}

// protobufList is the state of reading one list body:
//
//	magic, Unknown{typeMeta, raw{1 ListMeta, 2 item, 2 item, ...}, ...}
//
// Only one item at a time is in memory.
type protobufList[T object.Object] struct {
	*protobufDecoder[T]
	*source
	meta     *metav1.ListMeta
	envelope envelope
	items    int
}

func (d *protobufDecoder[T]) List(body io.Reader, meta *metav1.ListMeta) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		l := &protobufList[T]{protobufDecoder: d, source: newSource(body), meta: meta}
		if stopped, err := l.run(yield); err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// errStopped ends run where the consumer has had enough.
var errStopped = errors.New("stopped")

func (l *protobufList[T]) run(yield func(T, error) bool) (stopped bool, err error) {
	*l.meta = metav1.ListMeta{}
	err = l.readEnvelope(yield)
	if err == errStopped {
		return true, nil
	}
	if err == nil {
		err = l.checkListKind(l.envelope.apiVersion, l.envelope.kind, true)
	}
	if err != nil {
		return false, l.failed(err)
	}
	return false, nil
}

// failed says where in the list it went wrong, unless err says so already.
func (l *protobufList[T]) failed(err error) error {
	if isTransport(l.source, err) {
		return fmt.Errorf("read list after %d items: %w", l.items, err)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return s
	}
	return l.fail("list after "+strconv.Itoa(l.items)+" items", nil, err)
}

func (l *protobufList[T]) readEnvelope(yield func(T, error) bool) error {
	prefix, err := l.next(len(magic))
	if err != nil {
		return truncated(err)
	}
	if string(prefix) != magic {
		return fmt.Errorf("%w: the protobuf prefix is missing", ErrSyntax)
	}
	for {
		if _, err := l.peek(); err == io.EOF {
			break
		}
		number, wire, size, err := l.fieldHeader()
		if err != nil {
			return err
		}
		switch {
		case number == 2 && wire == wireBytes:
			err = l.readRaw(size, yield)
		case number <= 4 && wire == wireBytes:
			err = l.readSmall(number, size)
		default:
			err = truncated(l.skip(size))
		}
		if err != nil {
			return err
		}
	}
	if !l.envelope.hasRaw {
		return fmt.Errorf("the body ends before the list: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

func (l *protobufList[T]) readSmall(number int, size uint64) error {
	if size > maxSmallField {
		return fmt.Errorf("%w: field %d of the envelope has %d bytes", ErrTooLarge, number, size)
	}
	b, err := l.next(int(size))
	if err != nil {
		return truncated(err)
	}
	return l.envelope.set(field{number: number, wire: wireBytes, bytes: b})
}

// readRaw reads the list message, which has size bytes.
func (l *protobufList[T]) readRaw(size uint64, yield func(T, error) bool) error {
	if l.envelope.hasRaw {
		return fmt.Errorf("%w: a second list in one body", ErrSyntax)
	}
	l.envelope.hasRaw = true
	if size > math.MaxInt64/2 {
		return errProto
	}
	if l.envelope.isStatus() {
		return l.readStatus(size)
	}
	if l.envelope.kind != "" {
		if err := l.checkListKind(l.envelope.apiVersion, l.envelope.kind, true); err != nil {
			return err
		}
	}
	end := l.offset() + int64(size)
	for l.offset() < end {
		number, wire, size, err := l.fieldHeader()
		if err != nil {
			return err
		}
		if l.offset() > end || size > uint64(end-l.offset()) {
			return fmt.Errorf("%w: a field runs past the end of the list", ErrSyntax)
		}
		switch {
		case number == 1 && wire == wireBytes:
			err = l.readMeta(size)
		case number == 2 && wire == wireBytes:
			err = l.readItem(size, yield)
		default:
			err = truncated(l.skip(size))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *protobufList[T]) readStatus(size uint64) error {
	if size > maxSmallField {
		return fmt.Errorf("%w: a status of %d bytes", ErrTooLarge, size)
	}
	raw, err := l.next(int(size))
	if err != nil {
		return truncated(err)
	}
	return unmarshalStatus(raw)
}

func (l *protobufList[T]) readMeta(size uint64) error {
	if size > maxSmallField {
		return fmt.Errorf("%w: list metadata of %d bytes", ErrTooLarge, size)
	}
	raw, err := l.next(int(size))
	if err != nil {
		return truncated(err)
	}
	if err := l.meta.Unmarshal(raw); err != nil {
		return fmt.Errorf("list metadata: %w", withoutContent(err))
	}
	return nil
}

func (l *protobufList[T]) readItem(size uint64, yield func(T, error) bool) error {
	where := "item " + strconv.Itoa(l.items)
	if size > uint64(l.opts.MaxObjectBytes) {
		return l.fail(where, nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, l.opts.MaxObjectBytes))
	}
	raw, err := l.next(int(size))
	if err != nil {
		if isTransport(l.source, err) {
			return err
		}
		return l.fail(where, nil, truncated(err))
	}
	obj, err := l.decode(raw, where, true)
	if err != nil {
		return err
	}
	l.items++
	if !yield(obj, nil) {
		return errStopped
	}
	return nil
}

// fieldHeader reads the number, the wire type and the size of the next field.
// A varint is consumed with its header, so that its size is 0.
func (s *source) fieldHeader() (number, wire int, size uint64, err error) {
	tag, err := s.uvarint()
	if err != nil {
		return 0, 0, 0, err
	}
	if tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return 0, 0, 0, errProto
	}
	number, wire = int(tag>>3), int(tag&7)
	switch wire {
	case wireVarint:
		_, err = s.uvarint()
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	case wireBytes:
		size, err = s.uvarint()
	default:
		err = errProto
	}
	return number, wire, size, err
}

func (s *source) uvarint() (uint64, error) {
	var v uint64
	for i := range binary.MaxVarintLen64 {
		c, err := s.peek()
		if err != nil {
			return 0, truncated(err)
		}
		s.pos++
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i == binary.MaxVarintLen64-1 && c > 1 {
				return 0, errProto
			}
			return v, nil
		}
	}
	return 0, errProto
}

func (d *protobufDecoder[T]) Watch(body io.Reader) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		s := newSource(body)
		for n := 0; ; n++ {
			ev, err := d.frame(s, "frame "+strconv.Itoa(n))
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
func (d *protobufDecoder[T]) frame(s *source, where string) (Event[T], error) {
	var none Event[T]
	prefix, err := s.next(4)
	if err == io.EOF {
		return none, io.EOF
	}
	if err != nil {
		return none, d.readError(s, where, err)
	}
	size := binary.BigEndian.Uint32(prefix)
	if uint64(size) > uint64(d.opts.MaxObjectBytes)+2*frameOverhead {
		return none, d.fail(where, nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, d.opts.MaxObjectBytes))
	}
	raw, err := s.next(int(size))
	if err != nil {
		return none, d.readError(s, where, err)
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
	if ev.Object, err = d.open(obj, where, ev.Type != watch.Bookmark); err != nil {
		return none, err
	}
	ev.Decoded = time.Now()
	return ev, nil
}

func (d *protobufDecoder[T]) readError(s *source, where string, err error) error {
	if isTransport(s, err) {
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
