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

// scopeChecker is the source of a feed. It reports when a kind loses or gains namespaces.
type scopeChecker struct {
	source.ListerWatcher

	namespace string // that of the feed

	// onClusterScoped, if not nil, is called if the kind has no namespaces: in a feed of one namespace.
	onClusterScoped func()

	// onNamespaced, if not nil, is called if the kind has namespaces after all, and reports whether its objects
	// are wanted nevertheless: in a feed of everything, made when the kind had none.
	onNamespaced func() (wanted bool)
}

// errNamespaced: a kind that had no namespaces came back with them, as a custom
// resource may whose definition was made anew.
var errNamespaced = errors.New("the kind has namespaces now: only those that are wanted are read from here on")

// List lists the source.
func (s *scopeChecker) List(ctx context.Context, req source.Request) source.List[object.Head] {
	list := s.ListerWatcher.List(ctx, req)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if err != nil {
				s.noteError(err)
			} else if !source.IsNil(item) {
				err = s.check(item.GetNamespace())
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// Watch watches the source.
func (s *scopeChecker) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := s.ListerWatcher.Watch(ctx, req)
	if err != nil {
		s.noteError(err)
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err != nil {
				s.noteError(err)
			} else if e.Type != watch.Bookmark && (e.Passed != nil || !source.IsNil(e.Object)) {
				err = s.check(e.Namespace())
			}
			if !yield(e, err) {
				return
			}
		}
	}, nil
}

func (s *scopeChecker) noteError(err error) {
	if s.onClusterScoped != nil && errors.Is(err, source.ErrNotNamespaced) {
		s.onClusterScoped()
	}
}

// check returns why an object of a namespace does not belong in the feed; nil if it does. No list of the feed would
// show that such an object is gone.
func (s *scopeChecker) check(namespace string) error {
	switch {
	case s.namespace != metav1.NamespaceAll && namespace != s.namespace:
		return fmt.Errorf("an object of namespace %q in an answer about namespace %q: fix the server", namespace, s.namespace)
	case s.onNamespaced != nil && namespace != "" && !s.onNamespaced():
		return errNamespaced
	}
	return nil
}
