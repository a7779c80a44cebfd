package wire_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire"
)

// archived packs the n objects that make returns, and archives them.
func archived[T object.Object](t testing.TB, n int, make func(i int) T) (p *wire.Packer, packed []*wire.Packed, raw []byte) {
	t.Helper()
	p = wire.NewPacker(wire.NewPool())
	var archive wire.Archive
	for i := range n {
		o, err := p.Pack(make(i))
		require.NoError(t, err)
		packed = append(packed, o)
	}
	for i := range packed { // backwards, so that some bases are written before the objects that they came from
		var err error
		raw, err = archive.Append(raw, packed[len(packed)-1-i])
		require.NoError(t, err)
	}
	return p, packed, raw
}

func comesBack[T object.Object](t *testing.T, make func(i int) T) {
	const n = 1000
	p, packed, raw := archived(t, n, make)
	again := wire.NewPacker(wire.NewPool())
	all, err := again.Extract(raw, n, reflect.TypeFor[T]())
	require.NoError(t, err)
	heads, err := wire.ArchivedHeads(raw, n)
	require.NoError(t, err)
	clear(raw)
	held, before := 0, 0
	for i, o := range all {
		want := make(n - 1 - i)
		if i == n/2 { // objects in use hold the archive's bases
			runtime.GC()
		}
		require.Equal(t, object.KeyOf(want), object.KeyOf(o))
		require.Equal(t, want.GetUID(), o.GetUID())
		require.Equal(t, want.GetResourceVersion(), o.GetResourceVersion())
		require.Equal(t, want.GetGeneration(), o.GetGeneration())
		require.Equal(t, want.GetDeletionTimestamp(), o.GetDeletionTimestamp())
		require.Equal(t, want.GetLabels(), o.GetLabels())
		require.Equal(t, want.GetOwnerReferences(), o.GetOwnerReferences())
		require.Equal(t, want.GetAnnotations(), heads[i].GetAnnotations())
		opened, err := o.Open()
		require.NoError(t, err)
		require.True(t, equality.Semantic.DeepEqual(want, opened))
		held += o.Size()
		before += packed[n-1-i].Size()
	}
	require.Equal(t, before, held, "they take as much memory as before")
	more, err := again.Pack(make(n))
	require.NoError(t, err)
	there, err := p.Pack(make(n))
	require.NoError(t, err)
	require.InEpsilon(t, there.Size(), more.Size(), 0.25, "those that come are compressed against those that are there")
	runtime.KeepAlive([]any{packed, all}) // or the bases of their groups may be gone
}

// Archived objects are restored unchanged in another process (C02).
func TestC02_ArchivedObjectsAreRestored(t *testing.T) {
	wire.SkipUnderRace(t)
	none := objects.Options{}
	t.Run("typed", func(t *testing.T) {
		comesBack(t, func(i int) *corev1.Pod {
			p := objects.Pod(1, i, none)
			if p.Generation = int64(i % 3); i%5 == 0 {
				p.DeletionTimestamp = new(metav1.Unix(1e9+int64(i), 0))
			}
			return p
		})
	})
	t.Run("untyped", func(t *testing.T) {
		comesBack(t, func(i int) *unstructured.Unstructured { return objects.Widget(1, i, none) })
	})
	t.Run("metadata", func(t *testing.T) {
		comesBack(t, func(i int) *metav1.PartialObjectMetadata {
			p := &metav1.PartialObjectMetadata{ObjectMeta: objects.Pod(1, i, none).ObjectMeta}
			p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			return p
		})
	})
	t.Run("of one's own", func(t *testing.T) {
		comesBack(t, func(i int) *custom {
			p := objects.Pod(1, i, none)
			return &custom{ObjectMeta: p.ObjectMeta}
		})
	})
}

