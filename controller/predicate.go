package controller

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A Predicate reports whether an event matters. A source drops events that do not pass all of its
// predicates. Predicates must be fast and must not modify the objects. If one panics or calls
// runtime.Goexit, the failure is attributed to the source, and the event passes.
//
// A source with a nil predicate is unusable, and its Source.Err returns an error.
//
// A source evaluates each [HeadPredicate] first. If one of them drops an event, its objects are not decoded
// from a packed cache.
type Predicate[T object.Object] interface {
	Pass(e sharedinformer.Event[T]) bool
}

// PredicateFunc is an adapter to allow the use of ordinary functions as a [Predicate].
type PredicateFunc[T object.Object] func(e sharedinformer.Event[T]) bool

// Pass calls p.
func (p PredicateFunc[T]) Pass(e sharedinformer.Event[T]) bool { return p(e) }

// HeadPredicate is a [Predicate] that needs only the heads of objects, so the objects need not be
// decoded.
type HeadPredicate[T object.Object] func(e sharedinformer.Event[object.Head]) bool

// Pass calls p.
func (p HeadPredicate[T]) Pass(e sharedinformer.Event[T]) bool { return p(e.Heads()) }

// needing is a predicate that compares certain fields. If a cache keeps none of them (factory.For.Keep),
// the predicate never detects a change, so using it is a mistake.
type needing[T object.Object] struct {
	Predicate[T]
	paths []string
}

// needs returns the paths of the fields that the predicates compare.
func needs[T object.Object](predicates []Predicate[T]) (paths []string) {
	for _, p := range predicates {
		if n, ok := p.(needing[T]); ok {
			paths = append(paths, n.paths...)
		}
	}
	return paths
}

// And returns a predicate that passes events that pass all of the given ones. And, [Or] and [Not] panic if
// a predicate is nil.
func And[T object.Object](predicates ...Predicate[T]) Predicate[T] {
	mustBeGiven(predicates)
	return joined(predicates, func(n int, pass func(n int) bool) bool {
		for i := range n {
			if !pass(i) {
				return false
			}
		}
		return true
	})
}

// Or returns a predicate that passes events that pass at least one of the given ones.
func Or[T object.Object](predicates ...Predicate[T]) Predicate[T] {
	mustBeGiven(predicates)
	return joined(predicates, func(n int, pass func(n int) bool) bool {
		for i := range n {
			if pass(i) {
				return true
			}
		}
		return false
	})
}

// Not returns a predicate that passes events that do not pass p.
func Not[T object.Object](p Predicate[T]) Predicate[T] {
	mustBeGiven([]Predicate[T]{p})
	return joined([]Predicate[T]{p}, func(_ int, pass func(n int) bool) bool { return !pass(0) })
}

// nilAmong returns an error that identifies the first nil predicate, if any.
func nilAmong[T object.Object](predicates []Predicate[T]) error {
	for n, p := range predicates {
		v := reflect.ValueOf(p)
		if !v.IsValid() || (v.Kind() == reflect.Func || v.Kind() == reflect.Pointer) && v.IsNil() {
			return fmt.Errorf("predicate %d of %d is nil", n+1, len(predicates))
		}
	}
	return nil
}

// mustBeGiven panics if a predicate is nil. Exported functions must call it directly.
func mustBeGiven[T object.Object](predicates []Predicate[T]) {
	if err := nilAmong(predicates); err != nil {
		panic(failure.Place(2) + ": " + err.Error())
	}
}

// joined combines predicates into one, which is a head predicate if all of them are. verdict returns the
// result; it calls pass for as many of the n predicates as it needs.
func joined[T object.Object](predicates []Predicate[T], verdict func(n int, pass func(n int) bool) bool) Predicate[T] {
	if paths := needs(predicates); len(paths) > 0 {
		return needing[T]{joined(bare(predicates), verdict), paths}
	}
	if heads, rest := sorted(predicates); len(rest) == 0 {
		return HeadPredicate[T](func(e sharedinformer.Event[object.Head]) bool {
			return verdict(len(heads), func(n int) bool { return heads[n](e) })
		})
	}
	return PredicateFunc[T](func(e sharedinformer.Event[T]) bool {
		return verdict(len(predicates), func(n int) bool { return predicates[n].Pass(e) })
	})
}

// bare returns the predicates without the field paths attached by needing.
func bare[T object.Object](predicates []Predicate[T]) []Predicate[T] {
	all := slices.Clone(predicates)
	for n, p := range all {
		if p, ok := p.(needing[T]); ok {
			all[n] = p.Predicate
		}
	}
	return all
}

