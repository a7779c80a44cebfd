package sharedinformer

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// A source of packed objects is refused by an informer of whole ones.
func TestASourceOfPackedObjectsForAWholeInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := source.Packing(listing[*corev1.Pod]{podOf(0, 5)}, wire.NewPacker(nil))
		i := New[*corev1.Pod](from, Options{Initial: reflector.List})
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

// noPacking is a source.Packer that does not pack.
type noPacking struct{ listing[*corev1.Pod] }

func (p noPacking) Packing(*wire.Packer) source.Namespacer { return p }

func (p noPacking) In(string) (source.ListerWatcher, error) { return p, nil }

func (p noPacking) Watch(ctx context.Context, o metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	return p.listing.Watch(ctx, o)
}

func TestAPackerThatDoesNotPack(t *testing.T) {
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
