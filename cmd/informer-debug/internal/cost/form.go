package cost

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"reflect"
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// measureForms measures a sample's objects in each form.
func measureForms[T object.Object](c *cost, s *sample, opts wire.Options) error {
	c.Objects, c.Sample, c.Short, c.Unstructured = s.all(), s.objects, s.short, isUntyped[T]()
	var parts [fourths][]page
	for n, p := range s.pages {
		parts[n%fourths] = append(parts[n%fourths], p)
	}
	var counts [fourths]int
	var onWire weight
	for n, part := range parts {
		for _, p := range part {
			counts[n] += p.objects
			onWire.of[n] += int64(len(p.body))
		}
	}
	if s.objects == 0 {
		return nil
	}
	c.Wire = onWire.estimate(counts, c.Objects, false)
	stock := func() wire.Options {
		o := opts
		o.Reference = true
		return o
	}
	shared := func(keep wire.Fields) func() wire.Options {
		return func() wire.Options {
			o := opts
			o.Pool, o.Keep = wire.NewPool(), keep
			return o
		}
	}
	for _, f := range []struct {
		to    *estimate
		weigh func() (weight, error)
	}{
		{&c.ClientGo, func() (weight, error) { return weigh(parts, reading[T](stock), inMap) }},
		{&c.Whole, func() (weight, error) { return weigh(parts, reading[T](shared(wire.Fields{})), inCache) }},
		{&c.Packed, func() (weight, error) {
			return weigh(parts, packing[T](opts), inCache)
		}},
		{&c.NoManaged, func() (weight, error) {
			return weigh(parts, reading[T](shared(wire.WithoutManagedFields)), inCache)
		}},
		{&c.Metadata, func() (weight, error) {
			return weigh(parts, reading[*metav1.PartialObjectMetadata](shared(wire.Fields{})), inCache)
		}},
	} {
		w, err := f.weigh()
		if err != nil {
			return err
		}
		*f.to = w.estimate(counts, c.Objects, true)
	}
	if s.r.flags.keep == "" {
		return nil
	}
	w, err := weigh(parts, reading[T](shared(wire.Only(s.r.flags.keep))), inCache)
	if err == nil {
		kept := w.estimate(counts, c.Objects, true)
		c.Keep = &kept
	}
	if errors.Is(err, wire.ErrFields) {
		return nil
	}
	return err
}

func isUntyped[T object.Object]() bool {
	var none T
	_, is := any(none).(*unstructured.Unstructured)
	return is
}

// reader creates decoders by media type.
type reader func(media string) (wire.Decoder, error)

// reading returns a function that creates readers. Objects from different readers share no memory.
func reading[T object.Object](opts func() wire.Options) func() reader {
	return func() reader {
		o := opts()
		o.Type = reflect.TypeFor[T]()
		return func(media string) (wire.Decoder, error) { return wire.NewDecoder(media, o) }
	}
}

// packing is like reading, for packed objects.
func packing[T object.Object](opts wire.Options) func() reader {
	return func() reader {
		by := wire.NewPacker(wire.NewPool())
		opts.Type = reflect.TypeFor[T]()
		return func(media string) (wire.Decoder, error) { return by.Decoder(media, &opts) }
	}
}

// weight contains the size in bytes of each quarter of a sample, measured while the previous quarters are in
// memory.
type weight struct{ of [fourths]int64 }

// weigh loads the parts one by one, measuring the heap after each. It first loads and discards one page, so
// that permanent structures such as decoder tables are not counted.
func weigh(parts [fourths][]page, readers func() reader, holder func() (hold func(object.Head), held any)) (w weight, err error) {
	warm, _ := holder()
	if len(parts[0]) > 0 {
		if err := load(parts[0][:1], readers(), warm); err != nil {
			return w, err
		}
	}
	hold, held := holder()
	read := readers()
	before := heapInUse()
	for n, part := range parts {
		if err := load(part, read, hold); err != nil {
			return w, err
		}
		after := heapInUse()
		w.of[n] = int64(after) - int64(before)
		before = after
	}
	runtime.KeepAlive(held)
	runtime.KeepAlive(read) // including the pool of shared values
	return w, nil
}

func load(pages []page, read reader, hold func(object.Head)) error {
	for _, p := range pages {
		d, err := read(p.contentType)
		if err != nil {
			return err
		}
		for o, err := range items(d, p.body) {
			if err != nil {
				return err
			}
			hold(o)
		}
	}
	return nil
}

func items(d wire.Decoder, body []byte) iter.Seq2[object.Head, error] {
	var meta metav1.ListMeta
	return d.List(bytes.NewReader(body), &meta, nil)
}

// inMap stores objects as client-go does, in a map with formatted keys.
func inMap() (func(object.Head), any) {
	all := map[string]object.Head{}
	return func(o object.Head) { all[object.FormatKey(object.KeyOf(o))] = o }, &all
}

// inCache stores objects as an informer does.
func inCache() (func(object.Head), any) {
	cache := indexer.New()
	return func(o object.Head) {
		cache.Write(func(w indexer.Writer) { w.Set(object.KeyOf(o), o) })
	}, cache
}

// heapInUse returns the size of the live heap. It runs the garbage collector at least twice and until nothing
// more is freed, because memory held by pools, finalizers and cleanups takes an extra cycle to free.
func heapInUse() uint64 {
	least := uint64(math.MaxUint64)
	for range 8 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc >= least {
			break
		}
		least = m.HeapAlloc
	}
	return least
}
