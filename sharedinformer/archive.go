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

// writeObjects writes the cached objects. Whole objects are packed first, so the format does not
// depend on Options.Store. It stops early when ctx is done.
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

// readObjects reads n objects of goType written by writeObjects. They are packed if the cache is
// packed.
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

// openAll replaces each packed object with its decoded form, using all CPUs.
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

// contentOf returns a feed's cached objects and their version. It returns no version if the cache is
// incomplete, if the objects may belong to a lost history, or if the feed was removed, because the cache then
// drops its objects.
func (i *core) contentOf(f *feed) (objects indexer.View, rv string) {
	i.join.Lock()
	defer i.join.Unlock()
	if !f.listed.Load() || f.lost.Load() || feedNamed(i.feeds.all(), f.namespace) != f {
		return objects, ""
	}
	if f.namespace == metav1.NamespaceAll && i.feeds.trims > 0 {
		return objects, "" // the cache may also contain objects from other feeds
	}
	return i.cache.NamespaceSnapshot(f.namespace), f.rv
}
