package scenario

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/internal/objects"
)

// feedRV is the resource version of a Feed's list. The first event has the version after it.
const feedRV = 1_000_000_000

// Feed is the source in scenarios without a server: in-memory objects, and events that start on request. How
// the events get into the informer is up to each contestant.
type Feed[T metav1.Object] struct {
	Items []T

	// Until is the resource version of the last event.
	Until uint64

	gate   chan struct{}
	events func(ctx context.Context) iter.Seq[T]
}

// ListRV returns the resource version of Items.
func (f *Feed[T]) ListRV() string { return strconv.Itoa(feedRV) }

// Go starts sending events. It must be called only once.
func (f *Feed[T]) Go() { close(f.gate) }

// Events yields the modified objects from the moment Go is called, until there are no more or ctx is done. It
// may be ranged over only once, by a single watch.
func (f *Feed[T]) Events(ctx context.Context) iter.Seq[T] {
	return func(yield func(T) bool) {
		select {
		case <-f.gate:
		case <-ctx.Done():
			return
		}
		f.events(ctx)(yield)
	}
}

// NewFeed returns a feed of realistic pods. All events are created in advance, so feeding them costs almost
// nothing. Each event's pod shares everything except the resource version with the previous one.
func NewFeed(s *protocol.Session) *Feed[*corev1.Pod] {
	f := &Feed[*corev1.Pod]{gate: make(chan struct{})}
	for i := range s.Objects {
		p := objects.Pod(s.Seed, i, objects.Options{Hostile: s.Params.On(Hostile)})
		p.ResourceVersion = strconv.Itoa(feedRV - s.Objects + i)
		f.Items = append(f.Items, p)
	}
	events := make([]*corev1.Pod, s.Params[Events])
	for i := range events {
		p := *f.Items[i%s.Objects]
		p.ResourceVersion = strconv.Itoa(feedRV + 1 + i)
		events[i] = &p
	}
	f.Until = feedRV + uint64(len(events))
	f.events = func(context.Context) iter.Seq[*corev1.Pod] { return slices.Values(events) }
	return f
}

// Paced limits the rate of f's events and calls note when each is sent.
func (f *Feed[T]) Paced(perSecond int, note func(i int)) {
	all := f.events
	f.events = func(ctx context.Context) iter.Seq[T] {
		return func(yield func(T) bool) {
			began, i := time.Now(), 0
			for o := range all(ctx) {
				due := began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
				if wait := time.Until(due); wait > 0 {
					select {
					case <-time.After(wait):
					case <-ctx.Done():
						return
					}
				}
				note(i)
				i++
				if !yield(o) {
					return
				}
			}
		}
	}
}

// EventIndex returns the zero-based index of o's event, or a negative number if o is from the list.
func EventIndex(o metav1.Object) int {
	rv, err := strconv.Atoi(o.GetResourceVersion())
	if err != nil {
		return -1
	}
	return rv - feedRV - 1
}

// NewSmallFeed returns a feed of metadata-only objects. It creates Params.Events events on demand, or an
// unlimited number if that is 0.
func NewSmallFeed(s *protocol.Session) *Feed[*metav1.PartialObjectMetadata] {
	f := &Feed[*metav1.PartialObjectMetadata]{gate: make(chan struct{})}
	for i := range s.Objects {
		p := objects.Pod(s.Seed, i, objects.Options{})
		o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		o.Name, o.Namespace, o.UID = p.Name, p.Namespace, p.UID
		o.ResourceVersion = strconv.Itoa(feedRV - s.Objects + i)
		f.Items = append(f.Items, o)
	}
	count := s.Params[Events]
	f.Until = feedRV + uint64(count)
	f.events = func(ctx context.Context) iter.Seq[*metav1.PartialObjectMetadata] {
		return func(yield func(*metav1.PartialObjectMetadata) bool) {
			for i := 0; count == 0 || i < count; i++ {
				o := *f.Items[i%len(f.Items)]
				o.ResourceVersion = strconv.Itoa(feedRV + 1 + i)
				if ctx.Err() != nil || !yield(&o) {
					return
				}
			}
		}
	}
	return f
}

// Namespaces returns the distinct namespaces of the items.
func (f *Feed[T]) Namespaces() []string {
	var all []string
	for _, o := range f.Items {
		all = append(all, o.GetNamespace())
	}
	slices.Sort(all)
	return slices.Compact(all)
}
