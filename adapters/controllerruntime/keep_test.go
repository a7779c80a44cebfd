package controllerruntime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/wire"
)

func TestKeep(t *testing.T) {
	without := side{"Options.NewCache", controllerruntime.Options{Keep: wire.WithoutManagedFields}.NewCache}
	on(t, without, func(r *rig) {
		managed := pod("shop", "a", "web")
		managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me", Operation: metav1.ManagedFieldsOperationUpdate}}
		r.put(managed)
		c := r.running(cache.Options{})
		for _, out := range podForms() {
			require.NoError(r, c.Get(r.ctx, key("shop", "a"), out))
			require.Equal(r, "web", out.GetLabels()["app"])
			require.Empty(r, out.GetManagedFields())
		}
	})
}

// A kind that lacks a field to keep could never sync, so callers get the error at once.
func TestKeepOfAFieldThatAKindLacks(t *testing.T) {
	status := side{"Options.NewCache", controllerruntime.Options{Keep: wire.Without("status")}.NewCache}
	on(t, status, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{})
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		for _, err := range []error{err, c.Get(ctx, key("shop", "a"), &corev1.ConfigMap{}), c.Get(ctx, key("shop", "a"), podForms()[0])} {
			require.ErrorIs(r, err, wire.ErrFields)
			require.ErrorContains(r, err, `Options.Keep: no such field: "status" of v1.`)
		}
		require.NoError(r, c.Get(ctx, key("shop", "a"), &corev1.Pod{}))
		require.True(r, c.WaitForCacheSync(ctx))
	})
}
