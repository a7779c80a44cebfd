package reflector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// setCollector collects the initial objects sent by a watch.
type setCollector interface {
	// add adds one event. Once the set is complete, it returns the set's version.
	add(wire.Event[object.Head]) (whole string, fail *failure.Failure)
	// take returns the objects and drops its references to them, because the watch lasts for minutes.
	take() []object.Head
}

// streamedSet collects a streaming list, which ends with a bookmark. Usually every event adds another object.
// Concurrent changes may be interleaved; only then is an index of positions needed. A server may also send an
// event twice.
type streamedSet struct {
	items    []object.Head
	readOnly bool               // items must not be modified
	removed  int                // entries in items that were deleted or replaced
	at       map[object.Key]int // positions in items; built on the first event that is not an addition
}

func (s *streamedSet) add(e wire.Event[object.Head]) (whole string, fail *failure.Failure) {
	switch {
	case e.Passed != nil:
		s.pass(e)
	case e.Type == watch.Bookmark:
		if !isInitialEnd(e.Object) {
			return "", nil
		}
		if whole = e.Object.GetResourceVersion(); noRV(whole) {
			return "", &failure.Failure{Phase: failure.PhaseWatch, Err: ErrNoRV}
		}
	case e.Type == watch.Added, e.Type == watch.Modified, e.Type == watch.Deleted:
		s.apply(e.Type, e.Object)
	default:
		return "", unknownEvent(e.Type)
	}
	return whole, nil
}

// pass records that an object is not, or no longer, wanted.
func (s *streamedSet) pass(e wire.Event[object.Head]) {
	if e.Type != watch.Added {
		s.index()
	}
	if s.at != nil {
		s.remove(e.Passed.Key)
	}
}

func (s *streamedSet) apply(t watch.EventType, o object.Head) {
	if t != watch.Added {
		s.index()
	}
	if s.at == nil {
		s.items = append(s.items, o)
		return
	}
	if t == watch.Deleted {
		s.remove(object.KeyOf(o))
		return
	}
	s.put(o)
}

// index builds at.
func (s *streamedSet) index() {
	if s.at != nil {
		return
	}
	items := s.items
	if s.items = items[:0]; s.readOnly {
		s.items = make([]object.Head, 0, len(items))
	}
	s.at = make(map[object.Key]int, len(items))
	for _, item := range items {
		s.put(item)
	}
}

// put adds o, replacing any object with the same key.
func (s *streamedSet) put(o object.Head) {
	key := object.KeyOf(o)
	s.remove(key)
	s.at[key] = len(s.items)
	s.items = append(s.items, o)
}

func (s *streamedSet) remove(key object.Key) {
	if i, ok := s.at[key]; ok {
		s.items[i] = nil
		s.removed++
		delete(s.at, key)
	}
}

// len returns the number of objects.
func (s *streamedSet) len() int { return len(s.items) - s.removed }

// take returns the objects, ordered by last change.
func (s *streamedSet) take() []object.Head {
	items := s.items
	if s.removed > 0 {
		items = make([]object.Head, 0, len(s.items)-s.removed)
		for _, item := range s.items {
			if item != nil {
				items = append(items, item)
			}
		}
	}
	*s = streamedSet{}
	return items
}

// isInitialEnd reports whether o, a bookmark's object, ends a streaming list.
func isInitialEnd(o object.Head) bool {
	end, _ := object.Annotation(o, metav1.InitialEventsAnnotationKey)
	return end == "true"
}
