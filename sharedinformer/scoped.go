package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// scoped is the source of a feed, which learns from it whether the kind has namespaces.
type scoped struct {
	source.ListerWatcher

	namespace string // that of the feed

	// notNamespaced, if not nil, is told that the kind has no namespaces: of a feed of one namespace.
	notNamespaced func()

	// namespaced, if not nil, is told that the kind has namespaces after all, and says whether its objects
	// are wanted nevertheless: of a feed of everything, made where it had none.
	namespaced func() (wanted bool)
}

// errNamespaced: a kind that had no namespaces came back with them, as a custom
// resource may whose definition was made anew.
var errNamespaced = errors.New("the kind has namespaces now: only those that are wanted are read from here on")

// List lists the source.
func (s *scoped) List(ctx context.Context, req source.Request) source.List[object.Head] {
	list := s.ListerWatcher.List(ctx, req)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if err != nil {
				s.learn(err)
			} else if !source.IsNil(item) {
				err = s.unfit(item.GetNamespace())
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// Watch watches the source.
func (s *scoped) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := s.ListerWatcher.Watch(ctx, req)
	if err != nil {
		s.learn(err)
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err != nil {
				s.learn(err)
			} else if e.Type != watch.Bookmark && (e.Passed != nil || !source.IsNil(e.Object)) {
				err = s.unfit(e.Namespace())
			}
			if !yield(e, err) {
				return
			}
		}
	}, nil
}

func (s *scoped) learn(err error) {
	if s.notNamespaced != nil && errors.Is(err, source.ErrNotNamespaced) {
		s.notNamespaced()
	}
}

// unfit returns why an object of a namespace does not belong in the feed; nil if it does. No list of the feed would
// show that such an object is gone.
func (s *scoped) unfit(namespace string) error {
	switch {
	case s.namespace != metav1.NamespaceAll && namespace != s.namespace:
		return fmt.Errorf("an object of namespace %q in an answer about namespace %q: fix the server", namespace, s.namespace)
	case s.namespaced != nil && namespace != "" && !s.namespaced():
		return errNamespaced
	}
	return nil
}
