package wire_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Objects of every form are restored equal, with their heads (C01).
func TestC01_PackedObjectsAreRestored(t *testing.T) {
	p := wire.NewPacker(wire.NewPool())
	named := objects.Pod(1, 3, objects.Options{})
	named.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	partial := &metav1.PartialObjectMetadata{ObjectMeta: objects.Pod(1, 5, objects.Options{}).ObjectMeta}
	partial.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	all := []object.Object{
		named, partial, &corev1.Pod{}, &unstructured.Unstructured{}, &unstructured.Unstructured{Object: map[string]any{}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}, BinaryData: map[string][]byte{"a": {0, 1}}},
	}
	for i := range 300 {
		o := objects.Options{Hostile: i%7 == 0}
		all = append(all, objects.Pod(1, i, o), objects.Deployment(1, i, o), objects.Widget(1, i, o))
	}
	for _, o := range all {
		packed, err := p.Pack(o)
		require.NoError(t, err)
		require.Equal(t, object.KeyOf(o), object.KeyOf(packed))
		require.Equal(t, o.GetUID(), packed.GetUID())
		require.Equal(t, o.GetResourceVersion(), packed.GetResourceVersion())
		require.Equal(t, o.GetGeneration(), packed.GetGeneration())
		require.Equal(t, o.GetDeletionTimestamp(), packed.GetDeletionTimestamp())
		require.Equal(t, o.GetLabels(), packed.GetLabels())
		require.Equal(t, o.GetOwnerReferences(), packed.GetOwnerReferences())
		require.Equal(t, o.GetAnnotations(), packed.GetAnnotations())
		opened, err := packed.Open()
		require.NoError(t, err)
		require.True(t, equality.Semantic.DeepEqual(o, opened), "%#v\n%#v", o, opened)
	}
}

// While an object is held, all callers of Open get the same one; later callers get another.
func TestAnOpenedObjectIsSharedWhileItIsHeld(t *testing.T) {
	p := wire.NewPacker(nil)
	packed, err := p.Pack(objects.Pod(1, 0, objects.Options{}))
	require.NoError(t, err)
	got := make([]*corev1.Pod, 8)
	var all sync.WaitGroup
	for n := range got {
		all.Go(func() {
			for range 100 {
				o, err := packed.Open()
				if err != nil {
					t.Error(err)
				}
				got[n] = o.(*corev1.Pod)
			}
		})
	}
	all.Wait()
	for _, o := range got {
		require.Same(t, got[0], o)
	}
	gone := make(chan struct{})
	runtime.AddCleanup(got[0], func(ch chan struct{}) { close(ch) }, gone)
	clear(got)
	for i := range 100 { // other objects, opened last
		other, err := p.Pack(objects.Pod(1, i, objects.Options{}))
		require.NoError(t, err)
		_, err = other.Open()
		require.NoError(t, err)
	}
	runtime.GC()
	<-gone
	again, err := packed.Open()
	require.NoError(t, err)
	require.Equal(t, "app", again.(*corev1.Pod).Spec.Containers[0].Name[:3])
}

func TestEqualComparesContent(t *testing.T) {
	p := wire.NewPacker(nil)
	pack := func(o *corev1.Pod) *wire.Packed {
		packed, err := p.Pack(o)
		require.NoError(t, err)
		return packed
	}
	a := objects.Pod(1, 0, objects.Options{})
	b := a.DeepCopy()
	require.True(t, p.Equal(pack(a), pack(b)))
	b.Spec.NodeName = "other"
	require.False(t, p.Equal(pack(a), pack(b)))
}

// labelled is not an API type: it wraps another object.
type labelled struct {
	object.Object
	labels map[string]string
}

func (l *labelled) GetLabels() map[string]string { return l.labels }

// Objects of types that cannot be encoded are kept as they are.
func TestC01_ObjectsOfOtherTypesAreKept(t *testing.T) {
	p := wire.NewPacker(nil)
	o := &labelled{objects.Pod(1, 0, objects.Options{}), map[string]string{"a": "b"}}
	packed, err := p.Pack(o)
	require.NoError(t, err)
	require.Equal(t, o.labels, packed.GetLabels())
	require.Equal(t, o.GetUID(), packed.GetUID())
	opened, err := packed.Open()
	require.NoError(t, err)
	require.Same(t, o, opened)
	other, err := p.Pack(&labelled{objects.Pod(1, 0, objects.Options{}), map[string]string{"a": "b"}})
	require.NoError(t, err)
	require.True(t, p.Equal(packed, other))
}

// An object that cannot be restored from bytes is kept.
func TestC01_UnencodableObjectsAreKept(t *testing.T) {
	p := wire.NewPacker(nil)
	o := objects.Widget(1, 0, objects.Options{})
	o.Object["spec"] = map[string]any{"size": 3} // an int, which decodes as int64
	packed, err := p.Pack(o)
	require.NoError(t, err)
	opened, err := packed.Open()
	require.NoError(t, err)
	require.Same(t, o, opened)
}

// A recently opened object stays in use, so it is not decoded again after each collection; an older
// one is collected.
func TestTheLastOpenedStayInUse(t *testing.T) {
	p := wire.NewPacker(nil)
	var all []*wire.Packed
	for i := range 80 {
		packed, err := p.Pack(objects.Pod(1, i, objects.Options{}))
		require.NoError(t, err)
		all = append(all, packed)
		_, err = packed.Open()
		require.NoError(t, err)
	}
	runtime.GC()
	for i, packed := range all {
		_, ok := packed.InUse()
		require.Equal(t, i >= 16, ok, i)
	}
	for range 10 {
		runtime.GC()
		_, err := all[79].Open()
		require.NoError(t, err)
	}
	require.EqualValues(t, 80, p.Opened())
}

func BenchmarkPacked(b *testing.B) {
	for name, pool := range map[string]*wire.Pool{"alone": nil, "sharing": wire.NewPool()} {
		p := wire.NewPacker(pool)
		var pods []*corev1.Pod
		var packed []*wire.Packed
		for i := range 4000 {
			pods = append(pods, objects.Pod(1, i, objects.Options{}))
			one, err := p.Pack(pods[i])
			require.NoError(b, err)
			packed = append(packed, one)
		}
		b.Run(name+"/pack", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, _ = p.Pack(pods[i*200%3999])
			}
		})
		b.Run(name+"/open", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, _ = packed[i*200%3999].Open()
			}
		})
		b.Run(name+"/in use", func(b *testing.B) {
			b.ReportAllocs()
			held, _ := packed[0].Open()
			for b.Loop() {
				_, _ = packed[0].Open()
			}
			runtime.KeepAlive(held)
		})
	}
}
