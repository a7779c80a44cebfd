package controllerruntime_test

import (
	"testing"

	"github.com/stretchr/testify/require"
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
