package wire

import (
	"fmt"
	"io"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/parallel"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// protobufList is the state of reading one list body:
//
//	magic, Unknown{typeMeta, raw{1 ListMeta, 2 item, 2 item, ...}, ...}
//
// At most a few batches of items are in memory at a time.
type protobufList struct {
	*protobufEncoding
	*frame.Protobuf
	*parallel.Decoder[item]
	meta     *metav1.ListMeta
	selector string // selector applied by the server
	envelope protobuf.Envelope
}

func (d *protobufEncoding) list(s *frame.Source, workers *parallel.Decoder[item], meta *metav1.ListMeta) listReader {
	return &protobufList{
		protobufEncoding: d, Protobuf: &frame.Protobuf{Source: s, MaxBytes: d.opts.MaxObjectBytes},
		Decoder: workers, meta: meta, envelope: protobuf.Envelope{Media: MediaProtobuf},
	}
}

func (l *protobufList) check(bool) (selector string, err error) {
	return l.selector, l.checkListKind(l.envelope.APIVersion, l.envelope.Kind, true)
}

func (l *protobufList) read() error {
	prefix, err := l.Next(len(protobuf.Magic))
	if err != nil {
		return fault.Truncated(err)
	}
	if string(prefix) != protobuf.Magic {
		return fmt.Errorf("%w: the protobuf prefix is missing", ErrSyntax)
	}
	for {
		if _, err := l.Peek(); err == io.EOF {
			break
		}
		number, wire, size, err := l.FieldHeader()
		if err != nil {
			return err
		}
		switch {
		case number == 2 && wire == frame.WireBytes:
			err = l.readRaw(size)
		case number <= 4 && wire == frame.WireBytes:
			err = l.readSmall(number, size)
		default:
			err = fault.Truncated(l.Skip(size))
		}
		if err != nil {
			return err
		}
	}
	if !l.envelope.HasRaw {
		return fmt.Errorf("the body ends before the list: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

func (l *protobufList) readSmall(number int, size uint64) error {
	if size > maxSmallField {
		return fmt.Errorf("%w: field %d of the envelope has %d bytes", ErrTooLarge, number, size)
	}
	b, err := l.Next(int(size))
	if err != nil {
		return fault.Truncated(err)
	}
	return l.envelope.Set(number, b)
}

// readRaw reads the list message, which is size bytes long.
func (l *protobufList) readRaw(size uint64) error {
	if l.envelope.HasRaw {
		return fmt.Errorf("%w: a second list in one body", ErrSyntax)
	}
	l.envelope.HasRaw = true
	if size > math.MaxInt64/2 {
		return frame.ErrProtobuf
	}
	if isStatus(l.envelope.APIVersion, l.envelope.Kind) {
		return l.readStatus(size)
	}
	if l.envelope.Kind != "" {
		if err := l.checkListKind(l.envelope.APIVersion, l.envelope.Kind, true); err != nil {
			return err
		}
	}
	end := l.Offset() + int64(size)
	for l.Offset() < end {
		number, wire, size, err := l.FieldHeader()
		if err != nil {
			return err
		}
		if l.Offset() > end || size > uint64(end-l.Offset()) {
			return fmt.Errorf("%w: a field runs past the end of the list", ErrSyntax)
		}
		switch {
		case number == 1 && wire == frame.WireBytes:
			err = l.readMeta(size)
		case number == 2 && wire == frame.WireBytes:
			err = l.readItem(size)
		default:
			if err = l.Flush(); err == nil {
				err = fault.Truncated(l.Skip(size))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *protobufList) readStatus(size uint64) error {
	if size > maxSmallField {
		return fmt.Errorf("%w: a status of %d bytes", ErrTooLarge, size)
	}
	raw, err := l.Next(int(size))
	if err != nil {
		return fault.Truncated(err)
	}
	return unmarshalStatus(raw)
}

func (l *protobufList) readMeta(size uint64) error {
	if size > maxSmallField {
		return fmt.Errorf("%w: list metadata of %d bytes", ErrTooLarge, size)
	}
	raw, err := l.Next(int(size))
	if err != nil {
		return fault.Truncated(err)
	}
	if err := l.meta.Unmarshal(raw); err != nil {
		return fmt.Errorf("list metadata: %w", fault.WithoutContent(err))
	}
	l.selector = selectedProtobuf(raw)
	return nil
}

func (l *protobufList) readItem(size uint64) error {
	if size > uint64(l.opts.MaxObjectBytes) {
		return l.fail(whereItem(l.Count()), nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, l.opts.MaxObjectBytes))
	}
	raw, err := l.Next(int(size))
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return l.fail(whereItem(l.Count()), nil, fault.Truncated(err))
	}
	if err == nil {
		l.Add(frame.Item{Raw: raw})
	}
	return err
}

// selectedProtobuf is like selectedJSON, but for protobuf.
func selectedProtobuf(metadata []byte) string {
	return string(lastField(lastField(metadata, 5), 1))
}

// lastField returns the last field with the given number in a message.
func lastField(msg []byte, number int) (content []byte) {
	for len(msg) > 0 {
		f, rest, err := protobuf.NextField(msg)
		if err != nil {
			return nil
		}
		if f.Number == number && f.Wire == frame.WireBytes {
			content = f.Bytes
		}
		msg = rest
	}
	return content
}
