package controller_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A read in a namespace that the informer does not watch never reports not found, and may succeed if it is retried.
func TestReadOfAnUnwatchedNamespaceFails(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"bank"}}})
		e.Start()
		p := controllertest.Put(e, pod("a")) // in shop
		e.Settle(0)
		_, err := pods.Read(e.Context(), object.KeyOf(p))
		require.ErrorIs(e, err, sharedinformer.ErrNotWatched)
		require.False(e, controller.IsTerminal(err))
		require.False(e, apierrors.IsNotFound(err))
		_, _, err = controller.CreateOrUpdate(e.Context(), pods, pod("a"), func(*corev1.Pod) error { return nil })
		require.ErrorIs(e, err, sharedinformer.ErrNotWatched)
		_, err = pods.Read(e.Context(), object.Key{Namespace: "bank", Name: "a"})
		require.True(e, apierrors.IsNotFound(err))
	})
}

// A reconcile that reads in a namespace that another informer does not watch yet succeeds later, without another
// event: the informers of a factory receive a new namespace one after another.
func TestReconcileSucceedsOnceItsReadsAreWatched(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		maps := controller.ClientFor[*corev1.ConfigMap](e.Factory)
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"bank"}}})
		controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}})
		controllertest.Put(e, pod("a"))
		var failed, succeeded int
		c := newController(e, controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
			_, err := pods.Read(ctx, r.Key)
			if err == nil {
				succeeded++
			} else {
				failed++
			}
			return controller.Result{}, err
		}), controller.Options{}, controller.For(maps))
		e.Start(c)
		e.Settle(time.Second)
		require.Positive(e, failed)
		require.NoError(e, pods.Informer().SetNamespaces([]string{"bank", "shop"}))
		e.Settle(time.Minute)
		require.Equal(e, 1, succeeded)
	})
}
