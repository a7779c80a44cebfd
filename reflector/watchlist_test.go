package reflector

import (
	"context"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// fleeting streams one initial object and keeps only a weak pointer to it.
type fleeting struct {
	sent weak.Pointer[metav1.PartialObjectMetadata]
}

func (*fleeting) List(context.Context, source.Request) source.List[object.Head] {
	panic("not asked")
}

func (*fleeting) Describe() source.Description { return source.Description{} }

func (f *fleeting) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		first := change(watch.Added, "a", 1)
		f.sent = weak.Make(first.Object.(*metav1.PartialObjectMetadata))
		if yield(first, nil) && yield(endOfInitial(2), nil) {
			first = wire.Event[object.Head]{}
			<-ctx.Done()
		}
	}, nil
}

// A streaming list continues as a watch in the same request, for minutes. By then its objects
// belong to the queue alone.
func TestStreamingListIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := new(fleeting)
		queue := deltafifo.New(deltafifo.Options{})
		r := New(source, queue, Options{Initial: WatchList})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		deltas := queue.TryPop()
		require.Len(t, deltas[0].Items, 1)
		clear(deltas)
		runtime.GC()
		require.Nil(t, source.sent.Value())
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestAnEventThatComesTwiceInAStreamingListLeavesNoGhost(t *testing.T) {
	for name, c := range map[string]struct {
		events []wire.Event[object.Head]
		want   string
	}{
		"then deleted": {[]wire.Event[object.Head]{change(watch.Added, "a", 1), change(watch.Added, "a", 1), change(watch.Added, "b", 2),
			change(watch.Deleted, "a", 5), endOfInitial(8)}, "replaced @8 b@2"},
		"then changed": {[]wire.Event[object.Head]{change(watch.Added, "a", 1), change(watch.Added, "a", 1), change(watch.Added, "b", 2),
			change(watch.Modified, "a", 5), endOfInitial(8)}, "replaced @8 b@2 a@5"},
		"after a deletion": {[]wire.Event[object.Head]{change(watch.Added, "a", 1), change(watch.Deleted, "x", 5), change(watch.Added, "a", 1),
			change(watch.Deleted, "a", 6), endOfInitial(8)}, "replaced @8"},
	} {
		t.Run(name, func(t *testing.T) {
			queued, _ := play(t, &script{watches: []answer{{events: c.events, block: true}}}, Options{})
			require.Equal(t, []string{c.want}, queued)
		})
	}
}

// If the watch cache of a server never catches up because the cluster changes constantly, it never
// begins a streaming list. It can still list.
func TestAServerThatIsNeverFreshEnoughToStreamIsListed(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("Too large resource version: 9, current: 8", 1)
	s := &script{
		watches: []answer{{broken: tooLarge}, {block: true}},
		lists:   []answer{{items: []object.Head{obj("a", 7)}, rv: "9"}},
	}
	queued, _ := play(t, s, Options{Initial: WatchList})
	require.Equal(t, []string{"replaced @9 a@7"}, queued)
	require.Equal(t, []string{`watch rv="" initial`, `list rv="" limit=500`, `watch rv="9"`}, s.asked[:3])
}
