package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// replica returns a Pod with every sort of part, equal to all other replicas except for its name.
func replica(name string) *corev1.Pod {
	p := pod(name)
	p.Labels = map[string]string{"app": "ledger", "pod-template-hash": "5d8f7b6c9d"}
	p.Finalizers = []string{"example.com/first", "example.com/second"}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`)}}}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(5)), Sysctls: []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}}}
	p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example.com/ledger:1", Args: []string{"--verbose", "--port=8080"}}}
	return p
}

// sharedParts returns the addresses of the parts of a replica that must be shared, by name.
func sharedParts(p *corev1.Pod) map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"a map of strings":         reflect.ValueOf(p.Labels).UnsafePointer(),
		"a map of quantities":      reflect.ValueOf(p.Spec.Overhead).UnsafePointer(),
		"a list of strings":        unsafe.Pointer(unsafe.SliceData(p.Finalizers)),
		"a list of structs":        unsafe.Pointer(unsafe.SliceData(p.Spec.Containers)),
		"a list in a list":         unsafe.Pointer(unsafe.SliceData(p.Spec.Containers[0].Args)),
		"a pointer to a struct":    unsafe.Pointer(p.Spec.SecurityContext),
		"a list in a struct":       unsafe.Pointer(unsafe.SliceData(p.Spec.SecurityContext.Sysctls)),
		"a type that reads itself": unsafe.Pointer(p.ManagedFields[0].FieldsV1),
	}
}

// decodeReplicas decodes a list of replicas.
func decodeReplicas(t testing.TB, pool *Pool, names ...string) []*corev1.Pod {
	t.Helper()
	list := new(corev1.PodList)
	for _, name := range names {
		list.Items = append(list.Items, *replica(name))
	}
	pods, _, err := readList(podDecoder(t, MediaProtobuf, Options{Pool: pool}), bytes.NewReader(encodeAs(t, MediaProtobuf, podListKind, list)))
	require.NoError(t, err)
	for i, name := range names {
		require.Equal(t, replica(name), pods[i])
	}
	return pods
}

// decodeOthers decodes Pods that share with a replica, and with each other, only parts inside other
// parts. Such parts are remembered when they have appeared in different outer parts.
func decodeOthers(t testing.TB, pool *Pool, n int) {
	t.Helper()
	list := new(corev1.PodList)
	for i := range n {
		p := replica("other")
		p.ManagedFields[0].Manager = fmt.Sprint("manager", i)
		p.Spec.SecurityContext.FSGroup = new(int64(i))
		p.Spec.Containers[0].Image = fmt.Sprint("image", i)
		list.Items = append(list.Items, *p)
	}
	_, _, err := readList(podDecoder(t, MediaProtobuf, Options{Pool: pool}), bytes.NewReader(encodeAs(t, MediaProtobuf, podListKind, list)))
	require.NoError(t, err)
}

// collectUntil collects garbage until done returns true, and reports whether it did. Weak pointers
// and cleanups take a few collections.
func collectUntil(done func() bool) bool {
	for range 1000 {
		if done() {
			return true
		}
		runtime.GC()
		runtime.Gosched()
	}
	return done()
}

func requireForgotten(t testing.TB, pool *Pool) {
	t.Helper()
	if !collectUntil(func() bool { return pool.Len() == 0 }) {
		t.Errorf("%d parts are remembered and used by nobody", pool.Len())
	}
}

// From the second object on, equal parts of objects are the same memory.
func TestW03_EqualPartsAreOne(t *testing.T) {
	pool := NewPool()
	decodeReplicas(t, pool, "a")
	require.Zero(t, pool.Len(), "nothing is remembered at first sight")
	pods := decodeReplicas(t, NewPool(), "a", "b", "c")
	for name, first := range sharedParts(pods[0]) {
		second, third := sharedParts(pods[1])[name], sharedParts(pods[2])[name]
		require.NotEqual(t, first, second, name)
		require.Equal(t, second, third, name)
	}
}

func TestW03_UnusedPartsAreForgotten(t *testing.T) {
	pool := NewPool()
	for name := range sharedParts(replica("")) {
		t.Run(name, func(t *testing.T) {
			decodeOthers(t, pool, 2)
			last := sharedParts(decodeReplicas(t, pool, "a", "b", "c")[2])[name]
			all := pool.Len()
			require.True(t, collectUntil(func() bool { return pool.Len() < all }), "the others are forgotten")
			require.NotZero(t, pool.Len(), "%s is in use", name)
			next := sharedParts(decodeReplicas(t, pool, "d")[0])[name]
			require.Equal(t, last, next, "it is found again")
			runtime.KeepAlive(last)
			last, next = nil, nil
			requireForgotten(t, pool)
		})
	}
}

// Parts of every type are forgotten.
func TestW03_PartsOfEveryTypeAreForgotten(t *testing.T) {
	all := scheme.New()
	f := newFiller(all)
	pool := NewPool()
	most := 0
	objectKinds(all, func(i int, a apiType) {
		for _, media := range mediaOf(all, a.kind) {
			d := decoderOfType[object.Object](t, media, Options{Scheme: all, Kind: a.kind, Pool: pool})
			body := encodeAs(t, media, a.kind, f.object(a.typ, full, int64(6000*i)))
			_, _, err := readList(d, bytes.NewReader(listOf(t, media, a.kind, [][]byte{body, body, body})))
			require.NoError(t, err)
		}
		most = max(most, pool.Len())
	})
	t.Logf("%d parts at most", most)
	require.Greater(t, most, 100)
	requireForgotten(t, pool)
}

// Reading a quantity may write to it, so no two objects share one.
func TestW03_QuantitiesAreNotShared(t *testing.T) {
	all := scheme.New()
	f := newFiller(all)
	pool := NewPool()
	count := 0
	check := func(d typedDecoder[object.Object], list []byte, about string) {
		read, _, err := readList(d, bytes.NewReader(list))
		require.NoError(t, err)
		of := make(map[*resource.Quantity]int)
		for i, o := range read {
			for _, q := range quantitiesIn(reflect.ValueOf(o)) {
				if first, known := of[q]; known {
					require.Equal(t, first, i, about)
				}
				of[q] = i
			}
		}
		count += len(of)
	}
	objectKinds(all, func(i int, a apiType) {
		for _, media := range mediaOf(all, a.kind) {
			d := decoderOfType[object.Object](t, media, Options{Scheme: all, Kind: a.kind, Pool: pool})
			body := encodeAs(t, media, a.kind, f.object(a.typ, full, int64(6000*i)))
			check(d, listOf(t, media, a.kind, [][]byte{body, body, body}), fmt.Sprint(media, " ", a.kind))
		}
	})
	before := count
	require.Greater(t, before, portion(200))

	// The object has a quantity although the body has none.
	body := []byte(podText(`"containers":[{"name":"main","env":[{"name":"LIMIT","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}]}]`))
	d := decoderOfType[object.Object](t, MediaJSON, Options{Scheme: all, Kind: podKind, Pool: pool})
	check(d, listOf(t, MediaJSON, podKind, [][]byte{body, body, body}), "a quantity that is left out")
	require.Equal(t, before+3, count)
}

// quantitiesIn returns the quantities that v leads to. Those in maps are not addressable.
func quantitiesIn(v reflect.Value) (all []*resource.Quantity) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			all = quantitiesIn(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			all = append(all, quantitiesIn(v.Index(i))...)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			all = append(all, quantitiesIn(entries.Value())...)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[resource.Quantity]() {
			if v.CanAddr() {
				all = append(all, v.Addr().Interface().(*resource.Quantity))
			}
			break
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				all = append(all, quantitiesIn(v.Field(i))...)
			}
		}
	}
	return all
}

// Parts without a quantity are shared, even next to one.
func TestW03_PartsBesideAQuantityAreOne(t *testing.T) {
	for _, media := range bothMedia {
		list := podList()
		for n := range 4 {
			p := replica(fmt.Sprint("web-", n))
			limit := corev1.EnvVar{Name: "LIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}}
			p.Spec.Containers[0].Env = []corev1.EnvVar{limit}
			list.Items = append(list.Items, *p)
		}
		pods, _, err := readList(podDecoder(t, media, Options{Pool: NewPool()}), bytes.NewReader(encodeAs(t, media, podListKind, list)))
		require.NoError(t, err)
		last := sharedParts(pods[3])
		for name, at := range sharedParts(pods[2]) {
			require.Equal(t, name != "a list of structs", at == last[name], "%s: %s", media, name)
		}
	}
}

// Content that never repeats takes no memory in the pool.
func TestW03_UniqueContentIsNotRemembered(t *testing.T) {
	pool := NewPool()
	d := podDecoder(t, MediaProtobuf, Options{Pool: pool})
	list := new(corev1.PodList)
	for i := range 2000 {
		list.Items = append(list.Items, *uniquePod(i))
	}
	kept, _, err := readList(d, bytes.NewReader(encodeAs(t, MediaProtobuf, podListKind, list)))
	require.NoError(t, err)
	require.Len(t, kept, 2000)
	require.Zero(t, pool.Len())
	runtime.KeepAlive(kept)
}

// uniquePod returns a Pod that has nothing in common with the others.
func uniquePod(i int) *corev1.Pod {
	text := func(what string) string { return fmt.Sprintf("%s-%032d", what, i) }
	p := pod(text("name"))
	p.Labels = map[string]string{"app": text("app")}
	p.Annotations = map[string]string{text("key"): text("value")}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: text("manager"), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:` + text("field") + `":{}}`)}}}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: text("sysctl"), Value: "1"}}}
	p.Spec.Containers = []corev1.Container{{Name: text("container"), Image: text("image"), Args: []string{text("first"), text("second")},
		Env: []corev1.EnvVar{{Name: text("env"), Value: text("value")}}}}
	return p
}

// Equal bytes have different meanings in fields of different types.
func TestW03_TypesDoNotMix(t *testing.T) {
	p := pod("a")
	ref := corev1.LocalObjectReference{Name: "the-name-of-a-reference"}
	for range 3 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Env: []corev1.EnvVar{
			{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref, Key: "key"}}},
			{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref, Key: "key"}}},
		}})
	}
	body := encodeAs(t, MediaProtobuf, podKind, p)
	all, _, err := readList(podDecoder(t, MediaProtobuf, Options{Pool: NewPool()}), bytes.NewReader(listOf(t, MediaProtobuf, podKind, [][]byte{body, body, body})))
	require.NoError(t, err)
	for _, got := range all {
		require.Equal(t, p, got)
		for _, c := range got.Spec.Containers {
			require.NotEqual(t, unsafe.Pointer(c.Env[0].ValueFrom.ConfigMapKeyRef), unsafe.Pointer(c.Env[1].ValueFrom.SecretKeyRef))
		}
	}
}

