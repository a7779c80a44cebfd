package wire

import (
	"math"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// The head has the fields that most decisions need; reading them opens nothing.
func TestHeadsAreReadWithoutOpening(t *testing.T) {
	p := NewPacker(nil)
	p.KeepAnnotations([]string{"a", "b", "empty"})
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	for _, generation := range []int64{0, 1, 63, 64, -1, 1 << 40, math.MaxInt64, math.MinInt64} {
		for _, annotations := range []map[string]string{nil, {"b": "B", "other": "x"}, {"a": "A", "empty": "", "b": ""}} {
			for _, deleted := range []*metav1.Time{nil, &now} {
				o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: "n", Name: "name", UID: "uid", ResourceVersion: "7",
					Generation: generation, Annotations: annotations, DeletionTimestamp: deleted,
				}}
				packed, err := p.Pack(o)
				require.NoError(t, err)
				require.Equal(t, []any{"name", o.UID, "7", generation, deleted}, []any{packed.GetName(), packed.GetUID(), packed.GetResourceVersion(), packed.GetGeneration(), packed.GetDeletionTimestamp()})
				for _, key := range []string{"a", "b", "empty", metav1.InitialEventsAnnotationKey} {
					want, wanted := annotations[key]
					value, ok := object.Annotation(packed, key)
					require.Equal(t, wanted, ok, key)
					require.Equal(t, want, value)
				}
			}
		}
	}
	require.Zero(t, p.Opened())
	o, err := p.Pack(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"other": "x"}}})
	require.NoError(t, err)
	value, ok := object.Annotation(o, "other")
	require.True(t, ok)
	require.Equal(t, "x", value)
	require.EqualValues(t, 1, p.Opened())
}

// aged overrides its generation and its annotations.
type aged struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Age               int64 `json:"age"`
}

func (a *aged) GetGeneration() int64 { return a.Age }

func (a *aged) GetAnnotations() map[string]string {
	return map[string]string{"age": strconv.FormatInt(a.Age, 10)}
}

func (a *aged) DeepCopyObject() runtime.Object { d := *a; return &d }

func TestC01_HeadsEqualTheMethodsOfTheType(t *testing.T) {
	p := NewPacker(nil)
	p.KeepAnnotations([]string{"age"})
	d, err := p.Decoder(MediaJSON, new(typedAs[*aged](Options{Kind: widgetKind})))
	require.NoError(t, err)
	packed, err := packedOf(d.Object([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","generation":1},"age":7}`)))
	require.NoError(t, err)
	require.EqualValues(t, 7, packed.GetGeneration())
	value, ok := packed.GetAnnotation("age")
	require.True(t, ok)
	require.Equal(t, "7", value)
}

// Two objects with different deletion times do not share their metadata.
func TestDeletionTimestampsAreNotMixedUp(t *testing.T) {
	p := NewPacker(nil)
	var all []*Packed
	at := func(n int) *metav1.Time {
		if n%3 == 0 {
			return nil
		}
		return new(metav1.NewTime(time.Unix(int64(n%3), 0)))
	}
	for n := range 12 {
		packed, err := p.Pack(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at(n)}})
		require.NoError(t, err)
		all = append(all, packed)
	}
	for n, o := range all {
		require.Equal(t, at(n), o.GetDeletionTimestamp())
		require.Same(t, all[n%3].meta, o.meta)
	}
}

func TestSizeOfPacked(t *testing.T) {
	require.EqualValues(t, packedSize, unsafe.Sizeof(Packed{}))
}

// A flipped bit in any place is an error with the key. No other object is returned, the Packed has
// no version any more, and the damage is reported once.
func TestAFlippedBitIsAnError(t *testing.T) {
	p := NewPacker(nil)
	lost := 0
	p.OnDamage(func(_ *Packed, err error) {
		require.ErrorIs(t, err, ErrDamaged)
		lost++
	})
	pods := []*corev1.Pod{objects.Pod(1, 0, objects.Options{}), objects.Pod(1, 200, objects.Options{}), objects.Pod(1, 1, objects.Options{})}
	var all []*Packed
	for _, pod := range pods {
		packed, err := p.Pack(pod)
		require.NoError(t, err)
		all = append(all, packed)
	}
	for n, o := range all {
		data := unsafe.Slice(unsafe.StringData(o.text.Prefix()), o.text.HeldBytes())
		harmless := 0
		for at := range data {
			o.damaged.Store(false)
			before := lost
			data[at] ^= 1 << (at % 8)
			opened, err := o.Open()
			if err == nil { // the same bytes repeated from elsewhere
				require.True(t, equality.Semantic.DeepEqual(pods[n], opened))
				o.opened = memory.Weak{}
				harmless++
			} else {
				require.ErrorIs(t, err, ErrDamaged, "object %d, byte %d", n, at)
				require.Empty(t, o.GetResourceVersion())
				_, err = o.Open()
				require.ErrorIs(t, err, ErrDamaged, "object %d, byte %d", n, at)
				require.Equal(t, before+1, lost)
				if at >= len(o.text.Prefix()) {
					require.ErrorContains(t, err, o.GetName())
				}
			}
			data[at] ^= 1 << (at % 8)
		}
		require.Less(t, harmless, len(data)/20)
	}
}