func TestObjectsKeptWholeAreNotArchived(t *testing.T) {
	p := wire.NewPacker(nil)
	o, err := p.Pack(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", CreationTimestamp: metav1.Unix(1, 5)}})
	require.NoError(t, err)
	_, err = new(wire.Archive).Append(nil, o)
	require.ErrorIs(t, err, wire.ErrKeptWhole)
	require.ErrorContains(t, err, "shop/a")
	_, err = wire.NewPacker(nil).Extract(nil, 0, reflect.TypeFor[object.Object]())
	require.ErrorIs(t, err, wire.ErrDamaged)
	_, err = wire.NewPacker(nil).Extract(nil, 0, reflect.TypeFor[*corev1.PodSpec]())
	require.ErrorIs(t, err, wire.ErrDamaged)
}

// An archive that is cut off, has extra bytes, or is of another type is an error.
func TestInvalidArchive(t *testing.T) {
	wire.SkipUnderRace(t)
	_, _, raw := archived(t, 20, func(i int) *corev1.Pod { return objects.Pod(1, i%4, objects.Options{}) })
	for cut := range raw {
		_, err := wire.NewPacker(nil).Extract(raw[:cut], 20, reflect.TypeFor[*corev1.Pod]())
		require.ErrorIs(t, err, wire.ErrDamaged, "%d of %d", cut, len(raw))
	}
	_, err := wire.NewPacker(nil).Extract(append(raw, 0), 20, reflect.TypeFor[*corev1.Pod]())
	require.ErrorIs(t, err, wire.ErrDamaged)
	_, err = wire.NewPacker(nil).Extract(raw, 20, reflect.TypeFor[*unstructured.Unstructured]())
	require.ErrorIs(t, err, wire.ErrDamaged)
	_, err = wire.NewPacker(nil).Extract(raw, math.MaxInt, reflect.TypeFor[*corev1.Pod]())
	require.ErrorIs(t, err, wire.ErrDamaged)
}

var extractBudget = hostile.Budget{Memory: 1 << 20, MemoryPerByte: 700}

// For any bytes, reading an archive and opening its objects gives an object or an error, and the
// memory is proportional.
func FuzzExtract(f *testing.F) {
	_, _, raw := archived(f, 12, func(i int) *corev1.Pod { return objects.Pod(1, i%4, objects.Options{}) })
	f.Add(raw, 12)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		var objects []*wire.Packed
		var err error
		extractBudget.Within(t, len(raw), func() {
			objects, err = wire.NewPacker(nil).Extract(raw, n, reflect.TypeFor[*corev1.Pod]())
		})
		heads, headsErr := wire.ArchivedHeads(raw, n)
		for _, h := range heads {
			_ = fmt.Sprint(h.GetNamespace(), h.GetName(), h.GetUID(), h.GetResourceVersion())
		}
		if err != nil {
			var e *wire.Error
			if !errors.As(err, &e) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if headsErr != nil || len(heads) != len(objects) {
			t.Fatalf("%d heads of %d objects: %v", len(heads), len(objects), headsErr)
		}
		for _, o := range objects {
			_ = fmt.Sprint(o, o.GetLabels(), o.GetOwnerReferences())
			if _, err := o.Open(); err != nil && !errors.Is(err, wire.ErrDamaged) {
				t.Fatal(err)
			}
		}
	})
}

func TestShapes(t *testing.T) {
	type a struct{ corev1.Pod }
	type b struct{ corev1.Pod }
	require.Equal(t, wire.TypeFingerprint(reflect.TypeFor[*corev1.Pod]()), wire.TypeFingerprint(reflect.TypeFor[*corev1.Pod]()))
	all := map[string]reflect.Type{
		wire.TypeFingerprint(reflect.TypeFor[*corev1.Pod]()):                reflect.TypeFor[*corev1.Pod](),
		wire.TypeFingerprint(reflect.TypeFor[*corev1.Service]()):            reflect.TypeFor[*corev1.Service](),
		wire.TypeFingerprint(reflect.TypeFor[*custom]()):                    reflect.TypeFor[*custom](),
		wire.TypeFingerprint(reflect.TypeFor[*unstructured.Unstructured]()): reflect.TypeFor[*unstructured.Unstructured](),
		wire.TypeFingerprint(reflect.TypeFor[*a]()):                         reflect.TypeFor[*a](),
		wire.TypeFingerprint(reflect.TypeFor[*b]()):                         reflect.TypeFor[*b](),
	}
	require.Len(t, all, 6)
}

func BenchmarkExtract(b *testing.B) {
	const n = 50_000
	_, _, raw := archived(b, n, func(i int) *corev1.Pod { return objects.Pod(1, i, objects.Options{}) })
	b.ReportMetric(float64(len(raw))/n, "B/object")
	for b.Loop() {
		_, err := wire.NewPacker(nil).Extract(raw, n, reflect.TypeFor[*corev1.Pod]())
		require.NoError(b, err)
	}
}
