package controllerruntime_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// diary is a handler that records its calls.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) OnAdd(o any, initial bool) {
	d.note("add %s initial=%t", object.KeyOf(o.(object.Object)), initial)
}
func (d *diary) OnUpdate(_, o any) { d.note("update %s", object.KeyOf(o.(object.Object))) }
func (d *diary) OnDelete(o any)    { d.note("delete %s", object.KeyOf(o.(object.Object))) }

// read returns the calls since the last read.
func (d *diary) read() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func TestHandlers(t *testing.T) {
	for name, opts := range map[string]cache.Options{
		"of all":            {},
		"of two namespaces": {DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(r *rig) {
				r.put(pod("shop", "a", "web"))
				c := r.running(opts)
				i, err := c.GetInformer(r.ctx, &corev1.Pod{})
				require.NoError(r, err)
				require.True(r, i.HasSynced())
				<-i.HasSyncedChecker().Done()
				var d diary
				h, err := i.AddEventHandler(&d)
				require.NoError(r, err)
				require.Equal(r, []string{"add shop/a initial=true"}, d.read())
				<-h.HasSyncedChecker().Done()
				require.True(r, h.HasSynced())
				r.put(pod("bank", "b", "web"))
				r.put(pod("bank", "b", "db"))
				r.delete(pod("bank", "b", "db"))
				require.Equal(r, []string{"add bank/b initial=false", "update bank/b", "delete bank/b"}, d.read())
				require.NoError(r, i.RemoveEventHandler(h))
				r.put(pod("bank", "b", "web"))
				require.Empty(r, d.read())
				require.False(r, i.IsStopped())
			})
		})
	}
}

func TestRegistrationOfAnotherInformerIsRefused(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{
			DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: map[string]cache.Config{"shop": {}, "bank": {}, "zoo": {}}}},
		})
		pods, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		maps, err := c.GetInformer(r.ctx, &corev1.ConfigMap{})
		require.NoError(r, err)
		var d diary
		h, err := pods.AddEventHandler(&d)
		require.NoError(r, err)
		require.NoError(r, maps.RemoveEventHandler(h))
		require.Equal(r, []string{"add shop/a initial=true"}, d.read())
		r.put(pod("shop", "b", "web"))
		require.Equal(r, []string{"add shop/b initial=false"}, d.read())
	})
}

func TestHandlersOfEachForm(t *testing.T) {
	onAll(t, func(r *rig) {
		c := r.running(cache.Options{})
		heard := map[string]schema.GroupVersionKind{}
		for _, form := range podForms() {
			i, err := c.GetInformer(r.ctx, form)
			require.NoError(r, err)
			_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
				heard[fmt.Sprintf("%T", o)] = kindOf(o.(client.Object))
			}})
			require.NoError(r, err)
			r.put(pod("shop", "a", "web"))
			synctest.Wait()
		}
		require.Equal(r, map[string]schema.GroupVersionKind{
			"*unstructured.Unstructured": podKind, "*v1.PartialObjectMetadata": podKind, "*v1.Pod": {},
		}, heard)
	})
}

func TestStatusNamesTheSourceLineOfAHandler(t *testing.T) {
	on(t, newCache, func(r *rig) {
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}})
		i, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		_, err = i.AddEventHandler(&diary{})
		require.NoError(r, err)
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		kind := source.Kind(c, &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})
		require.NoError(r, kind.Start(r.ctx, queue))
		require.NoError(r, kind.WaitForSync(r.ctx))
		for _, s := range c.(*controllerruntime.Cache).Status() {
			require.Contains(r, s.Handlers[0].Place, "controllerruntime/informer_test.go:")
			require.Contains(r, s.Handlers[1].Place, "source/kind.go:")
		}
	})
}

func TestGetInformerForKind(t *testing.T) {
	onAll(t, func(r *rig) {
		c := r.running(cache.Options{})
		i, err := c.GetInformerForKind(r.ctx, podKind)
		require.NoError(r, err)
		same, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		require.Same(r, i, same)
		_, err = c.GetInformerForKind(r.ctx, podKind.GroupVersion().WithKind("None"))
		require.True(r, runtime.IsNotRegisteredError(err), "%v", err)
	})
}

// A Go type may be registered for several kinds.
func TestGetInformerForAKindThatSharesItsType(t *testing.T) {
	onAll(t, func(r *rig) {
		types := runtime.NewScheme()
		require.NoError(r, corev1.AddToScheme(types))
		other := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pod"}
		types.AddKnownTypeWithName(other, &corev1.Pod{})
		require.NoError(r, r.srv.AddResource(apiservertest.Resource{GVR: other.GroupVersion().WithResource("pods"), Kind: other.Kind, Namespaced: true}))
		c := r.running(cache.Options{Scheme: types})
		_, err := c.GetInformerForKind(r.ctx, podKind)
		require.NoError(r, err)
	})
}

