package sharedinformer

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// few is a source of a few Pods that do not change. It counts its lists, may refuse them, and
// reuses known objects.
type few struct {
	empty
	lists   *atomic.Int64
	refused *atomic.Bool
	during  *func() // called at the end of a list
}

func (few) Describe() source.Description { return source.Description{Reuses: true} }

func (f few) List(_ context.Context, req source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "5"}, Items: func(yield func(object.Head, error) bool) {
		f.lists.Add(1)
		if f.refused.Load() {
			yield(nil, fmt.Errorf("not now"))
			return
		}
		for n := range 3 {
			p := podOf(n, 2)
			p.Spec.NodeName, p.Labels = "node", map[string]string{"app": "web"}
			if have, ok := req.Known(object.KeyOf(p)); ok && have.GetResourceVersion() == p.ResourceVersion {
				p = have.(*corev1.Pod)
			}
			if !yield(p, nil) {
				return
			}
		}
		if *f.during != nil {
			(*f.during)()
		}
	}}
}

// damage flips a bit of a packed object that is not in use.
func damage(t *testing.T, w *Informer[*corev1.Pod], name string) (before *wire.Packed) {
	t.Helper()
	for i := range 100 { // displace the objects that stay in use
		packed, err := w.core.(*core).packing.packer.Pack(podOf(i, 1))
		require.NoError(t, err)
		_, err = packed.Open()
		require.NoError(t, err)
	}
	runtime.GC()
	head, ok := w.core.(*core).cache.Reader().Get(object.Key{Namespace: "a", Name: name})
	require.True(t, ok)
	o := packedOf(head)
	_, used := o.InUse()
	require.False(t, used)
	data := reflect.ValueOf(o).Elem().FieldByName("text").FieldByName("data").String()
	*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(data)), len(data)-2)) ^= 1
	return o
}

// rot runs test with an informer of a few and the events of a handler.
func rot(t *testing.T, test func(i *Informer[*corev1.Pod], lists *atomic.Int64, refused *atomic.Bool, heard *[]string, during *func())) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int64
		var refused atomic.Bool
		var during func()
		var heard, reported []string
		i := New[*corev1.Pod](few{lists: &lists, refused: &refused, during: &during}, Options{
			Store: Packed, Initial: reflector.List,
			OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
				reported = append(reported, f.Error())
				return failure.Retry
			},
		})
		i.AddHandler(HandlerFunc[*corev1.Pod](func(_ context.Context, e Event[*corev1.Pod]) error {
			what := fmt.Sprint(e.Type, " ", e.Object.GetName(), " on ", e.Object.Spec.NodeName)
			if e.Old != nil {
				what += ", was on " + e.Old.Spec.NodeName + " of " + e.Old.Labels["app"]
			}
			heard = append(heard, what)
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		synctest.Wait()
		require.Len(t, heard, 3)
		heard = nil
		test(i, &lists, &refused, &heard, &during)
		cancel()
		require.NoError(t, <-ended)
		require.NotEmpty(t, reported)
		require.Contains(t, reported[0], "packed bytes are damaged")
	})
}

// An object whose bytes are damaged is not served. The status reports its key and the cause, a
// relist restores it, no other object is decoded or delivered, and a handler receives it.
func TestDamagedObjectIsRequestedAgain(t *testing.T) {
	rot(t, func(i *Informer[*corev1.Pod], lists *atomic.Int64, _ *atomic.Bool, heard *[]string, _ *func()) {
		key := object.Key{Namespace: "a", Name: "1"}
		others, _ := i.core.(*core).cache.Reader().Get(object.Key{Namespace: "a", Name: "0"})
		damage(t, i, "1")
		require.Nil(t, i.Status().Failure)
		for range 3 {
			_, ok := i.Cache().Get(key)
			require.False(t, ok)
		}
		head, ok := i.Heads().Get(key)
		require.True(t, ok)
		_, err := i.Open(head)
		require.ErrorIs(t, err, wire.ErrDamaged)
		s := i.Status()
		require.ErrorIs(t, s.Failure, wire.ErrDamaged)
		require.Equal(t, key, s.Failure.Key)
		require.EqualValues(t, 1, s.Packed.Damaged)
		require.Equal(t, 1, int(lists.Load()))
		synctest.Wait()
		require.Equal(t, reflector.BackingOff, i.Status().Reflector.State)
		require.Equal(t, key, i.Status().Reflector.Failure.Key)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, int(lists.Load()))
		p, ok := i.Cache().Get(key)
		require.True(t, ok)
		require.Equal(t, "node", p.Spec.NodeName)
		require.Equal(t, []string{"update 1 on node, was on  of web"}, *heard)
		still, _ := i.core.(*core).cache.Reader().Get(object.Key{Namespace: "a", Name: "0"})
		require.Same(t, others, still)
		require.Zero(t, i.Status().Reflector.Attempts)
		time.Sleep(4 * time.Minute)
		require.Equal(t, 2, int(lists.Load()))
		require.Equal(t, 3, i.Status().Objects)
	})
}

