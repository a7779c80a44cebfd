package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// ownedBy lists the fields that the only manager of an object owns, sorted.
func ownedBy(t *testing.T, o object.Object) []string {
	t.Helper()
	require.Len(t, o.GetManagedFields(), 1)
	var tree map[string]any
	require.NoError(t, json.Unmarshal(o.GetManagedFields()[0].FieldsV1.Raw, &tree))
	var owned []string
	var walk func(path string, tree map[string]any)
	walk = func(path string, tree map[string]any) {
		if len(tree) == 0 {
			owned = append(owned, strings.TrimPrefix(path, "/"))
		}
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			walk(path+"/"+strings.TrimPrefix(name, "f:"), tree[name].(map[string]any))
		}
	}
	walk("", tree)
	return owned
}

// Applying a typed object owns only the fields that were set.
func TestApplyOwnsOnlySetFields(t *testing.T) {
	client, ns := admin(t)
	labels := map[string]string{"a": "b"}
	me := metav1.ApplyOptions{FieldManager: "me"}
	d, err := rest.ResourceFor[*appsv1.Deployment](client).Namespace(ns).Apply(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "m", Image: "i"}},
					Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}, me)
	require.NoError(t, err)
	const spec, template = "spec/selector", "spec/template/spec/"
	require.Equal(t, []string{
		spec, "spec/template/metadata/labels/a",
		template + `containers/k:{"name":"m"}/.`, template + `containers/k:{"name":"m"}/image`, template + `containers/k:{"name":"m"}/name`,
		template + `volumes/k:{"name":"v"}/.`, template + `volumes/k:{"name":"v"}/emptyDir`, template + `volumes/k:{"name":"v"}/name`,
	}, ownedBy(t, d))

	s, err := rest.ResourceFor[*corev1.Service](client).Namespace(ns).Apply(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, me)
	require.NoError(t, err)
	require.Equal(t, []string{
		`spec/ports/k:{"port":80,"protocol":"TCP"}/.`, `spec/ports/k:{"port":80,"protocol":"TCP"}/port`,
	}, ownedBy(t, s))
	require.EqualValues(t, 80, s.Spec.Ports[0].TargetPort.IntValue(), "by default that of the service")
}