func TestRemoveInformer(t *testing.T) {
	for name, opts := range map[string]cache.Options{
		"of all":            {},
		"of two namespaces": {DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(r *rig) {
				r.put(pod("shop", "a", "web"))
				c := r.running(opts)
				first, err := c.GetInformer(r.ctx, &corev1.Pod{})
				require.NoError(r, err)
				require.NoError(r, c.RemoveInformer(r.ctx, &corev1.Pod{}))
				require.NoError(r, c.RemoveInformer(r.ctx, &corev1.Pod{}))
				synctest.Wait()
				require.True(r, first.IsStopped())
				_, err = first.AddEventHandler(&diary{})
				require.Error(r, err)

				second, err := c.GetInformer(r.ctx, &corev1.Pod{})
				require.NoError(r, err)
				require.False(r, second.IsStopped())
				require.Equal(r, []string{"shop/a"}, r.names(c))
			})
		})
	}
}

func TestSyncPeriod(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{
			SyncPeriod: new(time.Hour),
			ByObject:   map[client.Object]cache.ByObject{&corev1.Pod{}: {SyncPeriod: new(time.Minute)}},
		})
		i, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		var d diary
		_, err = i.AddEventHandler(&d)
		require.NoError(r, err)
		d.read()
		settle(50 * time.Second)
		require.Empty(r, d.read())
		settle(90 * time.Second) // a minute plus ten percent; stock polls at that interval and takes twice as long
		require.Contains(r, d.read(), "update shop/a")
	})
}

func TestAKindThatIsNotServed(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	onAll(t, func(r *rig) {
		c := r.running(cache.Options{})
		out := &unstructured.Unstructured{}
		out.SetGroupVersionKind(widget)
		require.True(r, meta.IsNoMatchError(c.Get(r.ctx, key("shop", "a"), out)))
		_, err := c.GetInformer(r.ctx, out)
		require.True(r, meta.IsNoMatchError(err))
		require.NoError(r, r.srv.AddResource(apiservertest.Resource{GVR: widget.GroupVersion().WithResource("widgets"), Kind: widget.Kind, Namespaced: true}))
		_, err = c.GetInformer(r.ctx, out)
		require.NoError(r, err, "it may be asked for again")
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(widget)
		require.NoError(r, c.List(r.ctx, list))
		require.True(r, c.WaitForCacheSync(r.ctx))
	})
}

func TestWatchErrorsAreReported(t *testing.T) {
	onAll(t, func(r *rig) {
		r.srv.SetAuthorizer(apiservertest.Deny("", "pods", "list", "watch"))
		heard := make(chan error, 100)
		c := r.running(cache.Options{DefaultWatchErrorHandler: func(_ context.Context, about *toolscache.Reflector, err error) {
			if about.TypeDescription() == "" {
				r.Error("the reflector has no name")
			}
			heard <- err
		}})
		_, err := c.GetInformer(r.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
		require.NoError(r, err)
		require.ErrorContains(r, <-heard, "forbidden")
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		require.False(r, c.WaitForCacheSync(ctx))
		_, err = c.GetInformer(ctx, &corev1.Pod{})
		require.Error(r, err)
	})
}

func TestL22_UnsyncedHasReasons(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.srv.SetAuthorizer(apiservertest.Deny("", "pods", "list", "watch"))
		c := r.cache(cache.Options{}).(*controllerruntime.Cache)
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		require.ErrorContains(r, c.WaitForSync(ctx), "not started")

		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		_, err = c.GetInformer(r.ctx, &corev1.Node{})
		require.NoError(r, err)
		r.start(c)
		ctx, cancel = context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		err = c.WaitForSync(ctx)
		require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
		require.ErrorContains(r, err, "pods")
		require.ErrorContains(r, err, "forbidden")
		require.NotContains(r, err.Error(), "nodes")
		require.ErrorContains(r, c.Get(ctx, key("shop", "a"), &corev1.Pod{}), "forbidden")

		status := c.Status()
		require.Len(r, status, 2)
		require.Equal(r, "nodes", status[0].Reflector.Resource)
		require.True(r, status[0].Synced)
		require.False(r, status[1].Synced)
	})
}

func TestWaitWithAnEndedContextReportsTheCurrentState(t *testing.T) {
	on(t, newCache, func(r *rig) {
		c := r.running(cache.Options{}).(*controllerruntime.Cache)
		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		for range 100 { // if both are ready, started and synced win
			require.NoError(r, c.WaitForSync(ctx))
		}
	})
}

// The stock cache waits forever.
func TestWaitForARemovedInformerFails(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.srv.SetAuthorizer(apiservertest.Deny("", "pods", "list", "watch"))
		c := r.running(cache.Options{})
		told := make(chan error)
		go func() { told <- c.Get(r.ctx, key("shop", "a"), &corev1.Pod{}) }()
		synctest.Wait()
		require.NoError(r, c.RemoveInformer(r.ctx, &corev1.Pod{}))
		require.True(r, apierrors.IsTimeout(<-told))
	})
}

