package controller_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
