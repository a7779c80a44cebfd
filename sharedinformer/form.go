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
type packedForm struct{ by *wire.Packer }

func (f packedForm) write(ctx context.Context, objects indexer.View, to io.Writer) error {
	return archive(ctx, objects.Len(), to, func(i int) (*wire.Packed, error) { return packedOf(objects.At(i)), nil })
}

func (f packedForm) read(content []byte, n int, goType reflect.Type) ([]object.Head, error) {
	packed, err := f.by.Extract(content, n, goType)
	objects := make([]object.Head, len(packed))
	for at := range packed {
		objects[at] = packed[at]
	}
	return objects, err
}

// wholeForm packs whole objects to write them, and opens what it reads. Files are the same.
type wholeForm struct{ pool *wire.Pool }

func (f wholeForm) write(ctx context.Context, objects indexer.View, to io.Writer) error {
	by := wire.NewPacker(nil)
	return archive(ctx, objects.Len(), to, func(i int) (*wire.Packed, error) { return by.Pack(objects.At(i).(object.Object)) })
}

func (f wholeForm) read(content []byte, n int, goType reflect.Type) ([]object.Head, error) {
	packed, err := wire.NewPacker(f.pool).Extract(content, n, goType)
	if err != nil {
		return nil, err
	}
	objects := make([]object.Head, len(packed))
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
func archive(ctx context.Context, n int, to io.Writer, at func(i int) (*wire.Packed, error)) error {
	var a wire.Archive
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
