package sharedinformer

import (
	"context"
	"io"
	"reflect"
	"runtime"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// writeObjects writes what is cached: packed objects as they are, and whole ones packed. Files are the same. It
// ends early if ctx is done.
func writeObjects(ctx context.Context, objects indexer.View, to io.Writer) error {
	var a wire.Archive
	var room []byte
	by := wire.NewPacker(nil)
	for i := range objects.Len() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		o, ok := objects.At(i).(*wire.Packed)
		var err error
		if !ok {
			if o, err = by.Pack(objects.At(i).(object.Object)); err != nil {
				return err
			}
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

// readObjects reads n objects of a Go type that writeObjects has written, in the form in which they are cached.
func (i *core) readObjects(content []byte, n int, goType reflect.Type) ([]object.Head, error) {
	by := wire.NewPacker(i.from.Pool)
	if i.packing != nil {
		by = i.packing.packer
	}
	packed, err := by.Extract(content, n, goType)
	if err != nil {
		return nil, err
	}
	objects := make([]object.Head, len(packed))
	for at := range packed {
		objects[at] = packed[at]
	}
	if i.packing != nil {
		return objects, nil
	}
	return objects, openAll(objects, goType)
}

// openAll puts the object in the place of each packed one, on all processors.
func openAll(objects []object.Head, goType reflect.Type) error {
	errs := make([]error, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for part := range errs {
		all.Go(func() {
			errs[part] = failure.Apart("reading a "+goType.String(), func() (err error) {
				for at := part; at < len(objects) && err == nil; at += len(errs) {
					objects[at], err = packedOf(objects[at]).Open()
				}
				return err
			})
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// contentOf returns what the cache has of a feed, and up to which version; an empty one where
// it is not whole.
func (i *core) contentOf(f *feed) (objects indexer.View, rv string) {
	i.join.Lock()
	defer i.join.Unlock()
	if !f.listed {
		return objects, ""
	}
	if f.namespace == metav1.NamespaceAll && i.feeds.trims > 0 {
		return objects, "" // there may be more in it than the feed's
	}
	return i.cache.NamespaceSnapshot(f.namespace), f.rv
}
