package controller

import (
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Watchable is a kind with a cache, independent of its Go type: a *Client, a *sharedinformer.Informer, or
// the result of [Where].
type Watchable interface {
	// View returns the informer, or nil if the kind bypasses the cache.
	View() sharedinformer.View
}

// Cached is a [Watchable] whose objects are of type T: a *Client or a *sharedinformer.Informer.
type Cached[T object.Object] interface {
	Watchable

	// Informer returns the informer, or nil if the kind bypasses the cache.
	Informer() *sharedinformer.Informer[T]
}

// Where attaches predicates to a kind: sources created from the result drop events that fail any of
// them. Use it with a builder's Owns method, which accepts kinds of any type:
//
//	Owns(controller.Where(deployments, controller.GenerationChanged[*appsv1.Deployment]()))
//
// If a predicate is nil or the kind bypasses the cache, the source's [Source.Err] returns an error.
func Where[T object.Object](of Cached[T], predicates ...Predicate[T]) Watchable {
	return &filtered{of, func() *watched { return watchedBy(of, predicates) }}
}

// filtered is the result of [Where].
type filtered struct {
	of      Watchable
	watched func() *watched
}

// View implements Watchable.
func (f *filtered) View() sharedinformer.View {
	if absent(f.of) {
		return nil
	}
	return f.of.View()
}

// Shard narrows the cache, as [Client.Shard] does.
func (f *filtered) Shard(scope shard.Scope) error {
	if c, ok := f.of.(interface{ Shard(shard.Scope) error }); ok && !absent(f.of) {
		return c.Shard(scope)
	}
	return nil
}

// watched is a kind and its predicates, from which a source can be created.
type watched struct {
	informer *sharedinformer.Informer[object.Object] // nil if the kind has no informer
	declared string                                  // the object type as declared in the program
	filter   filter
}

// watchedBy returns the watched kind for type T with the given predicates.
func watchedBy[T object.Object](of Cached[T], predicates []Predicate[T]) *watched {
	i := informerOf(of)
	return &watched{sharedinformer.Objects(i), reflect.TypeFor[T]().String(), newFilter(i, predicates)}
}

// watchedOf is like watchedBy, for a kind whose Go type is not known at compile time.
func watchedOf(k Watchable) *watched {
	if f, ok := k.(*filtered); ok && f != nil {
		return f.watched()
	}
	w := &watched{declared: fmt.Sprintf("%T", k)}
	if absent(k) {
		return w
	}
	if c, ok := k.(interface{ declaredType() string }); ok {
		w.declared = c.declaredType()
	}
	w.informer = sharedinformer.ObjectsOf(k.View())
	return w
}

// informerOf returns the kind's informer, or nil if it has none.
func informerOf[T object.Object](of Cached[T]) *sharedinformer.Informer[T] {
	if absent(of) {
		return nil
	}
	return of.Informer()
}

// Index looks up cached objects by values computed from them; see [AddIndex].
type Index[T object.Object, V comparable] = indexer.Index[T, V]

// AddIndex adds an index to the cache of a client or an informer, like sharedinformer.AddIndex:
//
//	bySecret := controller.AddIndex(sites, "secret", func(s *Site) []string { return []string{s.Spec.Secret} })
//	for site := range bySecret.Get("tls") { ... } // shared, not to be changed
//
// It panics if the kind bypasses the cache or values is nil.
func AddIndex[T object.Object, V comparable](of Cached[T], name string, values func(T) []V) *Index[T, V] {
	i := informerOf(of)
	mustIndex(i == nil, values == nil, name)
	return sharedinformer.AddIndex(i, name, values)
}

// mustIndex panics if an argument is missing. The message includes the line that called the exported
// function.
func mustIndex(noInformer, noFunction bool, name string) {
	switch {
	case noInformer:
		panic(fmt.Sprintf("%s: index %q: %v", failure.Place(2), name, errUncached))
	case noFunction:
		panic(fmt.Sprintf("%s: the function of index %q is nil", failure.Place(2), name))
	}
}
