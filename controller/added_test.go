package controller_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
)

// A namespace is added while the controller runs, and one source cannot list it yet. As at the start, a request in
// that namespace waits until every source has listed it: otherwise, its reconcile would see none of the objects.
func TestRequestInANamespaceAddedLaterWaitsForAllSources(t *testing.T) {
	t.Run("required", func(t *testing.T) { addNamespace(t, func(s controller.Source) controller.Source { return s }) })
	t.Run("optional", func(t *testing.T) { addNamespace(t, controller.Source.Optional) })
}

func addNamespace(t *testing.T, awaited func(controller.Source) controller.Source) {
	var forbidden atomic.Bool
	forbidden.Store(true)
	controllertest.RunWith(t, controllertest.Options{
		Factory: factory.Options{Namespaces: []string{"shop"}},
		Server: apiservertest.Options{Authorize: func(a apiservertest.Attributes) bool {
			return a.Resource != "secrets" || a.Namespace != "mail" || !forbidden.Load()
		}},
	}, func(e *controllertest.Env) {
		maps, secrets := controller.ClientFor[*corev1.ConfigMap](e.Factory), controller.ClientFor[*corev1.Secret](e.Factory)
		j := &journal{}
		c := newController(e, controller.Func(func(_ context.Context, r controller.Request) (controller.Result, error) {
			seen := 0
			for range secrets.Cache().Namespace(r.Namespace) {
				seen++
			}
			if seen == 0 {
				j.write(r.String() + " without its secret")
			} else {
				j.write(r.String())
			}
			return controller.Result{}, nil
		}), controller.Options{}, controller.For(maps), awaited(controller.Awaited(secrets)))
		for _, namespace := range []string{"shop", "mail"} {
			controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}})
			controllertest.Put(e, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}})
		}
		e.Start(c)
		e.Settle(time.Minute)
		require.Equal(t, []string{"shop/a"}, j.read())
		require.NoError(t, e.Factory.SetNamespaces([]string{"shop", "mail"}))
		e.Settle(time.Minute)
		before := j.read()
		forbidden.Store(false)
		e.Settle(10 * time.Minute)
		require.Empty(t, before, "the cache of secrets lacks the namespace")
		require.Equal(t, []string{"mail/a"}, j.read())
	})
}
