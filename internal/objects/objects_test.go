package objects_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
)

// kinds makes the i-th object of each kind.
func kinds() map[string]func(seed uint64, i int, o objects.Options) object.Object {
	return map[string]func(uint64, int, objects.Options) object.Object{
		"pod":        func(seed uint64, i int, o objects.Options) object.Object { return objects.Pod(seed, i, o) },
		"deployment": func(seed uint64, i int, o objects.Options) object.Object { return objects.Deployment(seed, i, o) },
		"widget":     func(seed uint64, i int, o objects.Options) object.Object { return objects.Widget(seed, i, o) },
	}
}

func variants() []objects.Options { return []objects.Options{{}, {Hostile: true}} }

func marshal(t *testing.T, obj object.Object) []byte {
	t.Helper()
	raw, err := json.Marshal(obj)
	require.NoError(t, err)
	return raw
}

// mean returns the mean of size for the first thousand objects.
func mean(size func(i int) int) int {
	const n, seed = 1000, 1
	sum := 0
	for i := range n {
		sum += size(i)
	}
	return sum / n
}

func TestSizes(t *testing.T) {
	between := func(t *testing.T, what string, got, low, high int) {
		t.Helper()
		t.Logf("%s: %d bytes", what, got)
		if got < low || got > high {
			t.Errorf("%s: got %d bytes, want %d to %d", what, got, low, high)
		}
	}
	want := map[string][2]int{"pod": {6800, 7050}, "deployment": {5000, 6000}, "widget": {2700, 3300}}
	for _, o := range variants() {
		for kind, build := range kinds() {
			low, high := want[kind][0], want[kind][1]
			if o.Hostile {
				low, high = low*9/10, high*13/10
			}
			between(t, fmt.Sprintf("%s, hostile %t, JSON", kind, o.Hostile), mean(func(i int) int { return len(marshal(t, build(1, i, o))) }), low, high)
		}
	}
	between(t, "pod, protobuf", mean(func(i int) int { return objects.Pod(1, i, objects.Options{}).Size() }), 4300, 4700)
}

func TestPodMatchesItsDescription(t *testing.T) {
	apps, namespaces, nodes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	keys, uids, ips := map[object.Key]bool{}, map[string]bool{}, map[string]bool{}
	const n = 20_000
	for i := range n {
		p := objects.Pod(7, i, objects.Options{})
		apps[p.OwnerReferences[0].Name], namespaces[p.Namespace], nodes[p.Spec.NodeName] = true, true, true
		keys[object.KeyOf(p)], uids[string(p.UID)], ips[p.Status.PodIP] = true, true, true
		require.Len(t, p.Labels, 5)
		require.Len(t, p.ManagedFields, 2)
		require.Len(t, p.Status.Conditions, 4)
		require.Len(t, p.Status.ContainerStatuses, 2)
		require.Len(t, p.Spec.Containers, 2)
		require.NotNil(t, p.Spec.Containers[0].LivenessProbe)
		for _, c := range p.Spec.Containers {
			require.Len(t, c.Env, 11)
			require.NotNil(t, c.ReadinessProbe)
			require.NotEmpty(t, c.Resources.Requests)
		}
		for _, m := range p.ManagedFields {
			require.True(t, json.Valid(m.FieldsV1.Raw), "%s", m.FieldsV1.Raw)
		}
	}
	require.Len(t, apps, objects.Apps)
	require.Len(t, namespaces, objects.Namespaces)
	require.Len(t, nodes, objects.Nodes)
	require.Len(t, keys, n)
	require.Len(t, uids, n)
	require.Len(t, ips, n)
}