// The stock cache waits until the context is done.
func TestARemovedInformerIsNotWaitedFor(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.srv.SetAuthorizer(apiservertest.Deny("", "pods", "list", "watch"))
		c := r.running(cache.Options{})
		for _, o := range []client.Object{&corev1.Pod{}, &corev1.Node{}} {
			_, err := c.GetInformer(r.ctx, o, cache.BlockUntilSynced(false))
			require.NoError(r, err)
		}
		synced := make(chan bool)
		go func() { synced <- c.WaitForCacheSync(r.ctx) }()
		synctest.Wait()
		require.NoError(r, c.RemoveInformer(r.ctx, &corev1.Pod{}))
		require.True(r, <-synced)
	})
}

// The stock cache waits forever for the bookmark that ends a streaming list.
func TestWithoutBookmarks(t *testing.T) {
	on(t, newCache, func(r *rig) {
		begin := time.Now()
		for _, on := range []bool{true, false} {
			c := r.cache(cache.Options{DefaultEnableWatchBookmarks: &on})
			ctx, cancel := context.WithCancel(r.ctx)
			ended := make(chan error)
			go func() { ended <- c.Start(ctx) }()
			synctest.Wait()
			require.NoError(r, c.List(r.ctx, &corev1.PodList{}))
			require.Equal(r, on, r.bookmarks())
			require.Zero(r, time.Since(begin), "no wait for the end of a streaming list")
			cancel()
			require.NoError(r, <-ended)
		}
	})
}

func TestStartTwice(t *testing.T) {
	onAll(t, func(r *rig) {
		c := r.running(cache.Options{})
		require.ErrorContains(r, c.Start(r.ctx), "informer already started")
	})
}

func TestMetadataIsReadFromWholeObjects(t *testing.T) {
	for _, whole := range podForms()[1:] {
		t.Run(fmt.Sprintf("%T", whole), func(t *testing.T) { metadataIsReadFrom(t, whole) })
	}
}

func metadataIsReadFrom(t *testing.T, whole client.Object) {
	t.Helper()
	on(t, newCache, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{ReaderFailOnMissingInformer: true})
		_, err := c.GetInformer(r.ctx, whole)
		require.NoError(r, err)
		part, list := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
		part.SetGroupVersionKind(podKind)
		list.SetGroupVersionKind(podKind)
		require.NoError(r, c.Get(r.ctx, key("shop", "a"), part))
		require.NoError(r, c.List(r.ctx, list))
		require.Equal(r, "web", part.Labels["app"])
		require.Equal(r, podKind, kindOf(part))
		require.Equal(r, *part, list.Items[0])
		require.Len(r, c.(*controllerruntime.Cache).Status(), 1, "no informer of metadata")

		part.Labels["app"] = "changed"
		require.NoError(r, c.Get(r.ctx, key("shop", "a"), part))
		require.Equal(r, "web", part.Labels["app"])
	})
}

func TestMetadataIsNotReadFromTransformedObjects(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{DefaultTransform: func(in any) (any, error) {
			if p, ok := in.(*corev1.Pod); ok {
				p.Labels = nil
			}
			return in, nil
		}})
		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		part := &metav1.PartialObjectMetadata{}
		part.SetGroupVersionKind(podKind)
		require.NoError(r, c.Get(r.ctx, key("shop", "a"), part))
		require.Equal(r, "web", part.Labels["app"])
	})
}

func TestNewInformerIsRefused(t *testing.T) {
	on(t, newCache, func(r *rig) {
		_, err := r.side.newCache(r.cfg, cache.Options{NewInformer: toolscache.NewSharedIndexInformer})
		require.ErrorContains(r, err, "metrics.NewInformers")
		require.ErrorContains(r, err, "clientgo.NewInformerWithOptions")
	})
}

// informer-debug attaches to a program that runs the cache and shows its contents.
func TestInformerDebugSeesTheCache(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("bank", "b", "web"))
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}})
		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		process := debug.New(debug.Options{Informers: debug.Of(c.(*controllerruntime.Cache)), Contents: true}).Client()
		status, err := process.Status(r.ctx)
		require.NoError(r, err)
		require.Len(r, status.Informers, 2)
		for n, key := range []object.Key{{Namespace: "bank", Name: "b"}, {Namespace: "shop", Name: "a"}} {
			require.Equal(r, "pods in namespace "+key.Namespace, status.Informers[n].Reflector.Resource)
			one, err := process.Object(r.ctx, debug.Which{Informer: "pods in namespace " + key.Namespace}, key)
			require.NoError(r, err)
			require.Contains(r, string(one.Contents), `"namespace":"`+key.Namespace+`"`)
		}
	})
}

// If an informer for several namespaces has synced, its Done channel is closed even after it was removed.
func TestDoneAfterRemoval(t *testing.T) {
	on(t, newCache, func(r *rig) {
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}})
		var all []cache.Informer
		for range 20 {
			i, err := c.GetInformer(r.ctx, &corev1.Pod{})
			require.NoError(r, err)
			all = append(all, i)
		}
		require.NoError(r, c.RemoveInformer(r.ctx, &corev1.Pod{}))
		for _, i := range all {
			require.True(r, i.HasSynced())
			done := i.HasSyncedChecker().Done()
			synctest.Wait()
			select {
			case <-done:
			default:
				require.Fail(r, "it has synced, but is not done")
			}
		}
	})
}
