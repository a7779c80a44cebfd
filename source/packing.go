package source

import (
	"context"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Packing returns the source of the same objects, packed by p: what the source returns if
// it is a Packer. Of any other, each object is packed once it is there; a known object is
// given back where the source is a Reuser and takes it back. What cannot be packed ends a
// list or a watch with the error of p.
func Packing[T object.Object](from ListerWatcher[T], p *wire.Packer[T]) Namespacer[*wire.Packed[T]] {
	if packer, ok := from.(Packer[T]); ok {
		if packed := packer.Packing(p); packed != nil {
			return packed
		}
	}
	return &packing[T]{from: from, by: p}
}

type packing[T object.Object] struct {
	from  ListerWatcher[T]
	by    *wire.Packer[T]
	known wire.Known[*wire.Packed[T]] // nil where every object is new

	wanted    func(object.Head) bool // nil where every object is wanted
	selection Selection
}

// String names the source.
func (p *packing[T]) String() string { return NameOf(p.from) }

// reusing is the source as one that takes back bare objects in the place of known ones, and
// leaves out what is not wanted.
func (p *packing[T]) reusing() ListerWatcher[T] {
	from := Selecting(p.lending(), p.selection)
	if p.wanted != nil {
		return Choosing(from, func(o object.Head) bool { return p.wanted(p.whole(o)) })
	}
	return from
}

// whole is the head of an object. What was lent, and has come back, is bare: the head is that of
// the packed object behind it.
func (p *packing[T]) whole(o object.Head) object.Head {
	if bare, ok := o.(T); ok {
		if have, ok := p.by.Behind(bare); ok {
			return have
		}
	}
	return o
}

func (p *packing[T]) lending() ListerWatcher[T] {
	if reuser, ok := p.from.(Reuser[T]); ok && p.known != nil {
		if again := reuser.Reusing(p.lend); again != nil {
			return again
		}
	}
	return p.from
}

func (p *packing[T]) lend(key object.Key) (bare T, ok bool) {
	have, ok := p.known(key)
	if !ok {
		return bare, false
	}
	return have.Bare()
}

// List lists the source and packs each item.
func (p *packing[T]) List(ctx context.Context, opts metav1.ListOptions) List[*wire.Packed[T]] {
	list := p.reusing().List(ctx, opts)
	return List[*wire.Packed[T]]{Meta: list.Meta, Items: func(yield func(*wire.Packed[T], error) bool) {
		for item, err := range list.Items {
			var packed *wire.Packed[T]
			if err == nil {
				packed, err = p.pack(item)
			}
			if !yield(packed, err) || err != nil {
				return
			}
		}
	}}
}

// Watch watches the source and packs the object of each change.
func (p *packing[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[*wire.Packed[T]], error], error) {
	events, err := p.reusing().Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[*wire.Packed[T]], error) bool) {
		for e, err := range events {
			packed := wire.Event[*wire.Packed[T]]{Type: e.Type, Passed: e.Passed, Bytes: e.Bytes, Received: e.Received, Decoded: e.Decoded}
			if err == nil && e.Passed == nil {
				packed.Object, err = p.pack(e.Object)
			}
			if !yield(packed, err) || err != nil {
				return
			}
		}
	}, nil
}

func (p *packing[T]) pack(o T) (*wire.Packed[T], error) {
	if isNil(o) {
		return nil, nil
	}
	if have, ok := p.by.Behind(o); ok {
		return have, nil
	}
	return p.by.Pack(o)
}

// Reusing implements Reuser.
func (p *packing[T]) Reusing(known wire.Known[*wire.Packed[T]]) ListerWatcher[*wire.Packed[T]] {
	reusing := *p
	reusing.known = known
	return &reusing
}

// Choosing implements Chooser: what is not wanted is not packed.
func (p *packing[T]) Choosing(wanted func(object.Head) bool) ListerWatcher[*wire.Packed[T]] {
	choosing := *p
	choosing.wanted = Both(choosing.wanted, wanted)
	return &choosing
}

// Selecting implements Selector where the source does.
func (p *packing[T]) Selecting(s Selection) ListerWatcher[*wire.Packed[T]] {
	selecting := *p
	selecting.selection = s
	return &selecting
}

// In implements Namespacer where the source does, and fails otherwise.
func (p *packing[T]) In(namespace string) (ListerWatcher[*wire.Packed[T]], error) {
	whole, ok := p.from.(Namespacer[T])
	if !ok {
		return nil, fmt.Errorf("%s cannot be narrowed to a namespace: it is no source.Namespacer", p)
	}
	from, err := whole.In(namespace)
	if err != nil || any(from) == nil {
		return nil, err
	}
	in := *p
	in.from = from
	return &in, nil
}

// Kept implements Limited as the source does.
func (p *packing[T]) Kept() wire.Fields {
	if limited, ok := p.from.(Limited); ok {
		return limited.Kept()
	}
	return wire.Fields{}
}

// Kind implements Kinded as the source does.
func (p *packing[T]) Kind() object.GVK { return KindOf(p.from) }

// Origin implements Traced as the source does. What is chosen of it has none.
func (p *packing[T]) Origin() (Origin, bool) {
	if p.wanted != nil {
		return Origin{}, false
	}
	return OriginOf(p.from)
}

// Altered implements Limited as the source does.
func (p *packing[T]) Altered() bool {
	limited, ok := p.from.(Limited)
	return ok && limited.Altered()
}

// Reaches implements Limited as the source does.
func (p *packing[T]) Reaches(namespace string) bool {
	limited, ok := p.from.(Limited)
	return !ok || limited.Reaches(namespace)
}
