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

// alwaysPacked is a source that packs objects without being asked.
type alwaysPacked struct{ listing[*corev1.Pod] }

func (a alwaysPacked) List(ctx context.Context, req source.Request) source.List[object.Head] {
	req.Packer = wire.NewPacker(nil)
	return source.Complete(a.listing).List(ctx, req)
}

// An informer of whole objects rejects a source of packed ones.
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

// noPacking is a source that claims to pack, but does not.
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

// kinded is a source whose kind comes from a function.
type kinded struct {
	stubborn
	kind func() object.GVK
}

func (k kinded) Describe() source.Description { return source.Description{Kind: k.kind()} }

// Status must not depend on the source, which is asked for its kind once.
func TestTheStatusDoesNotAskTheSourceForItsKind(t *testing.T) {
	thing := object.GVK{Version: "v1", Kind: "Thing"}
	kind := func() object.GVK { return thing }
	i := New[partial](kinded{kind: func() object.GVK { return kind() }}, Options{})
	kind = func() object.GVK { panic("sad") }
	require.Equal(t, thing, i.Status().Kind)
	i = New[partial](kinded{kind: kind}, Options{})
	require.Empty(t, i.Status().Kind)
}
