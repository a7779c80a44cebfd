package controller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Every source takes a client or an informer.
func TestSourcesTakeClientsAndInformers(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		owners := controller.ClientFor[*corev1.Namespace](e.Factory)
		client := controller.ClientFor[*corev1.Pod](e.Factory)
		toNothing := func(*corev1.Pod) []controller.Request { return nil }
		mapped := func(context.Context, *corev1.Pod) ([]controller.Request, error) { return nil, nil }
		handle := func(context.Context, sharedinformer.Event[*corev1.Pod], *controller.Inbox) error { return nil }
		index := controller.AddIndex(client, "name", func(p *corev1.Pod) []string { return []string{p.Name} })
		name := func(p *corev1.Pod) string { return p.Name }
		of := func(pods controller.Cached[*corev1.Pod]) []controller.Source {
			return []controller.Source{
				controller.For(pods), controller.Owns(pods, owners), controller.OwnsAny(pods, owners), controller.Owned(pods, owners),
				controller.Owned(controller.Where(pods), owners), controller.Awaited(pods), controller.Map(pods, mapped), controller.MapFunc(pods, toNothing),
				controller.MapByIndex(pods, index, name), controller.Handle(pods, handle),
			}
		}
		for n, s := range slices.Concat(of(client), of(client.Informer())) {
			require.NoError(t, s.Err(), n)
			require.Equal(t, "pods", s.String(), n)
		}
		var noClient *controller.Client[*corev1.Pod]
		var noInformer *sharedinformer.Informer[*corev1.Pod]
		for n, s := range slices.Concat(of(nil), of(noClient), of(noInformer)) {
			require.ErrorContains(t, s.Err(), "the source's informer is nil", n)
		}
		for _, none := range []controller.Watchable{nil, noClient, noInformer, controller.Where(noInformer), controller.Where[*corev1.Pod](nil)} {
			require.ErrorContains(t, controller.Owned(none, owners).Err(), "the source's informer is nil")
			require.ErrorContains(t, controller.Awaited(none).Err(), "the source's informer is nil")
		}
		require.ErrorContains(t, controller.Owned(controller.Where(client, nil), owners).Err(), "nil")
		require.PanicsWithValue(t, failure.Place(0)+": the source's index or function is nil", func() { controller.MapByIndex(client, index, nil) })
		require.PanicsWithValue(t, failure.Place(0)+`: the function of index "x" is nil`, func() { controller.AddIndex[*corev1.Pod, string](client, "x", nil) })
		defer func() {
			require.Regexp(t, `^controller/watchable_test.go:\d+: index "x": the source's informer is nil, `, recover())
		}()
		controller.AddIndex(noClient, "x", func(p *corev1.Pod) []string { return nil })
	})
}

// Where drops events of a kind whose type the builder does not know.
func TestWhereDropsEvents(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods, maps := controller.ClientFor[*corev1.Pod](e.Factory), controller.ClientFor[*corev1.ConfigMap](e.Factory)
		count := 0
		c, err := controller.New("c", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			count++
			return controller.Result{}, nil
		}), controller.Options{})
		require.NoError(t, err)
		c.Watch(controller.Owned(controller.Where(maps, controller.LabelsChanged[*corev1.ConfigMap]()), pods))
		owner := controllertest.Put(e, pod("a"))
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}
		require.NoError(t, controller.SetControllerReference(owner, m, e.Client.Scheme()))
		m = controllertest.Put(e, m)
		e.Start(c)
		require.Equal(t, 1, count)
		m.Data = map[string]string{"a": "b"}
		m = controllertest.Put(e, m)
		require.Equal(t, 1, count)
		m.Labels = map[string]string{"a": "b"}
		controllertest.Put(e, m)
		require.Greater(t, count, 1) // a worker may take the request of the old object before that of the new one is added
	})
}

// A changed object reconciles the objects that an index has under its old and its new value.
func TestMapByIndex(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods, maps := factory.Informer[*corev1.Pod](e.Factory), controller.ClientFor[*corev1.ConfigMap](e.Factory)
		byNode := controller.AddIndex(pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		var reconciled []string
		c, err := controller.New("c", controller.Func(func(_ context.Context, req controller.Request) (controller.Result, error) {
			reconciled = append(reconciled, req.Name)
			return controller.Result{}, nil
		}), controller.Options{})
		require.NoError(t, err)
		c.Watch(controller.For(pods))
		c.Watch(controller.MapByIndex(maps, byNode, func(m *corev1.ConfigMap) string { return m.Data["node"] }))
		for n := range 4 {
			p := pod(fmt.Sprint("p", n))
			p.Spec.NodeName = fmt.Sprint("n", n%2)
			controllertest.Put(e, p)
		}
		e.Start(c)
		after := func(data string) []string {
			reconciled = nil
			controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "m"}, Data: map[string]string{"node": data}})
			slices.Sort(reconciled)
			return reconciled
		}
		require.Equal(t, []string{"p0", "p2"}, after("n0"))
		require.Equal(t, []string{"p0", "p1", "p2", "p3"}, after("n1"), "what it was and what it is")
		require.Equal(t, []string{"p1", "p3"}, after("nowhere"))
		reconciled = nil
		controllertest.Delete[*corev1.ConfigMap](e, object.Key{Namespace: "x", Name: "m"})
		require.Empty(t, reconciled)
	})
}
