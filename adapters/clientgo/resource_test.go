package clientgo_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// resource returns the pods of a Millrace client.
func resource[T object.Object](r *rig) *rest.Resource[T] {
	r.Helper()
	client, err := clientgo.FromConfig(r.cfg)
	require.NoError(r, err)
	return rest.ResourceForMapping[T](client, discovery.Mapping{
		Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: podResource, Namespaced: true,
	})
}

func TestAnInformerOfAResource(t *testing.T) {
	on(t, stock, func(r *rig) {
		for n := range 16 {
			r.put(pod(fmt.Sprint("p", n)))
		}
		r.label("e", "db")
		i := clientgo.NewInformerFor(resource[*corev1.Pod](r).Namespace("shop"), clientgo.ResourceOptions{
			ResyncPeriod: 10 * time.Second,
			Indexers:     cache.Indexers{"app": byApp},
			Tweak:        func(o *metav1.ListOptions) { o.LabelSelector = "app=web" },
			Pool:         wire.NewPool(),
		})
		d := &diary{}
		_, err := i.AddEventHandler(d)
		require.NoError(r, err)
		r.run(i)
		require.NoError(r, clientgo.WaitForSync(r.ctx, i))
		require.Len(r, d.read(), 16)
		found, err := i.GetIndexer().ByIndex("app", "web")
		require.NoError(r, err)
		require.Len(r, found, 16)
		require.Less(r, labelsOf(found), 8, "what comes a second time is there once from then on, but where another part has its place")
		s, _ := clientgo.Status(i)
		require.Equal(r, "pods in namespace shop", s.Reflector.Resource)
		r.label("e", "web")
		require.Equal(r, []string{"add e=web"}, d.read(), "the selector holds for the watch too")
		settle(11 * time.Second)
		require.Len(r, d.read(), 17, "a resync")
	})
}

// labelsOf returns how many different label maps the pods have.
func labelsOf(pods []any) int {
	maps := map[uintptr]bool{}
	for _, o := range pods {
		maps[reflect.ValueOf(o.(*corev1.Pod).Labels).Pointer()] = true
	}
	return len(maps)
}

func TestTransformedObjectsOfAResourceShareNothing(t *testing.T) {
	on(t, stock, func(r *rig) {
		for _, name := range []string{"a", "b", "c", "d"} {
			r.put(pod(name))
		}
		i := clientgo.NewInformerFor(resource[*corev1.Pod](r), clientgo.ResourceOptions{Pool: wire.NewPool()})
		require.NoError(r, i.SetTransform(func(o any) (any, error) {
			o.(*corev1.Pod).Labels["of"] = o.(*corev1.Pod).Name
			return o, nil
		}))
		r.run(i)
		for _, o := range i.GetStore().List() {
			require.Equal(r, o.(*corev1.Pod).Name, o.(*corev1.Pod).Labels["of"])
		}
	})
}

func TestAnInformerOfAResourceInPages(t *testing.T) {
	for _, pages := range []bool{false, true} {
		on(t, stock, func(r *rig) {
			r.put(pod("a"))
			i := clientgo.NewInformerFor(resource[*unstructured.Unstructured](r), clientgo.ResourceOptions{Pages: pages})
			r.run(i)
			require.Equal(r, []string{"shop/a"}, keys(i.GetStore()))
			require.IsType(r, &unstructured.Unstructured{}, i.GetStore().List()[0])
			lists := 0
			if pages {
				lists = 1
			}
			require.EqualValues(r, lists, r.srv.Stats().Requests("list", "pods"))
		})
	}
}

func TestWaitForSync(t *testing.T) {
	on(t, stock, func(r *rig) {
		forbidden := r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"}}})
		ours, theirs := clientgo.NewInformerFor(resource[*corev1.Pod](r), clientgo.ResourceOptions{}), r.pods(0)
		soon, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		err := clientgo.WaitForSync(soon, ours)
		require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
		require.ErrorContains(r, err, "Run has not been called")
		r.run(ours)
		r.run(theirs)
		soon, cancel = context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		err = clientgo.WaitForSync(soon, ours)
		require.ErrorIs(r, err, context.DeadlineExceeded)
		require.ErrorContains(r, err, "not synced: pods: list: forbidden: ")
		err = clientgo.WaitForSync(soon, theirs)
		require.EqualError(r, err, "SharedIndexInformer *v1.Pod has not synced: context deadline exceeded")

		r.srv.Faults().Remove(forbidden)
		require.NoError(r, clientgo.WaitForSync(r.ctx, ours))
		require.NoError(r, clientgo.WaitForSync(r.ctx, theirs))
		for range 100 { // if both are ready, synced wins
			require.NoError(r, clientgo.WaitForSync(soon, ours))
			require.NoError(r, clientgo.WaitForSync(soon, theirs))
		}
	})
}

func TestWaitingForSyncedHandlers(t *testing.T) {
	on(t, stock, func(r *rig) {
		i := clientgo.NewInformerFor(resource[*corev1.Pod](r), clientgo.ResourceOptions{})
		_, err := i.AddEventHandler(&diary{})
		require.NoError(r, err)
		ended, cancel := context.WithCancel(r.ctx)
		cancel()
		require.ErrorIs(r, clientgo.WaitForHandlers(ended, i), context.Canceled)
		r.run(i)
		require.NoError(r, clientgo.WaitForHandlers(r.ctx, i))
		for range 100 { // if both are ready, heard wins
			require.NoError(r, clientgo.WaitForHandlers(ended, i))
		}
	})
}

func TestWaitingForAnInformerThatHasStopped(t *testing.T) {
	on(t, stock, func(r *rig) {
		r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		i := clientgo.NewInformerFor(resource[*corev1.Pod](r), clientgo.ResourceOptions{})
		r.run(i)
		told := make(chan error)
		go func() { told <- clientgo.WaitForSync(r.T.Context(), i) }()
		synctest.Wait()
		r.cancel()
		require.ErrorIs(r, <-told, sharedinformer.ErrStopped)
	})
}
