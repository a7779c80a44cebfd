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

// Predicate says whether an event matters. A source drops those that do not pass
// all of its predicates. It must be quick and must not change the objects. If it
// panics, or ends its goroutine, that is a failure of the source, and the event
// passes.
//
// One that is nil is a mistake: a source with one can never work, as Source.Err says.
//
// A source asks those that are a HeadPredicate first. What they drop of a packed cache is
// not opened.
type Predicate[T object.Object] interface {
	Pass(e sharedinformer.Event[T]) bool
}

// PredicateFunc is a Predicate made of a function.
type PredicateFunc[T object.Object] func(e sharedinformer.Event[T]) bool

// Pass calls p.
func (p PredicateFunc[T]) Pass(e sharedinformer.Event[T]) bool { return p(e) }

// HeadPredicate is a Predicate that needs no more than the heads of objects: for it nothing
// is opened.
type HeadPredicate[T object.Object] func(e sharedinformer.Event[object.Head]) bool

// Pass calls p.
func (p HeadPredicate[T]) Pass(e sharedinformer.Event[T]) bool { return p(e.Heads()) }

// needing is a predicate about fields of objects. In a cache that keeps none of them (factory.For.Keep)
// they never differ, so that a source with it is a mistake.
type needing[T object.Object] struct {
	Predicate[T]
	paths []string
}

// needs is the paths of the fields that predicates are about.
func needs[T object.Object](predicates []Predicate[T]) (paths []string) {
	for _, p := range predicates {
		if n, ok := p.(needing[T]); ok {
			paths = append(paths, n.paths...)
		}
	}
	return paths
}

// And passes what all pass. It panics where one is nil, as do Or and Not.
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

// Or passes what at least one passes.
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

// Not passes what p does not.
func Not[T object.Object](p Predicate[T]) Predicate[T] {
	mustBeGiven([]Predicate[T]{p})
	return joined([]Predicate[T]{p}, func(_ int, pass func(n int) bool) bool { return !pass(0) })
}

// nilAmong says which of some predicates is nil, if any is.
func nilAmong[T object.Object](predicates []Predicate[T]) error {
	for n, p := range predicates {
		v := reflect.ValueOf(p)
		if !v.IsValid() || (v.Kind() == reflect.Func || v.Kind() == reflect.Pointer) && v.IsNil() {
			return fmt.Errorf("predicate %d of %d is nil", n+1, len(predicates))
		}
	}
	return nil
}

// mustBeGiven is called by what the user calls.
func mustBeGiven[T object.Object](predicates []Predicate[T]) {
	if err := nilAmong(predicates); err != nil {
		panic(failure.Place(2) + ": " + err.Error())
	}
}

// joined is some predicates as one, which needs no more than heads if they do. Verdict is
// what it says of n predicates, of which pass asks the one of a number.
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

// bare returns predicates without the paths of their fields.
func bare[T object.Object](predicates []Predicate[T]) []Predicate[T] {
	all := slices.Clone(predicates)
	for n, p := range all {
		if p, ok := p.(needing[T]); ok {
			all[n] = p.Predicate
		}
	}
	return all
}

// sorted returns those that need no more than heads, and the others.
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

// On passes events of some types.
func On[T object.Object](types ...sharedinformer.EventType) Predicate[T] {
	return HeadPredicate[T](func(e sharedinformer.Event[object.Head]) bool { return slices.Contains(types, e.Type) })
}

// Selected passes objects for which selected is true. An update passes if it is
// true before or after, so that an object is seen to leave.
func Selected[T object.Object](selected func(T) bool) Predicate[T] {
	if selected == nil {
		panic(failure.Place(1) + ": the function of a predicate is nil")
	}
	return PredicateFunc[T](func(e sharedinformer.Event[T]) bool { return selects(selected, e) })
}

func selects[H object.Head](selected func(H) bool, e sharedinformer.Event[H]) bool {
	return selected(e.Object) || e.Type == sharedinformer.Update && selected(e.Old)
}

// Labelled passes objects whose labels match, as Selected does. To watch no
// others at all, give the informer a scope with the selector. A source with it fails if
// the cache does not keep labels.
func Labelled[T object.Object](selector labels.Selector) Predicate[T] {
	if selector == nil {
		panic(failure.Place(1) + ": the selector of a predicate is nil: labels.Everything selects all")
	}
	matches := func(o object.Head) bool { return selector.Matches(object.Labels(o)) }
	return needing[T]{HeadPredicate[T](func(e sharedinformer.Event[object.Head]) bool { return selects(matches, e) }), []string{"metadata.labels"}}
}

// GenerationChanged drops updates that leave metadata.generation as it is, which
// for kinds that count it means that the spec is the same, and resyncs. Adds and
// deletions pass, and so do updates of kinds that do not count it, such as ConfigMaps and
// Secrets, whose generation is 0. Note that a change of metadata alone is dropped, a deletion
// timestamp is not: the server counts it. So a reconcile that adds a finalizer must go
// on: the update does not lead to another one.
func GenerationChanged[T object.Object]() Predicate[T] {
	return headUpdates[T](func(before, after object.Head) bool {
		return before.GetGeneration() != after.GetGeneration() || after.GetGeneration() == 0
	})
}

// VersionChanged drops resyncs, and nothing else.
func VersionChanged[T object.Object]() Predicate[T] {
	return Not(On[T](sharedinformer.Resync))
}

// LabelsChanged drops updates that leave the labels as they are, and resyncs. A source with
// it fails if the cache does not keep labels. If a transform takes them away, it drops all
// updates.
func LabelsChanged[T object.Object]() Predicate[T] {
	return needing[T]{headUpdates[T](func(before, after object.Head) bool { return !maps.Equal(before.GetLabels(), after.GetLabels()) }), []string{"metadata.labels"}}
}

// AnnotationsChanged drops updates that leave the annotations as they are, and
// resyncs. It needs annotations as LabelsChanged needs labels.
func AnnotationsChanged[T object.Object]() Predicate[T] {
	return needing[T]{updates(func(before, after T) bool { return !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) }), []string{"metadata.annotations"}}
}

// Changed drops updates that leave a part of the object as it is, and resyncs.
// The part may be a field, a struct of several, or a hash of them; parts are
// compared as Kubernetes compares objects: an empty list equals none.
func Changed[T object.Object, V any](part func(T) V) Predicate[T] {
	if part == nil {
		panic(failure.Place(1) + ": the function of a predicate is nil")
	}
	return updates(func(before, after T) bool { return !equality.Semantic.DeepEqual(part(before), part(after)) })
}

func updates[T object.Object](changed func(before, after T) bool) Predicate[T] {
	return PredicateFunc[T](func(e sharedinformer.Event[T]) bool { return changes(changed, e) })
}

func headUpdates[T object.Object](changed func(before, after object.Head) bool) Predicate[T] {
	return HeadPredicate[T](func(e sharedinformer.Event[object.Head]) bool { return changes(changed, e) })
}

// changes passes the updates for which changed is true, no resync, and all else.
func changes[H object.Head](changed func(before, after H) bool, e sharedinformer.Event[H]) bool {
	switch e.Type {
	case sharedinformer.Update:
		return changed(e.Old, e.Object)
	case sharedinformer.Resync:
		return false
	}
	return true
}
