package wire

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// protobufList is the state of reading one list body:
//
//	magic, Unknown{typeMeta, raw{1 ListMeta, 2 item, 2 item, ...}, ...}
//
// Only one item at a time is in memory.
type protobufList[T object.Object] struct {
	*protobufDecoder[T]
	*source
	run      *protoRun
	meta     *metav1.ListMeta
	envelope envelope
	items    int
}

func (d *protobufDecoder[T]) List(body io.Reader, meta *metav1.ListMeta) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		l := &protobufList[T]{protobufDecoder: d, source: newSource(body), run: d.newRun(), meta: meta}
		if err := l.read(yield); err != nil && err != errStopped {
			var none T
			yield(none, err)
		}
	}
}

// read reads the body to its end.
func (l *protobufList[T]) read(yield func(T, error) bool) error {
	*l.meta = metav1.ListMeta{}
	err := l.readEnvelope(yield)
	if err == nil {
		err = l.checkListKind(l.envelope.apiVersion, l.envelope.kind, true)
	}
	if err != nil && err != errStopped {
		err = l.failed(err)
	}
	return err
}

// failed says where in the list it went wrong, unless err says so already.
func (l *protobufList[T]) failed(err error) error {
	if isTransport(err) {
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
		if isTransport(err) {
			return err
		}
		return l.fail(where, nil, truncated(err))
	}
	obj, err := l.decode(l.run, raw, where, true)
	if err != nil {
		return err
	}
	l.items++
	if !yield(obj, nil) {
		return errStopped
	}
	return nil
}
