package reflector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
)

// initialSet gathers the initial state from a watch. As a rule every event is
// the addition of another object; changes that happen meanwhile may be mixed
// in, and only then is it worth knowing where each object stands. A server may also
// send an event twice.
type initialSet struct {
	until string // of an earlier state, the version at which the set is whole; empty where a bookmark says so
	rv    string // of an earlier state, the version up to which items are complete
	count int    // of an earlier state, how many items the server has at until; negative where nobody knows

	done  bool // the set is whole; it is queued unless the history went back
	items []object.Head
	gone  int                // entries of items that were deleted or replaced
	at    map[object.Key]int // made at the first event that is no addition
}

func (s *initialSet) apply(t watch.EventType, o object.Head) {
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

// index notes where each object stands. The items of an earlier state are copied, since
// they are not the set's to change.
func (s *initialSet) index() {
	if s.at != nil {
		return
	}
	items := s.items
	if s.items = items[:0]; s.until != "" {
		s.items = make([]object.Head, 0, len(items))
	}
	s.at = make(map[object.Key]int, len(items))
	for _, item := range items {
		s.put(item)
	}
}

// put adds o, in the place of what has its key.
func (s *initialSet) put(o object.Head) {
	key := object.KeyOf(o)
	s.remove(key)
	s.at[key] = len(s.items)
	s.items = append(s.items, o)
}

func (s *initialSet) remove(key object.Key) {
	if i, ok := s.at[key]; ok {
		s.items[i] = nil
		s.gone++
		delete(s.at, key)
	}
}

// len is how many objects the set has.
func (s *initialSet) len() int { return len(s.items) - s.gone }

// take ends the set. It returns what is left, in the order of the last change of
// each, and lets go of it: the watch goes on for minutes.
func (s *initialSet) take() []object.Head {
	items := s.items
	if s.gone > 0 {
		items = make([]object.Head, 0, len(s.items)-s.gone)
		for _, item := range s.items {
			if item != nil {
				items = append(items, item)
			}
		}
	}
	*s = initialSet{done: true}
	return items
}

// endsInitial reports whether o, a bookmark's object, ends a streaming list.
func endsInitial(o object.Head) bool {
	end, _ := object.Annotation(o, metav1.InitialEventsAnnotationKey)
	return end == "true"
}
