package sharedinformer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// alwaysPacked is a source that packs though nobody asks for that.
type alwaysPacked struct{ listing[*corev1.Pod] }

func (a alwaysPacked) List(ctx context.Context, req source.Request) source.List[object.Head] {
	req.Packer = wire.NewPacker(nil)
	return source.Complete(a.listing).List(ctx, req)
}

// A source of packed objects is refused by an informer of whole ones.
func TestASourceOfPackedObjectsForAWholeInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := New[*corev1.Pod](alwaysPacked{listing[*corev1.Pod]{podOf(0, 5)}}, Options{Initial: reflector.List})
		nils := 0
		i.AddHandler(HandlerFunc[*corev1.Pod](func(_ context.Context, e Event[*corev1.Pod]) error {
			if e.Object == nil {
				nils++
			}
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.ErrorContains(t, i.Status().Reflector.Failure, "the source yields a *wire.Packed, want a *v1.Pod")
		cancel()
		require.NoError(t, wait())
		require.NotPanics(t, func() {
			for range i.Cache().All() {
			}
		})
		require.Zero(t, nils)
	})
}

// noPacking is a source that says that it packs, and does not.
type noPacking struct{ listing[*corev1.Pod] }

func (noPacking) Describe() source.Description { return source.Description{Packs: true} }

func TestASourceThatDoesNotPack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := New[*corev1.Pod](noPacking{listing[*corev1.Pod]{podOf(0, 5)}}, Options{Initial: reflector.List, Store: Packed})
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.ErrorContains(t, i.Status().Reflector.Failure, "the source yields a *v1.Pod, want a *wire.Packed")
		cancel()
		require.NoError(t, wait(), "the informer is broken for good, where a failure of the source would do")
	})
}

// kinded is a source that is asked for its kind.
type kinded struct {
	stubborn
	kind func() object.GVK
}

func (k kinded) Describe() source.Description { return source.Description{Kind: k.kind()} }

// Whoever looks at an informer must not be hit by its source, which is asked for the kind once.
func TestTheStatusDoesNotAskTheSourceForItsKind(t *testing.T) {
	thing := object.GVK{Version: "v1", Kind: "Thing"}
	kind := func() object.GVK { return thing }
	i := New[partial](kinded{kind: func() object.GVK { return kind() }}, Options{})
	kind = func() object.GVK { panic("sad") }
	require.Equal(t, thing, i.Status().Kind)
	i = New[partial](kinded{kind: kind}, Options{})
	require.Empty(t, i.Status().Kind)
}
