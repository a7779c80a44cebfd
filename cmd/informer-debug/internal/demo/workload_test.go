package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

// TestWorkloadIsNotAlone writes to the server of the demonstration, as any other client may.
func TestWorkloadIsNotAlone(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	w := NewWorkload(srv, 1)
	require.NoError(t, w.Begin())
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for n := range 200 {
		other := srv.Objects(pods)[0].DeepCopyObject().(*corev1.Pod)
		if n%10 == 0 {
			require.NoError(t, srv.Delete(pods, object.KeyOf(other)))
		} else {
			other.Labels["touched"] = "yes"
			_, err := srv.Update(other)
			require.NoError(t, err)
		}
		require.NoError(t, w.step())
		require.LessOrEqual(t, len(srv.Objects(pods)), manyPods)
	}
}
