package sharedinformer

import (
	"context"
	"iter"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// forgetful is a source whose history expires after each watch, which delivers one change.
type forgetful struct {
	mu      sync.Mutex
	rv      int
	objects map[string]podPtr
	made    atomic.Int64
	freed   atomic.Int64
}

func (s *forgetful) Describe() source.Description { return source.Description{Name: "things"} }

// set puts an object with a UID; remove removes one.
func (s *forgetful) set(name, uid string) (e wire.Event[object.Head]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	o := podAt(name, strconv.Itoa(s.rv), nil)
	o.UID = types.UID(uid)
	s.objects[name] = o
	return wire.Event[object.Head]{Type: watch.Modified, Object: o}
}

func (s *forgetful) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	delete(s.objects, name)
}

func (s *forgetful) List(context.Context, source.Request) source.List[object.Head] {
	meta := new(metav1.ListMeta)
	return source.List[object.Head]{Meta: meta, Items: func(yield func(object.Head, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		meta.ResourceVersion = strconv.Itoa(s.rv)
		for _, o := range s.objects {
			o = o.DeepCopy()
			s.made.Add(1)
			runtime.AddCleanup(o, func(int) { s.freed.Add(1) }, 0)
			if !yield(o, nil) {
				return
			}
		}
	}}
}

func (s *forgetful) Watch(_ context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		if yield(s.set("busy", "busy"), nil) {
			yield(wire.Event[object.Head]{}, apierrors.NewResourceExpired("too old"))
		}
	}, nil
}

// While an index function blocks, at most one list waits for the cache. When the function returns,
// readers see one complete set, and the handler receives the difference: each deletion, and each
// object that was replaced by another one of the same name (L03, L04, L12, L17).
func TestL12_AtMostOneListWaitsForABlockedCache(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		for _, initial := range []bool{false, true} {
			t.Run("initial list "+strconv.FormatBool(initial), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const objects = 50
					from := &forgetful{rv: 10, objects: map[string]podPtr{}}
					for n := range objects {
						from.set(strconv.Itoa(n), "old")
					}
					from.set("busy", "busy")
					i := New[podPtr](from, Options{Store: of, Initial: reflector.List})
					release, blocks := make(chan struct{}), atomic.Bool{}
					blocks.Store(initial)
					AddIndex(i, "stuck", func(podPtr) []string {
						if blocks.Load() {
							<-release
						}
						return nil
					})
					told, marked := map[string]EventType{}, map[string]bool{}
					i.AddHandler(HandlerFunc[podPtr](func(_ context.Context, e Event[podPtr]) error {
						key := e.Object.Name + " " + string(e.Object.UID)
						told[key], marked[key] = e.Type, e.Initial
						return nil
					}))
					ctx, cancel := context.WithCancel(t.Context())
					wait, err := i.Start(ctx)
					require.NoError(t, err)
					if !initial {
						require.NoError(t, i.WaitForSync(ctx))
						synctest.Wait()
						require.Len(t, told, objects+1, "with the busy one")
					}
					blocks.Store(true)
					time.Sleep(10 * time.Minute)
					from.remove("1")
					from.set("2", "new")
					time.Sleep(2 * time.Hour)
					const most = 4 * objects // the cache, the list being applied, the queued one, and the one being read
					lists, held := i.Status().Reflector.Lists, int64(most)
					for tries := 0; held >= most && tries < 100; tries++ {
						runtime.GC() // cleanups run some time after it
						held = from.made.Load() - from.freed.Load()
					}
					blocks.Store(false)
					close(release)
					require.Greater(t, lists, uint64(100))
					require.Less(t, held, int64(most))
					time.Sleep(time.Minute)
					synctest.Wait()
					require.Equal(t, objects, i.Cache().Len())
					_, ok := i.Cache().Get(object.Key{Namespace: "a", Name: "1"})
					require.False(t, ok)
					require.NotEqual(t, Add, told["1 old"], "told as deleted, or never as added")
					require.NotEqual(t, Add, told["2 old"])
					require.Equal(t, Add, told["2 new"])
					if initial {
						require.True(t, marked["3 old"])
					}
					cancel()
					require.NoError(t, wait())
				})
			})
		}
	})
}

// The server sends no bookmarks, so nothing is queued behind the change being applied.
func TestL31_AChangeThatIsBeingAppliedIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newFixed(thing("a", 1, 5))
		i := informerOf(from, Options{})
		blocked := make(chan struct{})
		AddIndex(i, "slow", func(o partial) []string {
			if o.Name == "b" {
				<-blocked
			}
			return nil
		})
		stop := runFor(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		from.changes <- wire.Event[object.Head]{Type: watch.Added, Object: thing("b", 2, 11)}
		time.Sleep(4 * time.Minute)
		s := i.Status()
		close(blocked)
		require.Equal(t, 1, s.QueueDepth)
		require.Equal(t, 4*time.Minute, s.QueueAge)
		synctest.Wait()
		require.Zero(t, i.Status().QueueDepth)
		stop()
	})
}
