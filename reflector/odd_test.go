package reflector

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// runOn is play for any source, for four minutes.
func runOn(t *testing.T, from source.ListerWatcher, opts Options) (r *Reflector, d []deltafifo.Delta) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		queue := new(taken)
		r = New(from, queue, opts)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(4 * time.Minute)
		cancel()
		require.NoError(t, <-ended)
		d = queue.deltas
	})
	return r, d
}

func nothingIsKnown(object.Key) (object.Head, bool) { return nil, false }

func not(name string) func(object.Head) bool {
	return func(h object.Head) bool { return h.GetName() != name }
}

// "Choosing returns the same source without the objects that wanted refuses": what a source
// lacks already stays away, whatever is left out besides.
func TestChoosingTwiceLeavesOutWhatEitherRefuses(t *testing.T) {
	names := func(t *testing.T, from source.ListerWatcher) (names []string) {
		for item, err := range source.Choosing(source.Choosing(from, not("a")), not("b")).List(t.Context(), metav1.ListOptions{}).Items {
			require.NoError(t, err)
			names = append(names, item.GetName())
		}
		return names
	}
	plain := func() source.ListerWatcher {
		return &script{lists: []answer{{items: []object.Head{obj("a", 1), obj("b", 2), obj("c", 3)}, rv: "5"}}}
	}
	t.Run("plain", func(t *testing.T) { require.Equal(t, []string{"c"}, names(t, plain())) })
	t.Run("transformed", func(t *testing.T) {
		require.Equal(t, []string{"c"}, names(t, Transformed(plain(), func(o partial) (partial, error) { return o, nil })))
	})
	t.Run("packing", func(t *testing.T) {
		var names []string
		packed := source.Packing(plain(), wire.NewPacker(nil))
		for item, err := range source.Choosing(source.Choosing(packed, not("a")), not("b")).List(t.Context(), metav1.ListOptions{}).Items {
			require.NoError(t, err)
			names = append(names, item.GetName())
		}
		require.Equal(t, []string{"c"}, names)
	})
}

// A transform that fails blocks the watch, and after the third time a list looks past it
// (L17, L19), also where what it fails with is io.ErrUnexpectedEOF, as json.Decoder and gzip
// do that read a value in an annotation. It did not come from the network.
func TestL19_AListLooksPastATransformThatFoundAnUnexpectedEOF(t *testing.T) {
	for _, cause := range []error{fmt.Errorf("no"), fmt.Errorf("read the annotation: %w", io.ErrUnexpectedEOF)} {
		t.Run(cause.Error(), func(t *testing.T) {
			s := &script{lists: []answer{{rv: "5"}, {items: []object.Head{obj("bad", 7)}, rv: "7"}}} // mended meanwhile
			for range 20 {
				s.watches = append(s.watches, answer{events: []wire.Event[object.Head]{change(watch.Added, "bad", 6)}})
			}
			from := Transformed(s, func(o partial) (partial, error) {
				if o.ResourceVersion == "6" {
					return nil, cause
				}
				return o, nil
			})
			runOn(t, from, Options{Initial: List})
			require.Contains(t, strings.Join(s.asked, "\n"), `list rv="" limit=500`, "%v", s.asked)
		})
	}
}

// unwilling answers Reusing with nil, as source.Packing and an informer allow.
type unwilling struct{ *script }

func (unwilling) Reusing(wire.Known) source.ListerWatcher { return nil }

// What does not reuse decodes, and goes on.
func TestASourceThatReturnsNilFromReusing(t *testing.T) {
	t.Run("transformed", func(t *testing.T) {
		s := &script{lists: []answer{{items: []object.Head{obj("a", 3)}, rv: "7"}}}
		from := Transformed(unwilling{s}, func(o partial) (partial, error) { return o, nil }).(source.Reuser).Reusing(nothingIsKnown)
		r, d := runOn(t, from, Options{Initial: List})
		require.NotEmpty(t, d, "%v", r.Status().Failure)
	})
	t.Run("after the history went back", func(t *testing.T) {
		s := &script{
			lists:   []answer{{items: []object.Head{obj("a", 3)}, rv: "7"}, {items: []object.Head{obj("a", 3)}, rv: "5"}},
			watches: []answer{{events: []wire.Event[object.Head]{change(watch.Bookmark, "", 4)}}},
		}
		r, d := runOn(t, unwilling{s}, Options{Initial: List})
		require.Len(t, d, 2, "%v", r.Status().Failure)
	})
}

// A transform may return what it returned before, such as the small object of a key where
// nothing in it has changed. That is in the cache, and readers have it: UID and resource
// version must not be put "back" into it (L16).
func TestL16_WhatATransformReturnsAgainIsNotWrittenTo(t *testing.T) {
	small := map[string]partial{}
	s := &script{watches: []answer{{events: []wire.Event[object.Head]{change(watch.Added, "a", 1), change(watch.Modified, "a", 2)}}}}
	events, err := Transformed(s, func(o partial) (partial, error) {
		if small[o.Name] == nil {
			small[o.Name] = o
		}
		return small[o.Name], nil
	}).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var first partial
	for e, err := range events {
		require.NoError(t, err)
		if first == nil {
			first = e.Object.(partial) // it is cached now
			continue
		}
		require.Equal(t, "2", e.Object.GetResourceVersion())
		require.Equal(t, "1", first.ResourceVersion, "an object that others have was changed")
	}
}

// sharing is a source whose objects share equal parts, and says so (source.Sharer).
type sharing struct {
	*script
	pool *wire.Pool
}

func (z sharing) SharedParts() *wire.Pool { return z.pool }

// A transform owns its object, so that a source whose objects share parts is refused.
func TestW03_ASourceThatSharesIsNotTransformed(t *testing.T) {
	defer func() {
		require.Contains(t, recover(), "odd_test.go:")
	}()
	Transformed(sharing{&script{}, wire.NewPool()}, func(o partial) (partial, error) { return o, nil })
}

// A transform fails with the error of a call of its own, which says that something has
// expired. That is not the version of the watch: it resumes, and a list follows only after
// the third time (L19).
func TestL19_AnExpiryThatATransformReportsIsNotThatOfTheWatch(t *testing.T) {
	s := &script{lists: []answer{{rv: "5"}, {rv: "7"}, {rv: "7"}, {rv: "7"}, {rv: "7"}}, watches: []answer{
		{events: []wire.Event[object.Head]{change(watch.Added, "a", 6)}}, {block: true},
	}}
	failed := false
	from := Transformed(s, func(o partial) (partial, error) {
		if !failed {
			failed = true
			return nil, fmt.Errorf("look the owner up: %w", apierrors.NewResourceExpired("the continue token is too old"))
		}
		return o, nil
	})
	runOn(t, from, Options{Initial: List})
	require.Equal(t, 1, strings.Count(strings.Join(s.asked, "\n"), "list"), "%v", s.asked)
}

// selectable is a source that has its server select.
type selectable struct {
	*script
	by string
}

func (z selectable) Selecting(s source.Selection) source.ListerWatcher {
	return selectable{z.script, s.Selector}
}

// A transform, and packing, leave a selection alone that their source has already.
func TestATransformedSourceKeepsTheSelectionOfItsSource(t *testing.T) {
	selected := source.Selecting(selectable{script: &script{}}, source.Selection{Selector: "half"})
	from, _ := Transformed(selected, func(o partial) (partial, error) { return o, nil }).(*transformed).lend()
	require.Equal(t, "half", from.(selectable).by, "empty means everything")
}
