package controller_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/shard"
)

// Sharing the work does not change what a controller waits for: neither for an optional kind that is not installed,
// nor, for requests in one namespace, for the list of another.
func TestL27_ASharedOptionalKindThatIsNotInstalledHoldsNothingBack(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		scope := factory.Scope{Shard: shard.Scope{Share: shard.Ordinal(0, 1)}}
		owned := factory.Scope{Shard: shard.Scope{Share: scope.Shard.Share, Key: shard.ByOwner()}}
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: scope})
		custom := controller.ClientWith(e.Factory, factory.For[*unstructured.Unstructured]{Kind: widgets.GVK(), Scope: owned, Optional: true})
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.For(pods), controller.Owns(custom, pods).Optional())
		controllertest.Put(e, pod("a"))
		e.Start(c)
		e.Settle(time.Hour)
		require.NoError(e, c.Ready())
		require.Equal(e, []string{"shop/a"}, j.read())
		require.NoError(e, e.Server.AddResource(widgets))
		e.Settle(5 * time.Minute)
		controllertest.Put(e, pod("b"))
		e.Settle(time.Minute)
		require.Equal(e, []string{"shop/b"}, j.read())
		require.NoError(e, e.Server.RemoveResource(widgets.GVR))
		e.Settle(5 * time.Minute)
		controllertest.Put(e, pod("c"))
		e.Settle(time.Minute)
		require.Equal(e, []string{"shop/c"}, j.read())
	})
}

func TestL27_ANamespaceThatCannotBeListedHoldsNoOtherBackIfTheWorkIsShared(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{
		Factory: factory.Options{Namespaces: []string{"shop", "gone"}},
		Server:  apiservertest.Options{Authorize: func(a apiservertest.Attributes) bool { return a.Namespace != "gone" }},
	}, func(e *controllertest.Env) {
		maps := factory.InformerWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Shard: shard.Scope{Share: shard.Ordinal(0, 1)}}})
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.For(maps))
		controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}})
		e.Start(c)
		e.Settle(time.Hour)
		require.NoError(e, c.Ready())
		require.Equal(e, []string{"shop/a"}, j.read())
	})
}