func TestAnObjectDependsOnSeedAndIndexAlone(t *testing.T) {
	digest := sha256.New()
	for _, kind := range []string{"pod", "deployment", "widget"} {
		build := kinds()[kind]
		for _, o := range variants() {
			var forward [5][]byte
			for i := range forward {
				forward[i] = marshal(t, build(3, i, o))
				digest.Write(forward[i])
			}
			for i := len(forward) - 1; i >= 0; i-- {
				require.Equal(t, string(forward[i]), string(marshal(t, build(3, i, o))), "%s %d", kind, i)
			}
			require.NotEqual(t, forward[0], marshal(t, build(4, 0, o)), "%s: the seed must matter", kind)
			a := build(3, 0, o)
			a.GetLabels()["app"] = "changed"
			require.Equal(t, string(forward[0]), string(marshal(t, build(3, 0, o))), "%s: memory is shared", kind)
		}
	}
	// These bytes are the input of all benchmarks. After an intended change, update the digest and
	// repeat the benchmarks.
	require.Equal(t, "e3c524faf3f00e2586ae020ff3e4b1bae9297facbec2aaf5df59501a7419b40f", hex.EncodeToString(digest.Sum(nil)))
}

func TestKeysDiffer(t *testing.T) {
	for kind, build := range kinds() {
		seen := map[object.Key]bool{}
		for i := range 5000 {
			seen[object.KeyOf(build(1, i, objects.Options{}))] = true
		}
		require.Len(t, seen, 5000, kind)
	}
}

func TestTenKinds(t *testing.T) {
	seen, uids := map[string]bool{}, map[string]bool{}
	for _, kind := range objects.Kinds() {
		require.False(t, seen[kind.Resource.Resource], kind.Resource)
		seen[kind.Resource.Resource] = true
		keys := map[object.Key]bool{}
		for i := range 500 {
			o := kind.New(1, i, objects.Options{})
			require.False(t, uids[string(o.GetUID())], "%s %d", kind.Resource, i)
			keys[object.KeyOf(o)], uids[string(o.GetUID())] = true, true
			require.NotEmpty(t, o.GetManagedFields())
		}
		require.Len(t, keys, 500, kind.Resource)
		require.Equal(t, marshal(t, kind.New(1, 3, objects.Options{})), marshal(t, kind.New(1, 3, objects.Options{})))
		t.Logf("%s: %d bytes", kind.Resource.Resource, mean(func(i int) int { return len(marshal(t, kind.New(1, i, objects.Options{}))) }))
	}
	require.Len(t, seen, 10)
}

// part is a piece of an object, as JSON, that has been found in n objects.
type parts map[string]int

// add counts each part of the object once; leaves are parts, names are not.
func (p parts) add(obj any) {
	mine := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		mine[string(raw)] = true
		switch v := v.(type) {
		case map[string]any:
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(obj)
	for raw := range mine {
		p[raw]++
	}
}

func generic(t *testing.T, obj object.Object) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal(marshal(t, obj), &out))
	return out
}

func TestHostileObjectsHaveNothingInCommon(t *testing.T) {
	const longest = 50 // bytes, as in {"type":"Ready","status":"True"}
	for kind, build := range kinds() {
		seen := parts{}
		for i := range 300 {
			seen.add(generic(t, build(1, i, objects.Options{Hostile: true})))
		}
		for raw, n := range seen {
			if n > 1 && len(raw) > longest {
				t.Errorf("%s: found in %d objects: %s", kind, n, raw)
			}
		}
	}
}

