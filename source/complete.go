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

// Complete returns a source that does all of a Request: from itself, or a wrapper that does the parts that from
// leaves undone. The wrapper chooses an object, and then packs it, once from has yielded it; an error of the
// packer ends a list or a watch. A request for a namespace fails if from does not narrow, or is one of
// another namespace. Objects that are known are decoded again if from does not reuse them.
func Complete(from ListerWatcher) ListerWatcher {
	d := Describe(from)
	if d.Narrows && d.Namespace == "" && d.Reuses && d.Filters && d.Packs {
		return from
	}
	return &completed{from, d}
}

// completed is the wrapper of a source.
type completed struct {
	from ListerWatcher
	does Description
}

// Describe describes the source.
func (c *completed) Describe() Description {
	d := Describe(c.from)
	d.Filters, d.Packs = true, true
	return d
}

// List lists the source.
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

// Watch watches the source.
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

// remainder is the part of a Request that the wrapper does.
type remainder struct {
	name   string
	wanted func(object.Head) bool // nil if nothing is left to choose
	packer *wire.Packer           // nil if nothing is left to pack
}

// divide divides a Request between the source and the wrapper. If the wrapper packs, the source is lent
// placeholders of the packed objects that the caller knows.
func (c *completed) divide(req Request) (below Request, rest remainder, err error) {
	d := c.does
	d.Name = Describe(c.from).Name // by which it may be known better now
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
	if !d.Reuses || rest.wanted != nil { // a known object does not show all that it is chosen by
		below.Known = nil
	}
	return below, rest, nil
}

// lend returns a placeholder of the object that is known under a key.
func lend(known wire.Cached, key object.Key) (placeholder object.Head, ok bool) {
	have, ok := known(key)
	if packed, is := have.(*wire.Packed); ok && is {
		return packed.Placeholder()
	}
	return nil, false
}

// whole is the head of an object. That of a placeholder, which was lent and has come back, is the
// packed object that it stands for.
func (r *remainder) whole(o object.Head) object.Head {
	if placeholder, ok := o.(object.Object); ok {
		if have, ok := r.packer.PackedOf(placeholder); ok {
			return have
		}
	}
	return o
}

// wants reports whether an object is wanted. Of one that is nil others complain.
func (r *remainder) wants(o object.Head) bool { return r.wanted == nil || IsNil(o) || r.wanted(o) }

// pack packs an object, if it is to be packed. A placeholder, which was lent and has come back, is packed
// already.
func (r *remainder) pack(o object.Head) (object.Head, error) {
	if r.packer == nil {
		return o, nil
	}
	if IsNil(o) {
		return nil, nil
	}
	whole, ok := o.(object.Object)
	if !ok {
		return nil, fmt.Errorf("%s yields a %T, which is no object", r.name, o)
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
