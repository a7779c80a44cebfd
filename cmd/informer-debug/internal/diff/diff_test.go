package diff

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestChanges(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct {
		old, new m
		want     string
	}{
		"nothing":     {m{"spec": m{"a": int64(1)}}, m{"spec": m{"a": int64(1)}}, ""},
		"value":       {m{"status": m{"phase": "Pending"}}, m{"status": m{"phase": "Running"}}, "status.phase: Pending→Running"},
		"added":       {m{"spec": m{}}, m{"spec": m{"nodeName": "n1", "hard": m{"a": "b"}}}, "+spec.nodeName=n1, +spec.hard={1}"},
		"removed":     {m{"metadata": m{"labels": m{"app.io/x": "1"}}}, m{"metadata": m{"labels": m{}}}, "-metadata.labels[app.io/x]"},
		"named items": {m{"status": m{"conditions": []any{m{"type": "Ready", "status": "False"}}}}, m{"status": m{"conditions": []any{m{"type": "Init", "status": "True"}, m{"type": "Ready", "status": "True"}}}}, "status.conditions[Ready].status: False→True, +status.conditions[Init]={2}"},
		"items":       {m{"spec": m{"args": []any{"a", "b"}}}, m{"spec": m{"args": []any{"a", "c"}}}, "spec.args[1]: b→c"},
		"lengths":     {m{"spec": m{"args": []any{"a"}}}, m{"spec": m{"args": []any{"a", "c"}}}, "spec.args: [1]→[2]"},
		"types":       {m{"spec": m{"a": "1"}}, m{"spec": m{"a": int64(1)}}, "spec.a: 1→1"},
		"noise":       {m{"metadata": m{"resourceVersion": "1", "generation": int64(1), "managedFields": []any{}}}, m{"metadata": m{"resourceVersion": "2", "generation": int64(2), "managedFields": []any{m{}}}}, ""},
		"order":       {m{"metadata": m{"labels": m{"a": "1"}}, "status": m{"lastTime": "1", "b": nil}, "spec": m{"z": false}}, m{"metadata": m{"labels": m{"a": "2"}}, "status": m{"lastTime": "2", "b": "x y"}, "spec": m{"z": true}}, `spec.z: false→true, status.b: null→"x y", metadata.labels.a: 1→2, and 1 more`},
		"hostile":     {m{"data": m{"k": "a"}}, m{"data": m{"k": "\x1b[2J" + string(make([]byte, 99))}}, `data.k: a→"\x1b[2J` + `\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00…"`},
	} {
		t.Run(name, func(t *testing.T) {
			changes, err := Between(tree(c.old), tree(c.new))
			require.NoError(t, err)
			assert.Equal(t, c.want, Summarize(changes, true))
		})
	}
}

func TestChangesOfMetadataAlone(t *testing.T) {
	a := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x", ResourceVersion: "1"}}
	b := a.DeepCopy()
	b.ResourceVersion, b.Finalizers = "2", []string{"example.com/hold"}
	changes, err := Between(a, b)
	require.NoError(t, err)
	assert.Equal(t, "+metadata.finalizers=[1]", Summarize(changes, true))
}

func tree(fields map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: fields}
}