// sorted separates predicates that need only heads from the rest.
func sorted[T object.Object](predicates []Predicate[T]) (heads []HeadPredicate[T], rest []Predicate[T]) {
	for _, p := range predicates {
		if head, ok := p.(HeadPredicate[T]); ok {
			heads = append(heads, head)
		} else {
			rest = append(rest, p)
		}
	}
	return heads, rest
}

// On passes events of the given types.
func On[T object.Object](types ...sharedinformer.EventType) Predicate[T] {
	return HeadPredicate[T](func(e sharedinformer.Event[object.Head]) bool { return slices.Contains(types, e.Type) })
}

// Selected passes objects for which selected returns true. An update passes if selected is true for the
// old or the new object, so the controller also notices when an object is no longer selected.
func Selected[T object.Object](selected func(T) bool) Predicate[T] {
	if selected == nil {
		panic(failure.Place(1) + ": the predicate's function is nil")
	}
	return PredicateFunc[T](func(e sharedinformer.Event[T]) bool { return selects(selected, e) })
}

func selects[H object.Head](selected func(H) bool, e sharedinformer.Event[H]) bool {
	return selected(e.Object) || e.Type == sharedinformer.Update && selected(e.Old)
}

// Labelled passes objects whose labels match the selector, in the same way as [Selected]. To avoid
// watching other objects at all, put the selector in the informer's scope. The source fails if the cache
// does not keep labels.
func Labelled[T object.Object](selector labels.Selector) Predicate[T] {
	if selector == nil {
		panic(failure.Place(1) + ": the predicate's selector is nil: labels.Everything selects all")
	}
	matches := func(o object.Head) bool { return selector.Matches(object.Labels(o)) }
	return needing[T]{HeadPredicate[T](func(e sharedinformer.Event[object.Head]) bool { return selects(matches, e) }), []string{"metadata.labels"}}
}

// GenerationChanged drops resyncs, and updates that do not change metadata.generation, which usually
// means that the spec is unchanged. Adds and deletions pass, as do updates of kinds that do not use
// generations, such as ConfigMaps and Secrets, whose generation is 0. Metadata-only changes are dropped,
// except when the deletion timestamp is set, which increments the generation. After adding a finalizer, a
// reconcile must therefore carry on, because that update does not trigger another one.
func GenerationChanged[T object.Object]() Predicate[T] {
	return headUpdates[T](func(before, after object.Head) bool {
		return before.GetGeneration() != after.GetGeneration() || after.GetGeneration() == 0
	})
}

// VersionChanged drops only resyncs.
func VersionChanged[T object.Object]() Predicate[T] {
	return Not(On[T](sharedinformer.Resync))
}

// LabelsChanged drops resyncs, and updates that do not change the labels. The source fails if the cache
// does not keep labels. If a transform strips them, all updates are dropped.
func LabelsChanged[T object.Object]() Predicate[T] {
	return needing[T]{headUpdates[T](func(before, after object.Head) bool { return !maps.Equal(before.GetLabels(), after.GetLabels()) }), []string{"metadata.labels"}}
}

// AnnotationsChanged drops resyncs, and updates that do not change the annotations. It requires a cache
// that keeps annotations, just as [LabelsChanged] requires labels.
func AnnotationsChanged[T object.Object]() Predicate[T] {
	return needing[T]{updates(func(before, after T) bool { return !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) }), []string{"metadata.annotations"}}
}

// Changed drops resyncs, and updates that do not change the value computed from the object: a field, a
// struct of several fields, or a hash of them. Values are compared as Kubernetes compares objects, so an
// empty list equals nil.
func Changed[T object.Object, V any](part func(T) V) Predicate[T] {
	if part == nil {
		panic(failure.Place(1) + ": the predicate's function is nil")
	}
	return updates(func(before, after T) bool { return !equality.Semantic.DeepEqual(part(before), part(after)) })
}

func updates[T object.Object](changed func(before, after T) bool) Predicate[T] {
	return PredicateFunc[T](func(e sharedinformer.Event[T]) bool { return changes(changed, e) })
}

func headUpdates[T object.Object](changed func(before, after object.Head) bool) Predicate[T] {
	return HeadPredicate[T](func(e sharedinformer.Event[object.Head]) bool { return changes(changed, e) })
}

// changes drops resyncs, and updates for which changed returns false.
func changes[H object.Head](changed func(before, after H) bool, e sharedinformer.Event[H]) bool {
	switch e.Type {
	case sharedinformer.Update:
		return changed(e.Old, e.Object)
	case sharedinformer.Resync:
		return false
	}
	return true
}
