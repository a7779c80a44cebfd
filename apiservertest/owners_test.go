package apiservertest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

const applyYAML = "application/apply-patch+yaml"

// applyMap applies data to the ConfigMap shop/c and returns the resulting data, or the
// error message.
func (r *rig) applyMap(manager, data string) (map[string]string, string) {
	r.t.Helper()
	_, raw, _ := r.do("PATCH", "/api/v1/namespaces/shop/configmaps/c?fieldManager="+manager,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":`+data+`}`, "Content-Type", applyYAML)
	var got struct {
		Data    map[string]string
		Message string
	}
	require.NoError(r.t, json.Unmarshal(raw, &got), "%s", raw)
	return got.Data, got.Message
}

func managers(o object.Object) string {
	var list []string
	for _, e := range o.GetManagedFields() {
		list = append(list, e.Manager+" "+string(e.Operation))
	}
	return strings.Join(list, ", ")
}

// Objects stored without HTTP are stored unchanged, and have owners once a client
// applies them.
func TestDirectWritesHaveOwners(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	put := func(data map[string]string) object.Object {
		stored, err := r.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c"}, Data: data})
		require.NoError(t, err)
		return stored
	}
	require.Empty(t, managers(put(map[string]string{"a": "1"})))
	require.Empty(t, managers(put(map[string]string{"a": "2"})))
	_, message := r.applyMap("me", `{"a":"1"}`)
	require.Contains(t, message, `conflict with "before-first-apply" using v1: .data.a`)
	_, message = r.applyMap("me", `{"b":"1"}`)
	require.Empty(t, message)
	require.Equal(t, "before-first-apply Update, test Update", managers(put(map[string]string{"a": "2", "b": "2", "c": "1"})))
	_, message = r.applyMap("me", `{"b":"1"}`)
	require.Contains(t, message, `conflict with "test" using v1`)
	data, _ := r.applyMap("me", `{}`)
	require.Equal(t, map[string]string{"a": "2", "b": "2", "c": "1"}, data, "me has lost b to the test")
}
