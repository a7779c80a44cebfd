package controller_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/wire"
)

type conditioned interface {
	object.Object
	Conditions() []string
}

// A kind whose Go type lacks a method of the interface is rejected before any request is sent.
func TestAReadOfAnInterfaceThatTheKindLacks(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		p := controllertest.Put(e, pod("a"))
		e.Start()
		c := controller.NewClient(nil, rest.ResourceForKind[conditioned](e.Factory.Client(), object.GVK{Version: "v1", Kind: "Pod"}))
		o, err := c.Read(e.Context(), object.KeyOf(p))
		require.ErrorIs(t, err, wire.ErrKind)
		require.Nil(t, o)
	})
}

func TestAPatchOfAnInterfaceThatTheKindLacks(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		p := controllertest.Put(e, pod("a"))
		e.Start()
		c := controller.NewClient(nil, rest.ResourceForKind[conditioned](e.Factory.Client(), object.GVK{Version: "v1", Kind: "Pod"}))
		o, err := c.Patch(e.Context(), object.KeyOf(p), "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`))
		require.ErrorIs(t, err, wire.ErrKind)
		require.Nil(t, o)
	})
}

// A client that only reads from its cache needs no resource.
func TestAClientWithoutAResource(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		i := controller.ClientFor[*corev1.Pod](e.Factory).Informer()
		require.NotPanics(t, func() { controller.NewClient(i, nil) })
	})
}
