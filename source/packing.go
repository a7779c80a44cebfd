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
func Packing(from ListerWatcher, p *wire.Packer) Namespacer {
	if packer, ok := from.(Packer); ok {
		if packed := packer.Packing(p); packed != nil {
			return packed
		}
	}
	return &packing{from: from, by: p}
}

type packing struct {
	from  ListerWatcher
	by    *wire.Packer
	known wire.Known // nil where every object is new

	wanted    func(object.Head) bool // nil where every object is wanted
	selection Selection
}

// String names the source.
func (p *packing) String() string { return NameOf(p.from) }

// reusing is the source as one that takes back bare objects in the place of known ones, and
// leaves out what is not wanted.
func (p *packing) reusing() ListerWatcher {
	from := Selecting(p.lending(), p.selection)
	if p.wanted != nil {
		return Choosing(from, func(o object.Head) bool { return p.wanted(p.whole(o)) })
	}
	return from
}

// whole is the head of an object. What was lent, and has come back, is bare: the head is that of
// the packed object behind it.
func (p *packing) whole(o object.Head) object.Head {
	if bare, ok := o.(object.Object); ok {
		if have, ok := p.by.Behind(bare); ok {
			return have
		}
	}
	return o
}

func (p *packing) lending() ListerWatcher {
	if reuser, ok := p.from.(Reuser); ok && p.known != nil {
		if again := reuser.Reusing(p.lend); again != nil {
			return again
		}
	}
	return p.from
}

func (p *packing) lend(key object.Key) (bare object.Head, ok bool) {
	have, ok := p.known(key)
	if packed, is := have.(*wire.Packed); ok && is {
		return packed.Bare()
	}
	return nil, false
}

// List lists the source and packs each item.
func (p *packing) List(ctx context.Context, opts metav1.ListOptions) List[object.Head] {
	list := p.reusing().List(ctx, opts)
	return List[object.Head]{Meta: list.Meta, Items: func(yield func(object.Head, error) bool) {
		for item, err := range list.Items {
			if err == nil {
				item, err = p.pack(item)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}}
}

// Watch watches the source and packs the object of each change.
func (p *packing) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := p.reusing().Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err == nil && e.Passed == nil {
				e.Object, err = p.pack(e.Object)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}, nil
}

func (p *packing) pack(o object.Head) (object.Head, error) {
	if IsNil(o) {
		return nil, nil
	}
	whole, ok := o.(object.Object)
	if !ok {
		return nil, fmt.Errorf("%s yields a %T, which is no object", p, o)
	}
	if have, ok := p.by.Behind(whole); ok {
		return have, nil
	}
	packed, err := p.by.Pack(whole)
	if err != nil {
		return nil, err
	}
	return packed, nil
}

// Reusing implements Reuser.
func (p *packing) Reusing(known wire.Known) ListerWatcher {
	reusing := *p
	reusing.known = known
	return &reusing
}

// Choosing implements Chooser: what is not wanted is not packed.
func (p *packing) Choosing(wanted func(object.Head) bool) ListerWatcher {
	choosing := *p
	choosing.wanted = Both(choosing.wanted, wanted)
	return &choosing
}

// Selecting implements Selector where the source does.
func (p *packing) Selecting(s Selection) ListerWatcher {
	selecting := *p
	selecting.selection = s
	return &selecting
}

// In implements Namespacer where the source does, and fails otherwise.
func (p *packing) In(namespace string) (ListerWatcher, error) {
	whole, ok := p.from.(Namespacer)
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
func (p *packing) Kept() wire.Fields {
	if limited, ok := p.from.(Limited); ok {
		return limited.Kept()
	}
	return wire.Fields{}
}

// Kind implements Kinded as the source does.
func (p *packing) Kind() object.GVK { return KindOf(p.from) }

// Origin implements Traced as the source does. What is chosen of it has none.
func (p *packing) Origin() (Origin, bool) {
	if p.wanted != nil {
		return Origin{}, false
	}
	return OriginOf(p.from)
}

// Altered implements Limited as the source does.
func (p *packing) Altered() bool {
	limited, ok := p.from.(Limited)
	return ok && limited.Altered()
}

// Reaches implements Limited as the source does.
func (p *packing) Reaches(namespace string) bool {
	limited, ok := p.from.(Limited)
	return !ok || limited.Reaches(namespace)
}
