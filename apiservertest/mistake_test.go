package apiservertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

// Mistakes of a test are reported and do not prevent it from closing the server.
func TestMistakesOfATestAreReported(t *testing.T) {
	bad := false
	srv := apiservertest.New(apiservertest.Options{Resources: []apiservertest.Resource{{
		GVR: object.GVR{Group: "example.com", Version: "v1", Resource: "claims"}, Kind: "Claim",
		New: func() object.Object {
			if bad {
				panic("new")
			}
			return &corev1.PersistentVolumeClaim{}
		},
	}}})
	defer srv.Close()
	var missing *corev1.Pod
	for _, nothing := range []object.Object{nil, missing} {
		for name, write := range map[string]func(object.Object) (object.Object, error){"create": srv.Create, "update": srv.Update, "put": srv.Put} {
			_, err := write(nothing)
			require.EqualError(t, err, "the object is nil", name)
		}
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "a"}}
	_, err := srv.Put(pod)
	require.NoError(t, err)
	require.Panics(t, func() { srv.Restore(nil) })
	require.Len(t, srv.Objects(object.GVR{Version: "v1", Resource: "pods"}), 1)

	other := &corev1.Binding{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Claim"}}
	bad = true
	require.PanicsWithValue(t, "new", func() { _, _ = srv.Update(other) })
	bad = false
	_, err = srv.Update(pod)
	require.NoError(t, err)
}
