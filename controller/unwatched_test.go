package controller_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A read in a namespace that the informer does not watch never reports not found. Retries do not help.
func TestReadOfAnUnwatchedNamespaceFails(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"bank"}}})
		e.Start()
		p := controllertest.Put(e, pod("a")) // in shop
		e.Settle(0)
		_, err := pods.Read(e.Context(), object.KeyOf(p))
		require.ErrorIs(e, err, sharedinformer.ErrNotWatched)
		require.True(e, controller.IsTerminal(err))
		require.False(e, apierrors.IsNotFound(err))
		_, _, err = controller.CreateOrUpdate(e.Context(), pods, pod("a"), func(*corev1.Pod) error { return nil })
		require.ErrorIs(e, err, sharedinformer.ErrNotWatched)
		_, err = pods.Read(e.Context(), object.Key{Namespace: "bank", Name: "a"})
		require.True(e, apierrors.IsNotFound(err))
	})
}

// A read during which the namespace is added does not report not found, although the namespace was unwatched when the
// read looked whether the cache is synced, and watched when it looked for the object.
func TestReadWhileANamespaceIsAdded(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"bank"}}})
		e.Start()
		key := object.KeyOf(controllertest.Put(e, pod("a"))) // in shop
		var missed atomic.Int64
		for range 500 {
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for {
						_, err := pods.Read(e.Context(), key)
						if errors.Is(err, sharedinformer.ErrNotWatched) {
							continue
						}
						if apierrors.IsNotFound(err) {
							missed.Add(1)
						}
						return
					}
				})
			}
			require.NoError(e, pods.Informer().SetNamespaces([]string{"bank", "shop"}))
			readers.Wait()
			e.Settle(0)
			require.NoError(e, pods.Informer().SetNamespaces([]string{"bank"}))
			e.Settle(0)
		}
		require.Zero(e, missed.Load())
	})
}

// While one namespace's list is missing because the kind was not served, and another's is arriving, an object in the
// latter is not reported as missing.
func TestReadWhileAKindGetsServed(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		missing := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "")
		e.Server.Faults().Add(apiservertest.Fault{Verb: "list", Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 404, Reason: missing.Status().Reason}}})
		e.Server.Faults().Add(apiservertest.Fault{Verb: "watch", Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 404, Reason: missing.Status().Reason}}})
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"bank"}}})
		e.Start()
		key := object.KeyOf(controllertest.Put(e, pod("a"))) // in shop
		e.Settle(time.Minute)
		_, err := pods.Read(e.Context(), object.Key{Namespace: "bank", Name: "a"})
		require.True(e, apierrors.IsNotFound(err), "the kind is not served")
		require.NoError(e, pods.Informer().SetNamespaces([]string{"bank", "shop"}))
		_, err = pods.Read(e.Context(), key)
		require.ErrorIs(e, err, sharedinformer.ErrNotSynced, "nothing is known of this namespace")
	})
}
