package source

import (
	"context"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Complete returns a source that supports every part of a Request: from itself if it already does, or
// else a wrapper that implements the missing parts. The wrapper filters each object that from yields, and
// then packs it; a packing error ends the list or watch. A request for a namespace fails if from cannot
// be limited to a namespace, or is limited to a different one. Known objects are decoded again if from
// cannot reuse them.
func Complete(from ListerWatcher) ListerWatcher {
	d := Describe(from)
	if d.Narrows && d.Namespace == "" && d.Reuses && d.Filters && d.Packs {
		return from
	}
	return &completed{from, d}
}

// completed is the wrapper returned by Complete.
type completed struct {
	from ListerWatcher
	does Description
}

// Describe returns the source's description, with filtering and packing added.
func (c *completed) Describe() Description {
	d := Describe(c.from)
	d.Filters, d.Packs = true, true
	return d
}

func (c *completed) List(ctx context.Context, req Request) List[object.Head] {
	below, rest, err := c.divide(req)
	if err != nil {
		return List[object.Head]{Meta: new(metav1.ListMeta), Items: func(yield func(object.Head, error) bool) { yield(nil, err) }}
	}
	list := c.from.List(ctx, below)
	return List[object.Head]{Meta: list.Meta, Items: func(yield func(object.Head, error) bool) {
		for item, err := range list.Items {
			if err == nil {
				if !rest.wants(item) {
					continue
				}
				item, err = rest.pack(item)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}}
}

func (c *completed) Watch(ctx context.Context, req Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	below, rest, err := c.divide(req)
	if err != nil {
		return nil, err
	}
	events, err := c.from.Watch(ctx, below)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			switch {
			case err != nil || e.Passed != nil:
			case e.Type != watch.Bookmark && !rest.wants(e.Object):
				passed := object.VersionOf(e.Object)
				e.Object, e.Passed = nil, &passed
			default:
				e.Object, err = rest.pack(e.Object)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}, nil
}

// remainder is the part of a Request that the wrapper implements.
type remainder struct {
	name   string
	wanted func(object.Head) bool // nil if from filters
	packer *wire.Packer           // nil if from packs
}

// divide splits a Request between the source and the wrapper. If the wrapper packs, the source is given
// placeholders for the packed objects known to the caller.
func (c *completed) divide(req Request) (below Request, rest remainder, err error) {
	d := c.does
	d.Name = Describe(c.from).Name // the description may have become more specific
	if err := d.CanNarrow(req.Namespace); err != nil {
		return req, rest, err
	}
	below, rest = req, remainder{name: d.Name}
	if packer := wire.PackerOf(req.Packer); packer != nil && !d.Packs {
		below.Packer, rest.packer = nil, packer
		if req.Known != nil {
			below.Known = func(key object.Key) (object.Head, bool) { return lend(req.Known, key) }
		}
		if req.Wanted != nil {
			below.Wanted = func(o object.Head) bool { return req.Wanted(rest.whole(o)) }
		}
	}
	if !d.Filters {
		rest.wanted, below.Wanted = below.Wanted, nil
	}
	if !d.Reuses || rest.wanted != nil { // a known object may lack fields needed by the filter
		below.Known = nil
	}
	return below, rest, nil
}

// lend returns a placeholder for the known object under a key.
func lend(known wire.Cached, key object.Key) (placeholder object.Head, ok bool) {
	have, ok := known(key)
	if packed, is := have.(*wire.Packed); ok && is {
		return packed.Placeholder()
	}
	return nil, false
}

// whole returns an object's head. For a placeholder, that is the packed object.
func (r *remainder) whole(o object.Head) object.Head {
	if placeholder, ok := o.(object.Object); ok {
		if have, ok := r.packer.PackedOf(placeholder); ok {
			return have
		}
	}
	return o
}

// wants reports whether an object is wanted. Nil objects are reported elsewhere.
func (r *remainder) wants(o object.Head) bool { return r.wanted == nil || IsNil(o) || r.wanted(o) }

// pack packs an object, if requested. A placeholder's object is already packed.
func (r *remainder) pack(o object.Head) (object.Head, error) {
	if r.packer == nil {
		return o, nil
	}
	if IsNil(o) {
		return nil, nil
	}
	whole, ok := o.(object.Object)
	if !ok {
		return nil, fmt.Errorf("%s yields a %T, which is not an object", r.name, o)
	}
	if have, ok := r.packer.PackedOf(whole); ok {
		return have, nil
	}
	packed, err := r.packer.Pack(whole)
	if err != nil {
		return nil, err
	}
	return packed, nil
}
