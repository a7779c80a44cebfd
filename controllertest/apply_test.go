package controllertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
)

// Server-side apply behaves as on a cluster.
func TestApplyOwnsFields(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		maps := controller.ClientFor[*corev1.ConfigMap](e.Factory)
		e.Start()
		wanted := func(data map[string]string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Data: data}
		}
		_, err := maps.Apply(e.Context(), wanted(map[string]string{"a": "1", "b": "1"}), "me")
		require.NoError(t, err)
		less, err := maps.Apply(e.Context(), wanted(map[string]string{"a": "1"}), "me")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "1"}, less.Data, "what is left out goes")

		_, err = maps.ApplyWith(e.Context(), wanted(map[string]string{"a": "2"}), metav1.ApplyOptions{FieldManager: "you"})
		require.True(t, apierrors.IsConflict(err), "%v", err)
		require.True(t, apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict))
		forced, err := maps.Apply(e.Context(), wanted(map[string]string{"a": "2"}), "you")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "2"}, forced.Data)
	})
}
