package clientgo_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Differences from stock client-go. Each is stricter or documented in README.md.

func TestRecreatedObjectIsADifferentObject(t *testing.T) {
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

func TestRelistWithoutChangesNotifiesNoHandler(t *testing.T) {
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

func TestFailingIndexFunctionLosesNoObject(t *testing.T) {
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

func TestFailingTransformIsCalledAgain(t *testing.T) {
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
		require.ErrorContains(r, s.Reflector.Failure, "pods: transform: ")
		require.ErrorContains(r, s.Reflector.Failure, "shop/a: no")
		mended.Store(true)
		settle(time.Minute)
		require.Len(r, i.GetStore().List(), 1)
	})
}

func TestStatusOfAnInformerThatIsNotRunning(t *testing.T) {
	onAdapted(t, func(r *rig) {
		i := r.pods(0)
		require.NoError(r, i.GetStore().Add(pod("a")))
		s, ok := clientgo.Status(i)
		require.True(r, ok)
		require.Equal(r, reflector.Idle, s.Reflector.State)
		require.Equal(r, 1, s.Objects)
		require.Equal(r, "*v1.Pod", s.Type)
		_, err := i.AddEventHandler(&diary{})
		require.NoError(r, err)
		r.run(i)
		s, _ = clientgo.Status(i)
		require.Equal(r, "pods", s.Reflector.Resource)
		require.Equal(r, "*v1.Pod", s.Type)
		require.Contains(r, s.Handlers[0].Place, "clientgo/differences_test.go:")
		require.Equal(r, s.Handlers[0].Place, s.Handlers[0].Name)
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

// In a packed cache, a changed part shared by heads is reported as a part of its object.
func TestAChangeOfACachedHeadIsReported(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true")
	on(t, stock, func(r *rig) {
		r.put(pod("a"))
		i := clientgo.NewInformerFor(resource[object.Object](r), clientgo.ResourceOptions{Store: sharedinformer.Packed})
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			heads, _ := clientgo.HeadsOf(i)
			head, _ := heads.Get(object.Key{Namespace: "shop", Name: "a"})
			head.GetLabels()["app"] = "mine"
		}})
		require.NoError(r, err)
		r.run(i)
		settle(2 * time.Second)
		s, _ := clientgo.Status(i)
		require.ErrorContains(r, s.Failure, "shop/a: *v1.Pod in the cache was changed at .ObjectMeta.Labels[app]")
	})
}

func TestPanickingHandlerHasReceivedTheObject(t *testing.T) {
	defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		d := &diary{hook: func(string) { panic("oh") }}
		h, err := i.AddEventHandler(d)
		require.NoError(r, err)
		r.run(i)
		require.Equal(r, r.side.name != stock.name, h.HasSynced())
		r.put(pod("b"))
		settle(time.Second) // client-go waits that long
		require.Equal(r, []string{"initial a=web", "add b=web"}, d.read())
	})
}

// deaf is a cache.ListerWatcher without contexts whose list blocks until answer.
type deaf struct{ answer chan struct{} }

func (d deaf) List(metav1.ListOptions) (runtime.Object, error) {
	<-d.answer
	return podList("7"), nil
}

func (d deaf) Watch(metav1.ListOptions) (watch.Interface, error) { return nil, errors.New("no watch") }

func TestRunWaitsForAListWithoutContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, newInformer := range map[string]func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer{
			"client-go": cache.NewSharedIndexInformer, "millrace": clientgo.NewInformer,
		} {
			lw, ended := deaf{make(chan struct{})}, make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				newInformer(lw, &corev1.Pod{}, 0, nil).RunWithContext(ctx)
				close(ended)
			}()
			settle(time.Minute)
			cancel()
			synctest.Wait()
			select {
			case <-ended:
				require.Equal(t, "client-go", name)
			default:
				require.Equal(t, "millrace", name)
			}
			close(lw.answer)
			<-ended
		}
	})
}

func TestMapOfIndexersBelongsToTheCaller(t *testing.T) {
	mine := cache.Indexers{"app": byApp}
	i := clientgo.NewInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, mine)
	require.NoError(t, i.AddIndexers(cache.Indexers{"other": byApp}))
	require.Len(t, mine, 1)
}

func TestRunReturnsAfterRemovedHandlersHaveReturned(t *testing.T) {
	onAdapted(t, func(r *rig) {
		i := r.pods(0)
		release := make(chan struct{})
		var handlers []cache.ResourceEventHandlerRegistration
		for range 200 {
			h, err := i.AddEventHandler(&diary{hook: func(string) { <-release }})
			require.NoError(r, err)
			handlers = append(handlers, h)
		}
		ended := make(chan struct{})
		go func() {
			i.RunWithContext(r.ctx)
			close(ended)
		}()
		synctest.Wait()
		r.put(pod("a"))
		synctest.Wait()
		for _, h := range handlers {
			require.NoError(r, i.RemoveEventHandler(h))
		}
		r.cancel()
		close(release)
		<-ended
		for _, h := range handlers {
			select {
			case <-h.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan():
			default:
				r.Fatal("Run returned before a handler had ended")
			}
		}
	})
}

func TestWatchErrorHandlerReceivesOtherErrorsToo(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.srv.Faults().Add(apiservertest.Fault{Verb: "watch", Resource: "pods", Count: 1, Do: []apiservertest.Action{apiservertest.Fail{Code: 429}}})
		i := r.pods(0)
		var heard []error
		require.NoError(r, i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { heard = append(heard, err) }))
		r.run(i)
		settle(time.Minute)
		require.True(r, i.HasSynced())
		if r.side.name == stock.name {
			require.Empty(r, heard)
			return
		}
		require.Len(r, heard, 1)
		require.True(r, apierrors.IsTooManyRequests(heard[0]))
	})
}

func TestBrokenWatchDoesNotCauseAList(t *testing.T) {
	onBoth(t, func(r *rig) {
		var lists atomic.Int32
		r.cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if query := req.URL.Query(); query.Get("watch") == "" || query.Get("sendInitialEvents") == "true" {
					lists.Add(1)
				}
				return next.RoundTrip(req)
			})
		})
		i := r.pods(0)
		r.run(i)
		require.EqualValues(r, 1, lists.Load())
		r.srv.Down()
		synctest.Wait()
		r.put(pod("a"))
		r.srv.Up()
		settle(time.Minute)
		require.Equal(r, []string{"shop/a"}, keys(i.GetStore()))
		require.Equal(r, r.side.name == stock.name, lists.Load() > 1)
	})
}

func TestAListOfAnotherType(t *testing.T) {
	h := &handmade{list: &corev1.NodeList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7"},
		Items:    []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "5"}}},
	}}
	inBubble(t, h, &corev1.Pod{}, func(i cache.SharedIndexInformer, d *diary) {
		s, _ := clientgo.Status(i)
		require.ErrorContains(t, s.Reflector.Failure, "is a *v1.Node, want a *v1.Pod")
		require.False(t, i.HasSynced())
		require.Empty(t, i.GetStore().ListKeys())
		require.Empty(t, d.read())
	})
}
