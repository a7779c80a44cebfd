package controller

import (
	"maps"

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
type Predicate[T object.Head] func(e sharedinformer.Event[T]) bool

func passes[T object.Head](predicates []Predicate[T], e sharedinformer.Event[T]) bool {
	for _, pass := range predicates {
		if !pass(e) {
			return false
		}
	}
	return true
}

// admits is passes for the predicates of a source. Where one ends the goroutine,
// otherwise is called, since the event passes then too.
func admits[T object.Head](in *Inbox, predicates []Predicate[T], e sharedinformer.Event[T], otherwise func()) (pass bool) {
	if len(predicates) == 0 {
		return true
	}
	var err error
	defer func() {
		if err != nil {
			in.Failed(err)
			pass = true
		}
	}()
	guard := failure.Guard{In: "predicate"}
	defer guard.End(&err, func(exited error) {
		in.Failed(exited)
		otherwise()
	})
	pass = passes(predicates, e)
	guard.Returned()
	return pass
}

// And passes what all pass.
func And[T object.Object](predicates ...Predicate[T]) Predicate[T] {
	return func(e sharedinformer.Event[T]) bool { return passes(predicates, e) }
}

// Or passes what at least one passes.
func Or[T object.Object](predicates ...Predicate[T]) Predicate[T] {
	return func(e sharedinformer.Event[T]) bool {
		for _, pass := range predicates {
			if pass(e) {
				return true
			}
		}
		return false
	}
}

// Not passes what p does not.
func Not[T object.Object](p Predicate[T]) Predicate[T] {
	return func(e sharedinformer.Event[T]) bool { return !p(e) }
}

// On passes events of some types.
func On[T object.Object](types ...sharedinformer.EventType) Predicate[T] {
	return func(e sharedinformer.Event[T]) bool {
		for _, t := range types {
			if e.Type == t {
				return true
			}
		}
		return false
	}
}

// Selected passes objects for which selected is true. An update passes if it is
// true before or after, so that an object is seen to leave.
func Selected[T object.Object](selected func(T) bool) Predicate[T] {
	return func(e sharedinformer.Event[T]) bool {
		return selected(e.Object) || e.Type == sharedinformer.Update && selected(e.Old)
	}
}

// Labelled passes objects whose labels match, as Selected does. To watch no
// others at all, give the informer a scope with the selector.
func Labelled[T object.Object](selector labels.Selector) Predicate[T] {
	return Selected(func(o T) bool { return selector.Matches(labels.Set(o.GetLabels())) })
}

// GenerationChanged drops updates that leave metadata.generation as it is, which
// for kinds that count it means that the spec is the same, and resyncs. Adds and
// deletions pass. Note that a change of metadata alone is dropped, a deletion
// timestamp is not: the server counts it. So a reconcile that adds a finalizer must go
// on: the update does not lead to another one.
func GenerationChanged[T object.Object]() Predicate[T] {
	return Changed(func(o T) int64 { return o.GetGeneration() })
}

// VersionChanged drops resyncs, and nothing else.
func VersionChanged[T object.Object]() Predicate[T] {
	return func(e sharedinformer.Event[T]) bool { return e.Type != sharedinformer.Resync }
}

// LabelsChanged drops updates that leave the labels as they are, and resyncs.
func LabelsChanged[T object.Object]() Predicate[T] {
	return updates(func(before, after T) bool { return !maps.Equal(before.GetLabels(), after.GetLabels()) })
}

// AnnotationsChanged drops updates that leave the annotations as they are, and
// resyncs.
func AnnotationsChanged[T object.Object]() Predicate[T] {
	return updates(func(before, after T) bool { return !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) })
}

// Changed drops updates that leave a part of the object as it is, and resyncs.
// The part may be a field, a struct of several, or a hash of them; parts are
// compared as Kubernetes compares objects: an empty list equals none.
func Changed[T object.Object, V any](part func(T) V) Predicate[T] {
	return updates(func(before, after T) bool { return !equality.Semantic.DeepEqual(part(before), part(after)) })
}

// updates passes the updates for which changed is true, no resync, and all else.
func updates[T object.Object](changed func(before, after T) bool) Predicate[T] {
	return func(e sharedinformer.Event[T]) bool {
		switch e.Type {
		case sharedinformer.Update:
			return changed(e.Old, e.Object)
		case sharedinformer.Resync:
			return false
		}
		return true
	}
}
