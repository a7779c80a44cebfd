package source

import (
	"context"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Chooser is a ListerWatcher that can leave out objects before it makes them.
type Chooser interface {
	ListerWatcher

	// Choosing returns the same source without the objects that wanted refuses, and without
	// those that it has left out before (see Both): its lists lack them, and in a watch
	// their events have no object but its name (see wire.Event.Passed). It is asked for
	// every object of a list, and for the object of every event but a bookmark, with the
	// head of the object as the server has it, which it must not keep. It may be called
	// from several goroutines at once, must not block, and may answer differently later.
	Choosing(wanted func(object.Head) bool) ListerWatcher
}

// Choosing returns the source without the objects that wanted refuses, as Chooser says. A
// source that is no Chooser makes each object before wanted is asked.
func Choosing(from ListerWatcher, wanted func(object.Head) bool) ListerWatcher {
	if chooser, ok := from.(Chooser); ok {
		if choosing := chooser.Choosing(wanted); choosing != nil {
			return choosing
		}
	}
	return &choosing{from, wanted}
}

// Both wants what before and wanted want. Where before is nil it is wanted: a Chooser that was
// returned by Choosing leaves out more, and not other objects.
func Both(before, wanted func(object.Head) bool) func(object.Head) bool {
	if before == nil {
		return wanted
	}
	return func(o object.Head) bool { return before(o) && wanted(o) }
}

// choosing leaves out objects that have been made.
type choosing struct {
	ListerWatcher
	wanted func(object.Head) bool
}

// String names the source.
func (c *choosing) String() string { return NameOf(c.ListerWatcher) }

// Kind implements Kinded as the source does.
func (c *choosing) Kind() object.GVK { return KindOf(c.ListerWatcher) }

// List lists what is wanted of the source.
func (c *choosing) List(ctx context.Context, opts metav1.ListOptions) List[object.Head] {
	list := c.ListerWatcher.List(ctx, opts)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if err == nil && !IsNil(item) && !c.wanted(item) {
				continue
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// Watch watches the source.
func (c *choosing) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := c.ListerWatcher.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err == nil && e.Passed == nil && e.Type != watch.Bookmark && !IsNil(e.Object) && !c.wanted(e.Object) {
				passed := object.VersionOf(e.Object)
				e = wire.Event[object.Head]{Type: e.Type, Passed: &passed, Bytes: e.Bytes, Received: e.Received, Decoded: e.Decoded}
			}
			if !yield(e, err) {
				return
			}
		}
	}, nil
}