// Changing the fields of an object affects no other object, and appending to its lists overwrites
// nothing.
func TestW03_ObjectsDoNotShareTheirFields(t *testing.T) {
	pods := decodeReplicas(t, NewPool(), "a", "a", "a", "a")
	for i, p := range pods {
		_ = append(p.Finalizers, "third")
		_ = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
		_ = append(p.Spec.Containers[0].Args, "--more")
		for _, other := range pods[i+1:] {
			require.Equal(t, replica("a"), other)
		}
		*p = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"a": "b"}, Finalizers: []string{"x"}}}
	}
}

// Forgotten parts are decoded again, and then shared again.
func TestW03_ForgottenPartsAreNotShared(t *testing.T) {
	pool := NewPool()
	decodeReplicas(t, pool, "a")
	before := decodeReplicas(t, pool, "b", "c")
	grace := podDecoder(t, MediaJSON, Options{Pool: pool})
	small := func() *int64 {
		p, _, err := readList(grace, strings.NewReader(`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"terminationGracePeriodSeconds":30}}]}`))
		require.NoError(t, err)
		return p[0].Spec.TerminationGracePeriodSeconds
	}
	thirty := small()
	require.Same(t, thirty, small())

	pool.Forget()
	require.NotSame(t, thirty, small())
	after := decodeReplicas(t, pool, "d", "e", "f")
	for name, at := range sharedParts(before[1]) {
		require.NotEqual(t, at, sharedParts(after[1])[name], name)
		require.Equal(t, sharedParts(after[1])[name], sharedParts(after[2])[name], name)
	}
	runtime.KeepAlive([]any{before, after})
	before, after = nil, nil
	requireForgotten(t, pool)
}

