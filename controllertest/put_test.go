package controllertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/object"
)

// Put replaces an object that is being deleted by a new one. A copy of that object only completes its
// deletion.
func TestPutWhileItIsBeingDeleted(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		key := object.Key{Namespace: "shop", Name: "a"}
		held := func() *corev1.ConfigMap {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Finalizers: []string{"example.com/f"}}}
			controllertest.Put(e, cm)
			controllertest.Delete[*corev1.ConfigMap](e, key)
			return controllertest.Get[*corev1.ConfigMap](e, key)
		}
		old := held()
		put := controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
		require.Equal(t, put, controllertest.Get[*corev1.ConfigMap](e, key))
		require.NotEqual(t, old.UID, put.UID)
		require.Nil(t, put.DeletionTimestamp)

		controllertest.Delete[*corev1.ConfigMap](e, key)
		old = held()
		old.Finalizers = nil
		controllertest.Put(e, old)
		require.Empty(t, controllertest.All[*corev1.ConfigMap](e))
	})
}
