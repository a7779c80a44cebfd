package clientgo_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/reflector"
)

// What differs from stock client-go, each stricter or said in README.md.

func TestAnotherObjectOfTheSameNameIsAnother(t *testing.T) {
	for _, s := range append([]side{stock}, adapted...) {
		on(t, s, func(r *rig) {
			r.put(pod("a"))
			i := r.pods(0)
			d := &diary{}
			_, err := i.AddEventHandler(d)
			require.NoError(r, err)
			r.run(i)
			d.read()
			r.missing(func() {
				r.delete("a")
				r.label("a", "db")
			})
			want := []string{"unknown end of shop/a: a=web", "add a=db"}
			if s.name == stock.name {
				want = []string{"update a=web to a=db"}
			}
			require.Equal(r, want, d.read())
		})
	}
}

func TestARelistThatFindsNothingNewTellsNobody(t *testing.T) {
	onAdapted(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		d := &diary{}
		_, err := i.AddEventHandler(d)
		require.NoError(r, err)
		r.run(i)
		d.read()
		r.missing(func() { r.put(pod("b")) })
		require.Equal(r, []string{"add b=web"}, d.read())
	})
}

func TestTheStoreOfASyncedInformerIsReadOnly(t *testing.T) {
	onAdapted(t, func(r *rig) {
		i := r.pods(0)
		r.run(i)
		for _, err := range []error{
			i.GetStore().Add(pod("a")), i.GetStore().Update(pod("a")), i.GetStore().Delete(pod("a")), i.GetStore().Replace(nil, "1"),
		} {
			require.ErrorIs(r, err, clientgo.ErrReadOnly)
		}
		before := i.LastSyncResourceVersion()
		i.GetStore().Bookmark("999999")
		require.Equal(r, before, i.GetStore().LastStoreSyncResourceVersion())
	})
}

func TestAnIndexFunctionThatFailsLosesNoObject(t *testing.T) {
	onAdapted(t, func(r *rig) {
		i := r.pods(0)
		require.NoError(r, i.AddIndexers(cache.Indexers{"app": func(o any) ([]string, error) {
			if values, err := byApp(o); values[0] != "db" {
				return values, err
			}
			return nil, errors.New("no")
		}}))
		r.run(i)
		r.put(pod("a"))
		r.label("b", "db")
		synctest.Wait()
		require.Equal(r, []string{"shop/a", "shop/b"}, keys(i.GetStore()))
		s, _ := clientgo.Status(i)
		require.ErrorContains(r, s.Failure, `index "app"`)
	})
}

func TestATransformThatFailsIsAskedAgain(t *testing.T) {
	onAdapted(t, func(r *rig) {
		i := r.pods(0)
		var mended atomic.Bool
		require.NoError(r, i.SetTransform(func(o any) (any, error) {
			if !mended.Load() {
				return nil, errors.New("no")
			}
			return o, nil
		}))
		r.run(i)
		r.put(pod("a"))
		settle(time.Second)
		require.Empty(r, i.GetStore().List())
		s, _ := clientgo.Status(i)
		require.ErrorContains(r, s.Reflector.Failure, "pods: transform: shop/a: no")
		mended.Store(true)
		settle(time.Minute)
		require.Len(r, i.GetStore().List(), 1)
	})
}

func TestStatusOfAnInformerThatDoesNotRun(t *testing.T) {
	onAdapted(t, func(r *rig) {
		i := r.pods(0)
		require.NoError(r, i.GetStore().Add(pod("a")))
		s, ok := clientgo.Status(i)
		require.True(r, ok)
		require.Equal(r, reflector.Idle, s.Reflector.State)
		require.Equal(r, 1, s.Objects)
		_, err := i.AddEventHandler(&diary{})
		require.NoError(r, err)
		r.run(i)
		s, _ = clientgo.Status(i)
		require.Equal(r, "pods", s.Reflector.Resource)
		require.Contains(r, s.Handlers[0].Name, "clientgo/differences_test.go:")
	})
}

func TestAChangeOfACachedObjectIsReported(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true")
	onAdapted(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { o.(*corev1.Pod).Spec.NodeName = "mine" }})
		require.NoError(r, err)
		r.run(i)
		settle(2 * time.Second)
		s, _ := clientgo.Status(i)
		require.ErrorContains(r, s.Failure, "shop/a: *v1.Pod in the cache was changed at .Spec.NodeName")
	})
}
