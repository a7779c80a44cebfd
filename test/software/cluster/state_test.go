package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// pod is a Pod of a ReplicaSet with random names and times, as in a cluster.
func pod(drawn, uid, owner, address, when string, labels ...any) located {
	return located{"pods", &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"namespace": "shop", "name": "web-" + drawn, "generateName": "web-", "uid": uid,
			"generation": int64(3), "resourceVersion": uid, "creationTimestamp": when,
			"ownerReferences": []any{map[string]any{"uid": owner}},
		},
		"spec":   map[string]any{"nodeName": "node-" + drawn, "containers": []any{map[string]any{"name": "c"}}},
		"status": map[string]any{"podIP": address, "since": "at " + when, "observedGeneration": int64(3), "list": labels},
	}}}
}

func set(uid string) located {
	return located{"replicasets.apps", &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": uid},
	}}}
}

// Random differences do not count; others do.
func TestStatesAreComparedWithoutChance(t *testing.T) {
	compared := func(all ...located) State {
		s, err := compare(all)
		require.NoError(t, err)
		return s
	}
	one := compared(set("u1"), pod("abc", "u2", "u1", "10.0.0.1", "2026-01-02T03:04:05Z", "a", "b"), pod("def", "u3", "u1", "10.0.0.2", "2026-01-02T03:04:05Z", "a", "b"))
	require.Equal(t, 3, one.Objects())
	noted := set("v1")
	noted.object.SetAnnotations(map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "now"})
	other := compared(noted, pod("xyz", "v2", "v1", "10.0.0.9", "2027-01-02T03:04:05.123Z", "b", "a"), pod("uvw", "v3", "v1", "10.0.0.8", "2026-01-02T03:04:05Z", "a", "b"))
	require.Empty(t, Differences(one, other))

	stale := pod("def", "u3", "u1", "10.0.0.2", "2026-01-02T03:04:05Z", "a", "b")
	require.NoError(t, unstructured.SetNestedField(stale.object.Object, int64(2), "status", "observedGeneration"))
	for name, changed := range map[string]State{
		"one too few":         compared(set("u1"), pod("abc", "u2", "u1", "10.0.0.1", "2026-01-02T03:04:05Z", "a", "b")),
		"another's":           compared(set("u1"), pod("abc", "u2", "u1", "10.0.0.1", "2026-01-02T03:04:05Z", "a", "b"), pod("def", "u3", "gone", "10.0.0.2", "2026-01-02T03:04:05Z", "a", "b")),
		"not up to date":      compared(set("u1"), pod("abc", "u2", "u1", "10.0.0.1", "2026-01-02T03:04:05Z", "a", "b"), stale),
		"another value":       compared(set("u1"), pod("abc", "u2", "u1", "10.0.0.1", "2026-01-02T03:04:05Z", "a", "b"), pod("def", "u3", "u1", "10.0.0.2", "2026-01-02T03:04:05Z", "a", "c")),
		"no address, no time": compared(set("u1"), pod("abc", "u2", "u1", "10.0.0.1", "2026-01-02T03:04:05Z", "a", "b"), pod("def", "u3", "u1", "", "", "a", "b")),
	} {
		require.NotEmpty(t, Differences(one, changed), name)
		require.Len(t, Differences(changed, one), len(Differences(one, changed)), name)
	}
}
