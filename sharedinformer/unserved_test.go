package sharedinformer

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// fickle is a source whose watches start well, and learn a moment later that the kind is not
// served.
type fickle struct{ asked *atomic.Int64 }

func (fickle) Describe() source.Description { return source.Description{Narrows: true} }

func (s fickle) List(context.Context, source.Request) source.List[object.Head] {
	s.asked.Add(1)
	time.Sleep(10 * time.Millisecond)
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "5"}, Items: func(yield func(object.Head, error) bool) {}}
}

func (s fickle) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	s.asked.Add(1)
	time.Sleep(10 * time.Millisecond)
	return func(yield func(wire.Event[object.Head], error) bool) {
		time.Sleep(5 * time.Millisecond)
		yield(wire.Event[object.Head]{}, apierrors.NewNotFound(schema.GroupResource{}, ""))
	}, nil
}

// A feed that finds its kind served ends the back-off of a feed that has not. If each of them loses the
// kind before the other finds it, this must not continue without a back-off.
func TestL19_FeedsDiscoverTheirKindInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := fickle{asked: new(atomic.Int64)}
		i := New[partial](from, Options{Initial: reflector.List, Namespaces: []string{"bank", "shop"}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Less(t, from.asked.Load(), int64(200), "two feeds with a back-off; without one there were 60,000")
		cancel()
		require.NoError(t, <-ended)
	})
}
