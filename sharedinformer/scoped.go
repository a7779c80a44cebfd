package sharedinformer

import (
	"context"
	"errors"
	"iter"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// scoped is the source of a feed, which learns from it whether the kind has namespaces.
type scoped struct {
	source.ListerWatcher

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
			} else if !source.IsNil(item) && !s.wants(item.GetNamespace()) {
				err = errNamespaced
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
			} else if !s.wants(e.Namespace()) {
				err = errNamespaced
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

func (s *scoped) wants(namespace string) bool {
	return s.namespaced == nil || namespace == "" || s.namespaced()
}
