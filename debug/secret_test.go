package debug

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

type (
	holding  struct{ corev1.Secret }
	pointing struct{ *corev1.Secret }
	twice    struct{ holding }
	beside   struct{ Of corev1.Secret }
	Loop     struct {
		*Loop
		corev1.Pod
	}
)

// A Secret is known by its type, whatever is around it, and a type that holds itself is no
// endless way.
func TestWhichTypesAreSecrets(t *testing.T) {
	for want, types := range map[bool][]any{
		true:  {&corev1.Secret{}, corev1.Secret{}, &holding{}, pointing{}, &pointing{}, twice{}},
		false: {&corev1.Pod{}, &Loop{}, beside{}, map[string]any{}},
	} {
		for _, of := range types {
			require.Equal(t, want, embedsSecret(reflect.TypeOf(of)), "%T", of)
		}
	}
}
