package clientgo

import (
	"context"
	"iter"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// numbering gives resource versions to the objects of a source that does not:
// fake clientsets store objects as they were given to them, and handmade
// sources of tests leave versions out. It begins with the first object without
// a usable version, or at once where it is known that the versions mean
// nothing; from then on everything is numbered in the order in which it comes.
// To an API server's objects it does nothing.
//
// It belongs to the reflector's goroutine.
type numbering struct {
	source.ListerWatcher

	fake bool              // the versions of objects mean nothing
	on   bool              // numbering has begun
	last uint64            // the last number, or the last version before numbering began
	own  map[string]string // the source's own version of each number from which a watch may go on
}

// numbered is an object with a version that it does not have. Only the
// informer's inside sees it; bare takes it off.
type numbered struct {
	object.Object
	version string
}

// GetResourceVersion returns the number.
func (n *numbered) GetResourceVersion() string { return n.version }

// Inside is for a mutation detector, which tells of the object as users know it.
func (n *numbered) Inside() object.Object { return n.Object }

// DeepCopyObject keeps the number.
func (n *numbered) DeepCopyObject() runtime.Object {
	return &numbered{n.Object.DeepCopyObject().(object.Object), n.version}
}

// bare returns o as its source gave it.
func bare(o object.Object) object.Object {
	if n, ok := o.(*numbered); ok {
		return n.Object
	}
	return o
}

// Describe implements source.ListerWatcher.
func (n *numbering) Describe() source.Description { return n.ListerWatcher.Describe().Plain() }

// see looks at a version of the source's, and begins to number where it is of
// no use.
func (n *numbering) see(version string) {
	v, err := strconv.ParseUint(version, 10, 64)
	if n.on = n.on || n.fake || err != nil || v == 0; !n.on {
		n.last = max(n.last, v)
	}
}

func (n *numbering) next() string {
	n.last++
	return strconv.FormatUint(n.last, 10)
}

// number gives o a version, if need be.
func (n *numbering) number(o object.Head) object.Head {
	n.see(o.GetResourceVersion())
	if !n.on {
		return o
	}
	return &numbered{o.(object.Object), n.next()}
}

// List implements source.ListerWatcher.
func (n *numbering) List(ctx context.Context, opts source.Request) source.List[object.Head] {
	list := n.ListerWatcher.List(ctx, opts)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if err == nil {
				item = n.number(item)
			}
			if !yield(item, err) || err != nil {
				if n.on && list.Meta.ResourceVersion != "" { // who looked at the first page knows it
					n.numberList(list.Meta)
				}
				return
			}
		}
		n.numberList(list.Meta)
	}
	return list
}

// numberList gives a list a version, if need be.
func (n *numbering) numberList(list *metav1.ListMeta) {
	own := list.ResourceVersion
	if n.see(own); n.on {
		list.ResourceVersion = n.next()
		n.remember(list.ResourceVersion, own)
	}
}

// remember notes the source's own version of a number.
func (n *numbering) remember(number, own string) {
	if n.own == nil {
		n.own = make(map[string]string)
	}
	n.own[number] = own
}

// Watch implements source.ListerWatcher. It goes on from the version that it is asked for, and
// not from the last that was seen: a list that was only looked at was not taken. All other
// versions are forgotten, since nobody goes back to them.
func (n *numbering) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if own, ok := n.own[opts.ResourceVersion]; ok {
		clear(n.own)
		n.remember(opts.ResourceVersion, own)
		opts.ResourceVersion = own
	}
	events, err := n.ListerWatcher.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		own, before := opts.ResourceVersion, ""
		for e, err := range events {
			if err == nil {
				if version := e.Object.GetResourceVersion(); version != "" && !n.fake {
					own = version
				}
				if e.Object = n.number(e.Object); n.on {
					n.remember(e.Object.GetResourceVersion(), own)
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
			if n.on { // it was taken, and what came before it is past
				delete(n.own, before)
				before = e.Object.GetResourceVersion()
			}
		}
	}, nil
}
