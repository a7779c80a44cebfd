package controllermanager_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// half is the share of one of two processes.
func half(key shard.Key) shard.Scope { return shard.Scope{Key: key, Share: firstOfTwo} }

var firstOfTwo = shard.Ordinal(0, 2)

func TestControllersWorkOnTheirShare(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m := start(e, registry(t, controllermanager.Descriptor{Name: "labeller", New: func(c *controllermanager.Context) (manager.Runnable, error) {
			return label(c, controllermanager.ClientOf[*corev1.Namespace](c, shard.ByUID()))
		}}), controllermanager.Options{Shard: half})
		require.Equal(e, firstOfTwo, m.Share())
		labelled := 0
		for n := range 20 {
			name := object.Key{Name: fmt.Sprint("n", n)}
			controllertest.Put(e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name.Name}})
			e.Settle(time.Second)
			ns := controllertest.Get[*corev1.Namespace](e, name)
			ours := shard.SlotOf(shard.ByUID().Hash(ns), 2) == 0
			require.Equal(e, ours, ns.Labels["by"] != "", name)
			if ours {
				labelled++
			}
		}
		require.NotZero(e, labelled)
		require.NotEqual(e, 20, labelled)
	})
}

// A controller that works on everything would do so in every process.
func TestUnshardedControllerIsRefusedInAShardedManager(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		all := registry(t, controllermanager.Descriptor{Name: "labeller", New: labeller})
		m, err := controllermanager.New(all, e.Factory, controllermanager.Options{Shard: half})
		require.NoError(e, err)
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		require.ErrorContains(e, m.Run(ctx), "labeller: it handles all objects")

		m, err = controllermanager.New(all, e.Factory, controllermanager.Options{Shard: func(shard.Key) shard.Scope { return shard.Scope{} }})
		require.NoError(e, err)
		require.Nil(e, m.Share(), "nobody shares")

		_, err = controllermanager.New(all, e.Factory, controllermanager.Options{Shard: func(shard.Key) shard.Scope { panic("no") }})
		require.ErrorContains(e, err, "Shard panicked")
	})
}

// A kind that bypasses the cache has no share and no informer: ClientOf is not to blame.
func TestAKindThatIsNotCachedIsNotShared(t *testing.T) {
	namespaces := object.GVK{Version: "v1", Kind: "Namespace"}
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{DisableFor: []object.GVK{namespaces}}}, func(e *controllertest.Env) {
		all := registry(t, controllermanager.Descriptor{Name: "labeller", New: func(c *controllermanager.Context) (manager.Runnable, error) {
			return label(c, controllermanager.ClientOf[*corev1.Namespace](c, shard.ByUID()))
		}})
		m, err := controllermanager.New(all, e.Factory, controllermanager.Options{Shard: half})
		require.NoError(e, err)
		err = m.Run(e.Context())
		require.ErrorContains(e, err, "factory.Options.DisableFor")
		require.NotContains(e, err.Error(), "ClientOf")
	})
}

// label makes a controller that labels namespaces.
func label(c *controllermanager.Context, namespaces *controller.Client[*corev1.Namespace]) (manager.Runnable, error) {
	run, err := controller.New(c.Name(), controller.Objects(namespaces, func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
		_, _, err := controller.CreateOrUpdate(ctx, namespaces, ns, func(ns *corev1.Namespace) error {
			metav1.SetMetaDataLabel(&ns.ObjectMeta, "by", c.Name())
			return nil
		})
		return controller.Result{}, err
	}), c.Controller())
	if err != nil {
		return nil, err
	}
	run.Watch(controller.For(namespaces.Informer()))
	return run, nil
}
