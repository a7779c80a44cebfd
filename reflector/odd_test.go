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
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// runOn is like play, but for any source, and runs for four minutes.
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

func not(name string) func(object.Head) bool {
	return func(h object.Head) bool { return h.GetName() != name }
}

// An object missing from the source of a Filtered stays missing, whatever else is filtered out.
func TestFilteredTwiceAppliesBothFilters(t *testing.T) {
	names := func(t *testing.T, from source.ListerWatcher, packer *wire.Packer) (names []string) {
		for item, err := range source.Filtered(source.Filtered(from, not("a")), not("b")).List(t.Context(), source.Request{Packer: packer}).Items {
			require.NoError(t, err)
			names = append(names, item.GetName())
		}
		return names
	}
	plain := func() source.ListerWatcher {
		return &script{lists: []answer{{items: []object.Head{obj("a", 1), obj("b", 2), obj("c", 3)}, rv: "5"}}}
	}
	t.Run("plain", func(t *testing.T) { require.Equal(t, []string{"c"}, names(t, plain(), nil)) })
	t.Run("transformed", func(t *testing.T) {
		require.Equal(t, []string{"c"}, names(t, Transformed(plain(), func(o partial) (partial, error) { return o, nil }), nil))
	})
	t.Run("packing", func(t *testing.T) {
		require.Equal(t, []string{"c"}, names(t, plain(), wire.NewPacker(nil)))
	})
}

// A transform that fails blocks the watch, and after the third time a list skips the change (L17,
// L19), even if its error is io.ErrUnexpectedEOF, as from json.Decoder or gzip when they read a
// value in an annotation. That error did not come from the network.
func TestL19_ListSkipsObjectsWhoseTransformReturnsUnexpectedEOF(t *testing.T) {
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

// A transform may return an object that it returned before, such as the reduced object of a key in
// which nothing has changed. That object is in the cache and in use: UID and resource version must
// not be restored in it (L16).
func TestL16_ObjectReturnedTwiceByATransformIsNotWrittenTo(t *testing.T) {
	small := map[string]partial{}
	s := &script{watches: []answer{{events: []wire.Event[object.Head]{change(watch.Added, "a", 1), change(watch.Modified, "a", 2)}}}}
	events, err := Transformed(s, func(o partial) (partial, error) {
		if small[o.Name] == nil {
			small[o.Name] = o
		}
		return small[o.Name], nil
	}).Watch(t.Context(), source.Request{})
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

// sharing is a source that declares that its objects share equal parts.
type sharing struct {
	*script
	pool *wire.Pool
}

func (z sharing) Describe() source.Description { return source.Description{Pool: z.pool} }

// A transform owns its object, so a source whose objects share parts is rejected.
func TestW03_ASourceThatSharesIsNotTransformed(t *testing.T) {
	defer func() {
		require.Contains(t, recover(), "odd_test.go:")
	}()
	Transformed(sharing{&script{}, wire.NewPool()}, func(o partial) (partial, error) { return o, nil })
}

// The error of a request made by a transform says that a version has expired. That is not the version of
// the watch, so the watch resumes, and a list follows only after the third failure (L19).
func TestL19_ExpiredErrorOfATransformIsNotTheWatchs(t *testing.T) {
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

// A nil *wire.Packer packs nothing, as in a Request (see wire.PackerOf).
func TestANilPackerPacksNothing(t *testing.T) {
	var none *wire.Packer
	r, d := runOn(t, &script{lists: []answer{{items: []object.Head{obj("a", 3)}, rv: "7"}}}, Options{Initial: List, Packer: none})
	require.Len(t, d, 1, "%v", r.Status().Failure)
}
