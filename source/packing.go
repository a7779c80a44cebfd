package source

import (
	"context"
	"fmt"
	"iter"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Packing returns the source of the same objects, packed by p. A known object is given back
// where the source is a Reuser and takes it back. What cannot be packed ends a list or a
// watch with the error of p.
func Packing[T object.Object](from ListerWatcher[T], p *wire.Packer[T]) Namespacer[*wire.Packed[T]] {
	return &packing[T]{from: from, by: p}
}

type packing[T object.Object] struct {
	from  ListerWatcher[T]
	by    *wire.Packer[T]
	known wire.Known[*wire.Packed[T]] // nil where every object is new
}

// String names the source.
func (p *packing[T]) String() string { return NameOf(p.from) }

// lend returns the source for one request, and what is lent to it meanwhile.
func (p *packing[T]) lend() (ListerWatcher[T], *lent[T]) {
	out := &lent[T]{known: p.known}
	if reuser, ok := p.from.(Reuser[T]); ok && p.known != nil {
		if again := reuser.Reusing(out.lend); again != nil {
			return again, out
		}
	}
	return p.from, out
}

// List lists the source and packs each item.
func (p *packing[T]) List(ctx context.Context, opts metav1.ListOptions) List[*wire.Packed[T]] {
	from, lent := p.lend()
	list := from.List(ctx, opts)
	return List[*wire.Packed[T]]{Meta: list.Meta, Items: func(yield func(*wire.Packed[T], error) bool) {
		for item, err := range list.Items {
			var packed *wire.Packed[T]
			if err == nil {
				packed, err = p.pack(lent, item)
			}
			if !yield(packed, err) || err != nil {
				return
			}
		}
	}}
}

// Watch watches the source and packs the object of each change.
func (p *packing[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[*wire.Packed[T]], error], error) {
	from, lent := p.lend()
	events, err := from.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[*wire.Packed[T]], error) bool) {
		for e, err := range events {
			packed := wire.Event[*wire.Packed[T]]{Type: e.Type, Bytes: e.Bytes, Received: e.Received, Decoded: e.Decoded}
			if err == nil {
				packed.Object, err = p.pack(lent, e.Object)
			}
			if !yield(packed, err) || err != nil {
				return
			}
			if e.Type != watch.Added { // the initial events, of which alone some may be known, are over
				lent.clear()
			}
		}
	}, nil
}

func (p *packing[T]) pack(out *lent[T], o T) (*wire.Packed[T], error) {
	var none T
	if any(o) == any(none) {
		return nil, nil
	}
	if have, ok := out.back(o); ok {
		return have, nil
	}
	return p.by.Pack(o)
}

// lent are the bare objects that a source was given in the place of known ones, which it
// may give back.
type lent[T object.Object] struct {
	known wire.Known[*wire.Packed[T]]

	mu  sync.Mutex // guards out; nothing is called while it is held
	out map[any]*wire.Packed[T]
}

func (l *lent[T]) lend(key object.Key) (bare T, ok bool) {
	have, ok := l.known(key)
	if !ok {
		return bare, false
	}
	bare = have.Bare()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		l.out = make(map[any]*wire.Packed[T])
	}
	l.out[bare] = have
	return bare, true
}

// back returns what o stands for, if it was lent, and ends that loan.
func (l *lent[T]) back(o T) (*wire.Packed[T], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, ok := l.out[o]
	delete(l.out, o)
	return have, ok
}

func (l *lent[T]) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.out)
}

// Reusing implements Reuser.
func (p *packing[T]) Reusing(known wire.Known[*wire.Packed[T]]) ListerWatcher[*wire.Packed[T]] {
	reusing := *p
	reusing.known = known
	return &reusing
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
