package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
)

// statefulPod returns a Pod with the name and labels that a StatefulSet would give it.
func statefulPod(i int) *corev1.Pod {
	p := objects.Pod(1, i, objects.Options{})
	p.Name = fmt.Sprintf("%s%d", p.GenerateName, i)
	p.Labels["statefulset.kubernetes.io/pod-name"], p.Labels["apps.kubernetes.io/pod-index"] = p.Name, fmt.Sprint(i)
	return p
}

// Labels whose values come from the object's name are shared in one sharedMeta, whether objects,
// protobuf or JSON are packed.
func TestLabelsFromNamesAreCommon(t *testing.T) {
	const n = 20
	list := &corev1.PodList{}
	for i := range n {
		list.Items = append(list.Items, *statefulPod(objects.Apps * i))
	}
	check := func(t *testing.T, packed []object.Head) {
		metas := make(map[*sharedMeta]bool)
		for i, o := range packed {
			require.Equal(t, list.Items[i].Labels, o.GetLabels())
			have := object.Labels(o)
			for key, want := range list.Items[i].Labels {
				value, ok := have.Lookup(key)
				require.True(t, ok && have.Has(key))
				require.Equal(t, []string{want, want}, []string{value, have.Get(key)})
			}
			require.False(t, have.Has("other"))
			require.Zero(t, testing.AllocsPerRun(10, func() { object.Labels(o).Has("app") }))
			metas[o.(*Packed).meta] = true
		}
		require.Len(t, metas, 1)
	}
	p, objects := NewPacker(nil), []object.Head(nil)
	for i := range list.Items {
		o, err := p.Pack(&list.Items[i])
		require.NoError(t, err)
		objects = append(objects, o)
	}
	check(t, objects)
	for _, media := range []string{MediaProtobuf, MediaJSON} {
		d, err := NewPacker(nil).Decoder(media, &Options{Kind: podKind, Type: reflect.TypeFor[*corev1.Pod]()})
		require.NoError(t, err)
		var packed []object.Head
		var archive Archive
		var meta metav1.ListMeta
		var raw []byte
		for o, err := range d.List(bytes.NewReader(encodeAs(t, media, podListKind, list)), &meta, nil) {
			require.NoError(t, err)
			packed = append(packed, o)
			raw, err = archive.Append(raw, o.(*Packed))
			require.NoError(t, err)
		}
		check(t, packed)
		heads, err := ArchivedHeads(raw, n)
		require.NoError(t, err)
		check(t, heads)
	}
}

// An object may have thousands of labels whose value is its name. They are sorted, because a search for each of
// them in all of them would take minutes.
func TestManyLabelsFromTheNameAreSorted(t *testing.T) {
	p, packer := statefulPod(0), NewPacker(nil)
	for i := range 1000 {
		p.Labels[fmt.Sprintf("label-%d", i)] = p.Name
	}
	var metas []*sharedMeta
	for range 2 {
		o, err := packer.Pack(p)
		require.NoError(t, err)
		require.Equal(t, p.Labels, o.GetLabels())
		metas = append(metas, o.meta)
	}
	require.Same(t, metas[0], metas[1])
	require.Greater(t, len(metas[0].derived), 1000)
	require.True(t, slices.IsSortedFunc(metas[0].derived, func(a, b derivedLabel) int { return a.compare(b.key) }))
	for key, want := range p.Labels {
		value, ok := metas[0].label(key, p.Name)
		require.True(t, ok)
		require.Equal(t, want, value)
	}
}

// Size counts all memory, whether objects share labels and owners or not.
func TestSizeHidesNoMemory(t *testing.T) {
	SkipUnderRace(t)
	const n = 2000
	for name, make := range map[string]func(i int) *corev1.Pod{
		"of a ReplicaSet":  func(i int) *corev1.Pod { return objects.Pod(1, i, objects.Options{}) },
		"of a StatefulSet": statefulPod,
		"of a Job each": func(i int) *corev1.Pod {
			p := objects.Pod(1, i, objects.Options{})
			p.OwnerReferences[0].UID = p.UID
			return p
		},
		"with a label each": func(i int) *corev1.Pod {
			p := objects.Pod(1, i, objects.Options{})
			p.Labels["instance"] = fmt.Sprint("i-", i)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, kept, size := NewPacker(nil), []*Packed(nil), 0
			before := heapInUse()
			for i := range n {
				o, err := p.Pack(make(i))
				require.NoError(t, err)
				kept, size = append(kept, o), size+o.Size()
			}
			held := int(heapInUse() - before)
			t.Logf("%d bytes each, and Size says %d", held/n, size/n)
			require.Less(t, held, size*3/2)
			require.Less(t, size, held*3/2)
			runtime.KeepAlive(kept)
			runtime.KeepAlive(p)
		})
	}
}