// Many goroutines may decode with one pool while the garbage collector frees parts.
func TestW03_ConcurrentDecoding(t *testing.T) {
	all := scheme.New()
	f := newFiller(all)
	pool := NewPool()
	reference := podDecoder(t, MediaProtobuf, Options{Reference: true})
	sharing := podDecoder(t, MediaProtobuf, Options{Pool: pool})
	var bodies [][]byte
	var want [][]*corev1.Pod
	for i := range 8 {
		a, b := f.object(reflect.TypeFor[corev1.Pod](), half, int64(i)), f.object(reflect.TypeFor[corev1.Pod](), half, int64(i+1)%8)
		once, again := encodeAs(t, MediaProtobuf, podKind, a), encodeAs(t, MediaProtobuf, podKind, b)
		body := listOf(t, MediaProtobuf, podKind, [][]byte{once, again, once, again, once})
		pods, _, err := readList(reference, bytes.NewReader(body))
		require.NoError(t, err)
		bodies, want = append(bodies, body), append(want, pods)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			var held [3][]*corev1.Pod
			for i := range 50 {
				n := (i*7 + worker) % len(bodies)
				got, _, err := readList(sharing, bytes.NewReader(bodies[n]))
				if err != nil || !reflect.DeepEqual(got, want[n]) {
					t.Errorf("body %d: got %+v, %v, want %+v", n, got, err, want[n])
				}
				held[i%len(held)] = got
				if i%10 == 0 {
					runtime.GC()
				}
			}
			runtime.KeepAlive(held)
		})
	}
	wg.Wait()
	requireForgotten(t, pool)
}
