package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// change changes the easily reachable parts of an object.
func change(o object.Object) {
	o.GetLabels()["app"] = "changed"
	switch o := o.(type) {
	case *corev1.Pod:
		*o.Spec.EnableServiceLinks = !*o.Spec.EnableServiceLinks
		o.Spec.Containers[0].Image = "changed"
		o.Spec.Tolerations = append(o.Spec.Tolerations[:0], corev1.Toleration{Key: "changed"})
	case *unstructured.Unstructured:
		o.Object["spec"].(map[string]any)["nodeName"] = "changed"
	}
}

// A copy belongs to the caller: changing it affects no other object, although opened objects share
// equal parts.
func TestCopyBelongsToTheCaller(t *testing.T) {
	pod := objects.Pod(1, 0, objects.Options{})
	pod.Labels, pod.Spec.EnableServiceLinks = map[string]string{"app": "web"}, new(true)
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "some", TolerationSeconds: new(int64(300))}}
	for name, o := range map[string]object.Object{
		"typed": pod, "untyped": &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "a", "labels": map[string]any{"app": "web"}}, "spec": map[string]any{"nodeName": "n"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := wire.NewPacker(wire.NewPool())
			packed, err := p.Pack(o)
			require.NoError(t, err)
			others := make([]object.Object, 0, 4)
			copied := func() object.Object {
				got, err := packed.Copy()
				require.NoError(t, err)
				require.True(t, equality.Semantic.DeepEqual(o, got))
				return got
			}
			change(copied())
			require.EqualValues(t, 1, p.Opened())
			_, used := packed.InUse()
			require.False(t, used, "a copy is nobody else's")
			for range 3 { // equal parts are shared from the second or third object on
				again, err := p.Pack(o)
				require.NoError(t, err)
				opened, err := again.Open()
				require.NoError(t, err)
				others = append(others, opened)
			}
			opened, err := packed.Open()
			require.NoError(t, err)
			others = append(others, opened)
			change(copied())
			change(copied())
			for _, other := range others {
				require.True(t, equality.Semantic.DeepEqual(o, other))
			}
		})
	}
}

// An object kept whole is copied, too.
func TestCopyOfAnObjectKeptWhole(t *testing.T) {
	o := objects.Pod(1, 0, objects.Options{})
	o.Labels = map[string]string{"app": "web"}
	o.CreationTimestamp.Time = o.CreationTimestamp.Add(1) // nanoseconds are not encoded
	p := wire.NewPacker(nil)
	packed, err := p.Pack(o)
	require.NoError(t, err)
	require.True(t, packed.KeptWhole())
	copied, err := packed.Copy()
	require.NoError(t, err)
	require.True(t, equality.Semantic.DeepEqual(o, copied))
	copied.GetLabels()["app"] = "changed"
	require.Equal(t, "web", o.Labels["app"])
}
