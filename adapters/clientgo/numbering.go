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

// numbering assigns resource versions to objects from a source that has no usable ones: fake clientsets store
// objects as given, and handwritten sources in tests omit versions. It starts at the first object without a
// usable version, or immediately if the versions are known to be meaningless. From then on it numbers
// everything in order of arrival. It does not change objects from an API server.
//
// Only the reflector's goroutine uses it.
type numbering struct {
	source.ListerWatcher

	fake bool              // the objects' versions are meaningless
	on   bool              // numbering has started
	last uint64            // the last number, or the last version before numbering started
	own  map[string]string // maps each number that a watch may resume from to the corresponding version at the source
}

// numbered is an object with an assigned version. It is visible only to the informer; bare unwraps it.
type numbered struct {
	object.Object
	version string
}

// GetResourceVersion returns the number.
func (n *numbered) GetResourceVersion() string { return n.version }

// Inside returns the object that users see, for the mutation detector.
func (n *numbered) Inside() object.Object { return n.Object }

// DeepCopyObject keeps the number.
func (n *numbered) DeepCopyObject() runtime.Object {
	return &numbered{n.Object.DeepCopyObject().(object.Object), n.version}
}

// bare returns o as its source returned it.
func bare(o object.Object) object.Object {
	if n, ok := o.(*numbered); ok {
		return n.Object
	}
	return o
}

// Describe implements source.ListerWatcher.
func (n *numbering) Describe() source.Description { return n.ListerWatcher.Describe().Plain() }

// see checks a version from the source, and starts numbering if it is unusable.
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

// number assigns o a version if numbering has started.
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
				if n.on && list.Meta.ResourceVersion != "" { // the consumer has already received the first page's version
					n.numberList(list.Meta)
				}
				return
			}
		}
		n.numberList(list.Meta)
	}
	return list
}

// numberList assigns a list a version if numbering has started.
func (n *numbering) numberList(list *metav1.ListMeta) {
	own := list.ResourceVersion
	if n.see(own); n.on {
		list.ResourceVersion = n.next()
		n.remember(list.ResourceVersion, own)
	}
}

// remember records the source's version for a number.
func (n *numbering) remember(number, own string) {
	if n.own == nil {
		n.own = make(map[string]string)
	}
	n.own[number] = own
}

// Watch implements source.ListerWatcher. It resumes at the requested version rather than the last one
// seen, because the reflector may have read a list and discarded it. It forgets all other versions,
// since no watch will resume from them.
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
			if n.on { // the event was consumed, so earlier versions are no longer needed
				delete(n.own, before)
				before = e.Object.GetResourceVersion()
			}
		}
	}, nil
}
