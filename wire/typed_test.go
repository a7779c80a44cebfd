package wire

import (
	"io"
	"iter"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// typedDecoder is a decoder for objects of one type.
type typedDecoder[T object.Object] interface {
	Object(body []byte) (T, error)
	List(body io.Reader, meta *metav1.ListMeta, known typedKnown[T]) iter.Seq2[T, error]
	Watch(body io.Reader, known typedKnown[T]) iter.Seq2[Event[T], error]
	WithFilter(wanted func(object.Head) bool) typedDecoder[T]
	Selected(told func(selector string)) typedDecoder[T]
}

type typedKnown[T object.Object] func(key object.Key) (T, bool)

func (k typedKnown[T]) plain() Cached {
	if k == nil {
		return nil
	}
	return func(key object.Key) (object.Head, bool) { return k(key) }
}

func newTyped[T object.Object](contentType string, opts Options) (typedDecoder[T], error) {
	if opts.Type == nil {
		opts.Type = reflect.TypeFor[T]()
	}
	d, err := NewDecoder(contentType, opts)
	if err != nil {
		return nil, err
	}
	return typed[T]{d}, nil
}

// typed wraps a Decoder as a typed one.
type typed[T object.Object] struct{ plain Decoder }

func as[T object.Object](o object.Head, err error) (T, error) {
	made, _ := o.(T)
	return made, err
}

func (d typed[T]) Object(body []byte) (T, error) { return as[T](d.plain.Object(body)) }

func (d typed[T]) List(body io.Reader, meta *metav1.ListMeta, known typedKnown[T]) iter.Seq2[T, error] {
	items := d.plain.List(body, meta, known.plain())
	return func(yield func(T, error) bool) {
		items(func(o object.Head, err error) bool { return yield(as[T](o, err)) })
	}
}

func (d typed[T]) Watch(body io.Reader, known typedKnown[T]) iter.Seq2[Event[T], error] {
	events := d.plain.Watch(body, known.plain())
	return func(yield func(Event[T], error) bool) {
		events(func(e Event[object.Head], err error) bool {
			made, err := as[T](e.Object, err)
			return yield(Event[T]{Type: e.Type, Object: made, Bytes: e.Bytes, Received: e.Received, Decoded: e.Decoded, Passed: e.Passed}, err)
		})
	}
}

func (d typed[T]) WithFilter(wanted func(object.Head) bool) typedDecoder[T] {
	return typed[T]{d.plain.WithFilter(wanted)}
}

func (d typed[T]) Selected(told func(string)) typedDecoder[T] {
	return typed[T]{d.plain.OnSelector(told)}
}

// plainOf returns the Decoder in a typed decoder.
func plainOf[T object.Object](d typedDecoder[T]) Decoder { return d.(typed[T]).plain }

// packedOf returns the result of a Packer's decoder as a *Packed.
func packedOf(o object.Head, err error) (*Packed, error) {
	packed, _ := o.(*Packed)
	return packed, err
}

// typedAs returns options for objects of one type.
func typedAs[T object.Object](opts Options) Options {
	opts.Type = reflect.TypeFor[T]()
	return opts
}
