package sharedinformer

import (
	"context"
	"io"
	"reflect"
	"runtime"
	"sync"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// packedForm writes packed objects as they are.
type packedForm[T object.Object] struct{ by *wire.Packer[T] }

func (f packedForm[T]) write(ctx context.Context, objects indexer.View[*wire.Packed[T]], to io.Writer) error {
	return archive(ctx, objects.Len(), to, func(i int) (*wire.Packed[T], error) { return objects.At(i), nil })
}

func (f packedForm[T]) read(content []byte, n int, goType reflect.Type) ([]*wire.Packed[T], error) {
	return f.by.Extract(content, n, goType)
}

// wholeForm packs whole objects to write them, and opens what it reads. Files are the same.
type wholeForm[T object.Object] struct{ pool *wire.Pool }

func (f wholeForm[T]) write(ctx context.Context, objects indexer.View[T], to io.Writer) error {
	by := wire.NewPacker[T](nil)
	return archive(ctx, objects.Len(), to, func(i int) (*wire.Packed[T], error) { return by.Pack(objects.At(i)) })
}

func (f wholeForm[T]) read(content []byte, n int, goType reflect.Type) ([]T, error) {
	packed, err := wire.NewPacker[T](f.pool).Extract(content, n, goType)
	if err != nil {
		return nil, err
	}
	objects := make([]T, len(packed))
	errs := make([]error, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for part := range errs {
		all.Go(func() {
			errs[part] = failure.Apart("reading a "+goType.String(), func() (err error) {
				for at := part; at < len(packed) && err == nil; at += len(errs) {
					objects[at], err = packed[at].Open()
				}
				return err
			})
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// archive writes n objects. It ends early where ctx is done.
func archive[T object.Object](ctx context.Context, n int, to io.Writer, at func(i int) (*wire.Packed[T], error)) error {
	var a wire.Archive[T]
	var room []byte
	for i := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		o, err := at(i)
		if err != nil {
			return err
		}
		if room, err = a.Append(room[:0], o); err != nil {
			return err
		}
		if _, err := to.Write(room); err != nil {
			return err
		}
	}
	return nil
}