// A failed list is retried, and memory that keeps losing bytes does not cause a storm of lists.
func TestDamagedObjectsAreRequestedAtABoundedRate(t *testing.T) {
	rot(t, func(i *Informer[*corev1.Pod], lists *atomic.Int64, refused *atomic.Bool, _ *[]string, _ *func()) {
		key := object.Key{Namespace: "a", Name: "1"}
		damage(t, i, "1")
		refused.Store(true)
		_, ok := i.Cache().Get(key)
		require.False(t, ok)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Greater(t, int(lists.Load()), 4)
		_, ok = i.Cache().Get(key)
		require.False(t, ok)
		refused.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		_, ok = i.Cache().Get(key)
		require.True(t, ok)
		before := int(lists.Load())
		for range 600 { // seconds
			if o, ok := i.core.(*core).cache.Reader().Get(key); ok && o.GetResourceVersion() != "" {
				damage(t, i, "1")
				_, ok := i.Cache().Get(key)
				require.False(t, ok)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		require.Less(t, int(lists.Load())-before, 40)
		require.Greater(t, int(lists.Load())-before, 5)
	})
}

// Damage found during a list may not be repaired by that list, so another list follows.
func TestObjectsFoundDamagedDuringTheListAreRequestedAgain(t *testing.T) {
	rot(t, func(i *Informer[*corev1.Pod], lists *atomic.Int64, _ *atomic.Bool, _ *[]string, during *func()) {
		damage(t, i, "1")
		damage(t, i, "0")
		*during = func() {
			_, ok := i.Cache().Get(object.Key{Namespace: "a", Name: "0"})
			*during = nil
			require.False(t, ok)
		}
		_, ok := i.Cache().Get(object.Key{Namespace: "a", Name: "1"})
		require.False(t, ok)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 3, int(lists.Load()))
		require.Zero(t, i.Status().Handlers[0].Errors, "nothing was told of what was still damaged")
		for _, name := range []string{"0", "1", "2"} {
			_, ok := i.Cache().Get(object.Key{Namespace: "a", Name: name})
			require.True(t, ok, name)
		}
	})
}

// Whichever object is damaged when it is delivered, the handler receives an Add first and a Delete
// last (L03).
func TestL03_PairingOfDamagedObjects(t *testing.T) {
	by := wire.NewPacker(nil)
	packed := func(rv int, whole bool) *wire.Packed {
		p := podOf(0, rv)
		p.Labels = map[string]string{"app": "web"}
		p.Spec.NodeName = "node"
		o, err := by.Pack(p)
		require.NoError(t, err)
		if !whole {
			data := reflect.ValueOf(o).Elem().FieldByName("text").FieldByName("data").String()
			*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(data)), len(data)-2)) ^= 1
		}
		return o
	}
	var heard []string
	h := &opener{next: untypedHandlerOf[*corev1.Pod](HandlerFunc[*corev1.Pod](func(_ context.Context, e Event[*corev1.Pod]) error {
		heard = append(heard, fmt.Sprint(e.Type, " ", e.Object.Labels["app"], " ", e.Object.Spec.NodeName, " ", e.Old != nil))
		return nil
	}))}
	told := func(want string, events ...event) {
		t.Helper()
		heard = nil
		for _, e := range events {
			if err := h.handle(t.Context(), &e); err != nil {
				require.ErrorIs(t, err, wire.ErrDamaged)
				heard = append(heard, "error")
			}
		}
		require.Equal(t, want, fmt.Sprint(heard))
	}
	told("[error add web node false update web node true delete web node true]",
		event{Type: Add, Object: packed(2, false)}, event{Type: Update, Object: packed(3, true), Old: packed(2, false)},
		event{Type: Update, Object: packed(4, true), Old: packed(3, false)}, event{Type: Delete, Object: packed(5, true), Old: packed(4, true)})
	told("[error error add web node false]",
		event{Type: Add, Object: packed(2, false)}, event{Type: Update, Object: packed(3, false), Old: packed(2, false)}, event{Type: Resync, Object: packed(4, true)})
	told("[error update web node true delete web  false]",
		event{Type: Update, Object: packed(5, false), Old: packed(4, true)}, event{Type: Update, Object: packed(5, true), Old: packed(5, false)}, event{Type: Delete, Object: packed(6, false)})
	told("[error add web node false]",
		event{Type: Add, Object: packed(2, false)}, event{Type: Delete, Object: packed(2, false)}, event{Type: Add, Object: packed(7, true)})
	require.True(t, slices.Contains(heard, "error"))
	require.Empty(t, h.skippedAdds)
}
