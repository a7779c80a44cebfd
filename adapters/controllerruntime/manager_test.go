package controllerruntime_test

import (
	"context"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// manager returns a manager of the rig's side, not running.
func (r *rig) manager(opts ctrl.Options) ctrl.Manager {
	r.Helper()
	opts.Metrics = metricsserver.Options{BindAddress: "0"}
	opts.Controller = config.Controller{SkipNameValidation: new(true)}
	opts.NewCache = r.side.newCache
	m, err := ctrl.NewManager(r.cfg, opts)
	require.NoError(r, err)
	return m
}

// reconciles runs a manager with a controller of Pods.
func (r *rig) reconciles(m ctrl.Manager, reconciler func(context.Context, ctrl.Request) (ctrl.Result, error)) {
	r.Helper()
	require.NoError(r, ctrl.NewControllerManagedBy(m).Named("test").For(&corev1.Pod{}).Complete(reconcile.Func(reconciler)))
	r.start(m)
}

// controller-runtime polls HasSynced only ten times a second. WaitForCacheSync makes sure that the
// first poll succeeds.
func TestTheFirstReconcileDoesNotWait(t *testing.T) {
	for name, opts := range map[string]cache.Options{
		"of all":            {},
		"of two namespaces": {DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, newCache, func(r *rig) {
				r.put(pod("shop", "a", "web"))
				begin, first := time.Now(), make(chan time.Duration, 1)
				r.reconciles(r.manager(ctrl.Options{Cache: opts}), func(context.Context, ctrl.Request) (ctrl.Result, error) {
					first <- time.Since(begin)
					return ctrl.Result{}, nil
				})
				require.Zero(r, <-first)
			})
		})
	}
}

func TestAReconcilerMayPanic(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		var calls atomic.Int32
		done := make(chan struct{})
		r.reconciles(r.manager(ctrl.Options{}), func(context.Context, ctrl.Request) (ctrl.Result, error) {
			if calls.Add(1) == 1 {
				panic("the reconciler panics")
			}
			close(done)
			return ctrl.Result{}, nil
		})
		<-done
	})
}

func TestReadYourWrites(t *testing.T) {
	onAll(t, func(r *rig) {
		m := r.manager(ctrl.Options{Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}}})
		r.start(m)
		c := m.GetClient()
		list := func(app string) int {
			var all corev1.ConfigMapList
			require.NoError(r, c.List(r.ctx, &all, client.MatchingLabels{"app": app}))
			return len(all.Items)
		}
		for range 10 {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Labels: map[string]string{"app": "web"}}}
			require.NoError(r, c.Create(r.ctx, o))
			require.NoError(r, c.Get(r.ctx, key("shop", "a"), o))
			o.Labels["app"] = "db"
			require.NoError(r, c.Update(r.ctx, o))
			require.Equal(r, 1, list("db"))
			require.NoError(r, c.Delete(r.ctx, o))
			require.Zero(r, list("db"))
		}
	})
}

// A handler may wait for a runnable that starts only after the cache has synced.
func TestWaitingHandlerDoesNotDelayOthers(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		m, begin, begun := r.manager(ctrl.Options{}), time.Now(), make(chan struct{})
		i, err := m.GetCache().GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-begun }})
		require.NoError(r, err)
		require.NoError(r, m.Add(manager.RunnableFunc(func(context.Context) error {
			close(begun)
			return nil
		})))
		r.start(m)
		<-begun
		require.LessOrEqual(r, time.Since(begin), time.Second)
	})
}

// The object passed to a read belongs to the caller, even if the read created the informer.
func TestCacheKeepsNoReferenceToTheCallersObject(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{})
		out, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
		out.SetGroupVersionKind(podKind)
		list.SetGroupVersionKind(podKind.GroupVersion().WithKind("PodList"))
		require.NoError(r, c.Get(r.ctx, key("shop", "a"), out))
		out.SetKind("Node")
		r.put(pod("shop", "b", "web"))
		settle(0)
		require.NoError(r, c.List(r.ctx, list))
		require.Len(r, list.Items, 2)
	})
}

// panicking names the side on which the handler of a child process panics.
const panicking = "MILLRACE_TEST_PANICKING"

// Unless utilruntime.ReallyCrash is false, a panic of a handler, of a predicate or
// of a map function ends the process.
func TestAHandlerThatPanicsEndsTheProcess(t *testing.T) {
	for _, s := range []side{stock, newInformer, newCache} {
		if os.Getenv(panicking) == s.name {
			on(t, s, panics)
		}
	}
	if os.Getenv(panicking) != "" {
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, s := range []side{stock, newInformer, newCache} {
		child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), panicking+"="+s.name)
		said, err := child.CombinedOutput()
		require.ErrorContains(t, err, "exit status 2", s.name) // the runtime's, of a panic
		require.Contains(t, string(said), "the map function panics", s.name)
	}
}

func panics(r *rig) {
	r.put(pod("shop", "a", "web"))
	m := r.manager(ctrl.Options{})
	mapped := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { panic("the map function panics") })
	require.NoError(r, ctrl.NewControllerManagedBy(m).Named("test").Watches(&corev1.Pod{}, mapped).Complete(reconcile.Func(nil)))
	r.start(m)
	settle(time.Minute)
	r.Error("still there")
}