func TestReplicasShareTheSamePartsAsInARealCluster(t *testing.T) {
	a, b := objects.Pod(1, 5, objects.Options{}), objects.Pod(1, 5+objects.Apps, objects.Options{})
	require.Equal(t, a.Labels, b.Labels)
	require.Equal(t, a.OwnerReferences, b.OwnerReferences)
	require.Equal(t, a.ManagedFields[0].FieldsV1, b.ManagedFields[0].FieldsV1)
	require.NotEqual(t, a.ManagedFields[1].FieldsV1, b.ManagedFields[1].FieldsV1, "the kubelet's has the IP")
	require.Equal(t, a.Spec.Tolerations, b.Spec.Tolerations)
	for c := range a.Spec.Containers {
		x, y := a.Spec.Containers[c], b.Spec.Containers[c]
		require.NotEqual(t, x.VolumeMounts, y.VolumeMounts)
		x.VolumeMounts, y.VolumeMounts = nil, nil
		require.Equal(t, x, y)
	}
	require.NotEqual(t, a.Labels, objects.Pod(1, 6, objects.Options{}).Labels)

	alike := objects.Options{Alike: true}
	x, y := objects.Pod(1, 5, alike), objects.Pod(1, 5+objects.Apps, alike)
	require.Equal(t, a.Spec, x.Spec, "only the times and the kubelet's entry are unusual")
	require.Equal(t, a.Status.PodIP, x.Status.PodIP)
	require.Equal(t, x.ManagedFields, y.ManagedFields)
	require.Equal(t, x.Status.Conditions, y.Status.Conditions)
	require.NotEqual(t, x.UID, y.UID)
	require.NotEqual(t, x.Status.PodIP, y.Status.PodIP)
	require.NotEqual(t, x.Status.Conditions, objects.Pod(1, 6, alike).Status.Conditions)
	require.Equal(t, objects.Next(x, 3).Status.Conditions, objects.Next(y, 3).Status.Conditions)

	w, v := objects.Widget(1, 5, objects.Options{}), objects.Widget(1, 5+objects.Apps, objects.Options{})
	require.Equal(t, w.Object["spec"], v.Object["spec"])
	require.NotEqual(t, w.Object["status"], v.Object["status"])

	d, e := objects.Deployment(1, 5, objects.Options{}), objects.Deployment(1, 5+objects.Apps, objects.Options{})
	require.Equal(t, d.Spec, e.Spec)
	require.NotEqual(t, d.Name, e.Name)
}

func TestWidgetEqualsDecodedJSON(t *testing.T) {
	for _, o := range variants() {
		w := objects.Widget(1, 2, o)
		again := new(unstructured.Unstructured)
		require.NoError(t, again.UnmarshalJSON(marshal(t, w)))
		require.Equal(t, w.Object, again.Object)
	}
}

func TestNext(t *testing.T) {
	for kind, build := range kinds() {
		for _, o := range variants() {
			first := build(1, 42, o)
			before := marshal(t, first)
			require.Equal(t, "1000042", first.GetResourceVersion())
			seen := map[string]bool{string(before): true}
			for n := 1; n <= 10; n++ {
				next := objects.Next(first, n)
				raw := marshal(t, next)
				seen[string(raw)] = true
				require.Equal(t, fmt.Sprint((n+1)*objects.Round+42), next.GetResourceVersion(), kind)
				require.InDelta(t, len(before), len(raw), 60, kind)
				require.Equal(t, string(raw), string(marshal(t, objects.Next(objects.Next(first, n+3), n))),
					"%s: version %d does not depend on what was before", kind, n)
				require.Equal(t, generic(t, first)["spec"], generic(t, next)["spec"], kind)
				require.NotEqual(t, generic(t, first)["status"], generic(t, next)["status"], kind)
			}
			require.Len(t, seen, 11, "%s: each version differs", kind)
			require.Equal(t, string(before), string(marshal(t, first)), "%s: Next alters its argument", kind)
		}
	}
}

func TestAWidgetHasAHeartbeat(t *testing.T) {
	w := objects.Widget(1, 0, objects.Options{})
	seen := map[string]bool{}
	for n := range 3 {
		beat, _, err := unstructured.NestedString(objects.Next(w, n+1).Object, "status", "heartbeat")
		require.NoError(t, err)
		seen[beat] = true
	}
	require.Len(t, seen, 3)
}

func ExampleNext() {
	pod := objects.Pod(1, 0, objects.Options{})
	for n := 1; n <= 2; n++ {
		next := objects.Next(pod, n)
		for _, c := range next.Status.Conditions {
			if c.Type == corev1.PodReady {
				fmt.Println(next.ResourceVersion, c.Status, next.Status.ContainerStatuses[0].RestartCount)
			}
		}
	}
	// Output:
	// 2000000 False 1
	// 3000000 True 1
}

func BenchmarkPod(b *testing.B) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		objects.Pod(1, i, objects.Options{})
	}
}
