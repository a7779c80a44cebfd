package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// reopened packs and opens o.
func reopened[T object.Object](t *testing.T, o T) T {
	t.Helper()
	p, err := wire.NewPacker(nil).Pack(o)
	require.NoError(t, err)
	opened, err := p.Open()
	require.NoError(t, err)
	return opened.(T)
}

func same(t *testing.T, want, got any) {
	t.Helper()
	require.True(t, equality.Semantic.DeepEqual(want, got), "packed: %+v\nopened: %+v", want, got)
}

// The claims in a StatefulSet have a TypeMeta in JSON, which protobuf cannot represent.
func TestC01_PackedKeepsTheKindOfAClaimTemplate(t *testing.T) {
	raw := `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"s"},"spec":{"volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"}}]}}`
	o, err := wire.UnmarshalJSON[*appsv1.StatefulSet]([]byte(raw), appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	require.NoError(t, err)
	same(t, o, reopened(t, o))
}

func TestC01_PackedKeepsFractionsOfSeconds(t *testing.T) {
	raw := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"status":{"startTime":"2026-01-02T03:04:05.678Z"}}`
	o, err := wire.UnmarshalJSON[*corev1.Pod]([]byte(raw), corev1.SchemeGroupVersion.WithKind("Pod"))
	require.NoError(t, err)
	same(t, o, reopened(t, o))
}

// custom has no protobuf code.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	At                metav1.Time           `json:"at"`
	Free              map[string]any        `json:"free,omitempty"`
	Raw               kruntime.RawExtension `json:"raw,omitempty"`
	Text              string                `json:"text,omitempty"`
	Counter           int                   `json:"-"`
}

var customKind = object.GVK{Group: "example.com", Version: "v1", Kind: "Custom"}

func (c *custom) DeepCopyObject() kruntime.Object { d := *c; return &d }

func TestC01_PackedKeepsFractionsOfSecondsInCustomTypes(t *testing.T) {
	o := &custom{At: metav1.NewTime(time.Unix(1, 5e8))}
	same(t, o.At, reopened(t, o).At)
}

func TestC01_PackedKeepsFloatsInCustomTypes(t *testing.T) {
	o, err := wire.UnmarshalJSON[*custom]([]byte(`{"apiVersion":"example.com/v1","kind":"Custom","metadata":{"name":"c"},"free":{"ratio":1.0}}`), customKind)
	require.NoError(t, err)
	same(t, o.Free, reopened(t, o).Free)
}

func TestC01_PackedKeepsRawBytesInCustomTypes(t *testing.T) {
	o, err := wire.UnmarshalJSON[*custom]([]byte(`{"apiVersion":"example.com/v1","kind":"Custom","metadata":{"name":"c"},"raw":{"a": "<b>"}}`), customKind)
	require.NoError(t, err)
	require.Equal(t, string(o.Raw.Raw), string(reopened(t, o).Raw.Raw))
}

func TestC01_PackedKeepsInvalidUTF8(t *testing.T) {
	o := &custom{Text: "a\xffb"}
	require.Equal(t, o.Text, reopened(t, o).Text)
}

func TestC01_PackedKeepsOrRefusesFieldsThatJSONOmits(t *testing.T) {
	o := &custom{Counter: 3}
	p, err := wire.NewPacker(nil).Pack(o)
	if err != nil {
		return
	}
	opened, err := p.Open()
	require.NoError(t, err)
	require.Equal(t, 3, opened.(*custom).Counter)
}

func TestC01_PackedKeepsObjectsOfRawExtensions(t *testing.T) {
	o := &appsv1.ControllerRevision{Data: kruntime.RawExtension{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "in"}}}}
	got := reopened(t, o)
	require.True(t, got.Data.Object != nil || len(got.Data.Raw) > 0, "the data is lost")
}

// wrapped is a Pod with an additional field. The Pod's protobuf code is promoted.
type wrapped struct {
	corev1.Pod `json:",inline"`
	Extra      string `json:"extra,omitempty"`
}

func (c *wrapped) DeepCopyObject() kruntime.Object { d := *c; return &d }

func TestC01_PackedKeepsFieldsBesideAnEmbeddedType(t *testing.T) {
	o := &wrapped{Extra: "e"}
	require.Equal(t, "e", reopened(t, o).Extra)
}

// untyped has no TypeMeta, so the ObjectMeta's protobuf code is promoted.
type untyped struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              string `json:"spec,omitempty"`
}

func (c *untyped) DeepCopyObject() kruntime.Object  { d := *c; return &d }
func (c *untyped) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func TestC01_PackedKeepsFieldsBesideAnEmbeddedObjectMeta(t *testing.T) {
	o := &untyped{Spec: "e"}
	require.Equal(t, "e", reopened(t, o).Spec)
}

// parsed has a field set by a transform, and a time.Time.
type parsed struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Items             []string  `json:"items,omitempty"`
	At                time.Time `json:"at"`
	words             string
}

func (p *parsed) DeepCopyObject() kruntime.Object { d := *p; return &d }

func TestC01_PackedKeepsFieldsThatAreNotExported(t *testing.T) {
	require.Equal(t, "a,b", reopened(t, &parsed{words: "a,b"}).words)
}

func TestC01_PackedKeepsEmptyListsBesideATime(t *testing.T) {
	o := &parsed{Items: []string{}, At: time.Unix(1, 0)}
	require.Equal(t, o, reopened(t, o))
}

func quantityPod() *corev1.Pod {
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	size := resource.MustParse("1500Mi")
	raw, _ := json.Marshal("2000Mi")
	_ = size.UnmarshalJSON(raw)
	o.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}}
	return o
}

// Pack only reads, which the race detector checks.
func TestPackChangesNothing(t *testing.T) {
	o := quantityPod()
	before := fmt.Sprintf("%#v", *o.Spec.Volumes[0].EmptyDir.SizeLimit)
	var all sync.WaitGroup
	for range 2 {
		p := wire.NewPacker(nil)
		all.Go(func() {
			if _, err := p.Pack(o); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, before, fmt.Sprintf("%#v", *o.Spec.Volumes[0].EmptyDir.SizeLimit))
}

func heap() int {
	for range 4 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A caller that opened large objects and released them keeps almost no memory.
func TestOpenedLargeObjectsAreReleased(t *testing.T) {
	wire.SkipUnderRace(t)
	p := wire.NewPacker(wire.NewPool())
	before := heap()
	for i := range 64 {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		text := make([]byte, 1<<20)
		for n := range text {
			text[n] = byte('a' + random.IntN(26))
		}
		packed, err := p.Pack(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Data: map[string]string{"a": string(text)}})
		require.NoError(t, err)
		_, err = packed.Open()
		require.NoError(t, err)
	}
	held := heap() - before
	t.Logf("held: %d KB", held>>10)
	require.Less(t, held, 8<<20)
	runtime.KeepAlive(p)
}

func TestAllSizesAreRestored(t *testing.T) {
	wire.SkipUnderRace(t)
	p := wire.NewPacker(nil)
	random := rand.New(rand.NewPCG(1, 0))
	yes := true
	words := strings.Fields("the quick brown fox jumps over a lazy dog and 12345 some {other} <words> \"that\" are\n longer")
	text := func(n int) string {
		var b bytes.Buffer
		for b.Len() < n {
			if random.IntN(5) == 0 {
				fmt.Fprint(&b, random.Uint64())
			}
			b.WriteString(words[random.IntN(len(words))])
		}
		return b.String()[:n]
	}
	sizes := []int{0, 1, 40, 63, 64, 65, 500, 5000, 65000, 65400, 65500, 65536, 65537, 66000, 70000, 131072, 1 << 20, 5 << 20, 16 << 20}
	for round := range 6 {
		for _, size := range sizes {
			if size > 1<<20 && round > 1 {
				continue
			}
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(size), OwnerReferences: []metav1.OwnerReference{{UID: "g", Controller: &yes}}}, Data: map[string]string{"a": text(size)}}
			if round%2 == 0 {
				o.OwnerReferences = nil
			}
			packed, err := p.Pack(o)
			require.NoError(t, err)
			got, err := packed.Open()
			require.NoError(t, err, size)
			require.True(t, o.Data["a"] == got.(*corev1.ConfigMap).Data["a"], size)
		}
	}
}

// Objects of two informers may share parts: reading a cache writes to none of them.
func TestSharedQuantitiesAreNotWritten(t *testing.T) {
	pool := wire.NewPool()
	item := func(n int) string {
		return fmt.Sprintf(`{"metadata":{"name":"p%d","uid":"u%d"},"spec":{"volumes":[{"name":"a volume of some name","emptyDir":{"medium":"Memory","sizeLimit":"2000Mi"}}],"containers":null}}`, n, n)
	}
	var all []*corev1.Pod
	for n := range 6 {
		dec, err := wire.NewDecoder(wire.MediaJSON, wire.Options{Type: reflect.TypeFor[*corev1.Pod](), Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Pool: pool})
		require.NoError(t, err)
		var meta metav1.ListMeta
		for o, err := range dec.List(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`+item(n)+`]}`), &meta, nil) {
			require.NoError(t, err)
			all = append(all, o.(*corev1.Pod))
		}
	}
	limit := func(o *corev1.Pod) *resource.Quantity { return o.Spec.Volumes[0].EmptyDir.SizeLimit }
	t.Logf("%#v, shared: %t", *limit(all[5]), limit(all[4]) == limit(all[5]))
	before := fmt.Sprintf("%#v", *limit(all[4]))
	_, err := wire.NewPacker(nil).Pack(all[5])
	require.NoError(t, err)
	require.Equal(t, before, fmt.Sprintf("%#v", *limit(all[4])))
}
