package sharedinformer

import (
	"context"
	"errors"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// unusable stands for a source that there cannot be, and fails with the reason.
type unusable struct {
	of  source.ListerWatcher
	err error
}

// String names the source.
func (u unusable) String() string { return source.NameOf(u.of) }

// List fails.
func (u unusable) List(context.Context, metav1.ListOptions) source.List[object.Head] {
	return source.List[object.Head]{Meta: new(metav1.ListMeta), Items: func(yield func(object.Head, error) bool) {
		yield(nil, u.err)
	}}
}

// Watch fails.
func (u unusable) Watch(context.Context, metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	return nil, u.err
}

// narrowed is the source of one namespace. It tells when it learns that the kind has
// none.
type narrowed struct {
	source.ListerWatcher
	notNamespaced func()
}

// String names the source.
func (n *narrowed) String() string { return source.NameOf(n.ListerWatcher) }

// List lists the namespace.
func (n *narrowed) List(ctx context.Context, opts metav1.ListOptions) source.List[object.Head] {
	list := n.ListerWatcher.List(ctx, opts)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			n.learn(err)
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// Watch watches the namespace.
func (n *narrowed) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := n.ListerWatcher.Watch(ctx, opts)
	n.learn(err)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			n.learn(err)
			if !yield(e, err) {
				return
			}
		}
	}, nil
}

func (n *narrowed) learn(err error) {
	if errors.Is(err, source.ErrNotNamespaced) {
		n.notNamespaced()
	}
}

// errNamespaced: a kind that had no namespaces came back with them, as a custom
// resource may whose definition was made anew.
var errNamespaced = errors.New("the kind has namespaces now: only those that are wanted are read from here on")

// scoped is the source of all objects of a kind without namespaces. It tells when it
// learns that the kind has them after all, and fails unless all are wanted.
type scoped struct {
	source.ListerWatcher
	namespaced func() (wanted bool)
}

// String names the source.
func (s *scoped) String() string { return source.NameOf(s.ListerWatcher) }

// List lists all objects.
func (s *scoped) List(ctx context.Context, opts metav1.ListOptions) source.List[object.Head] {
	list := s.ListerWatcher.List(ctx, opts)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if err == nil && !source.IsNil(item) && !s.wants(item.GetNamespace()) {
				err = errNamespaced
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// Watch watches all objects.
func (s *scoped) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := s.ListerWatcher.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err == nil && !s.wants(e.Namespace()) {
				err = errNamespaced
			}
			if !yield(e, err) {
				return
			}
		}
	}, nil
}

func (s *scoped) wants(namespace string) bool { return namespace == "" || s.namespaced() }

// Reusing implements source.Reuser as the source does.
func (n *narrowed) Reusing(known wire.Known) source.ListerWatcher {
	return &narrowed{reusing(n.ListerWatcher, known), n.notNamespaced}
}

// Reusing implements source.Reuser as the source does.
func (s *scoped) Reusing(known wire.Known) source.ListerWatcher {
	return &scoped{reusing(s.ListerWatcher, known), s.namespaced}
}

// Choosing implements source.Chooser.
func (n *narrowed) Choosing(wanted func(object.Head) bool) source.ListerWatcher {
	return &narrowed{source.Choosing(n.ListerWatcher, wanted), n.notNamespaced}
}

// Choosing implements source.Chooser.
func (s *scoped) Choosing(wanted func(object.Head) bool) source.ListerWatcher {
	return &scoped{source.Choosing(s.ListerWatcher, wanted), s.namespaced}
}

// Selecting implements source.Selector as the source does.
func (n *narrowed) Selecting(s source.Selection) source.ListerWatcher {
	return &narrowed{source.Selecting(n.ListerWatcher, s), n.notNamespaced}
}

// Selecting implements source.Selector as the source does.
func (s *scoped) Selecting(by source.Selection) source.ListerWatcher {
	return &scoped{source.Selecting(s.ListerWatcher, by), s.namespaced}
}

// reusing returns the source as one that takes back known objects, if it can.
func reusing(from source.ListerWatcher, known wire.Known) source.ListerWatcher {
	if reuser, ok := from.(source.Reuser); ok {
		if again := reuser.Reusing(known); again != nil {
			return again
		}
	}
	return from
}
