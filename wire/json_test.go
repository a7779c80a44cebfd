package wire

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/netip"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/json"
)

// quirks is a type with everything that is difficult about JSON in Go.
type quirks struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Inline
	Named Inline `json:"named"`

	Bool       bool    `json:"bool"`
	Int        int     `json:"int"`
	Int8       int8    `json:"int8"`
	Int16      int16   `json:"int16"`
	Int32      int32   `json:"int32"`
	Int64      int64   `json:"int64"`
	Uint       uint    `json:"uint"`
	Uint8      uint8   `json:"uint8"`
	Uint64     uint64  `json:"uint64"`
	Float32    float32 `json:"float32"`
	Float64    float64 `json:"float64"`
	String     string  `json:"string"`
	Untagged   string
	Ignored    string             `json:"-"`
	Bytes      []byte             `json:"bytes"`
	Any        any                `json:"any"`
	Fields     map[string]any     `json:"fields"`
	Stringer   fmt.Stringer       `json:"stringer"`
	BoolPtr    *bool              `json:"boolPtr"`
	Int32Ptr   *int32             `json:"int32Ptr"`
	Int64Ptr   *int64             `json:"int64Ptr"`
	StringPtr  *string            `json:"stringPtr"`
	Twice      **string           `json:"twice"`
	ListPtr    *[]string          `json:"listPtr"`
	InlinePtr  *Inline            `json:"inlinePtr"`
	Ints       []int              `json:"ints"`
	Strings    []string           `json:"strings"`
	Names      []name             `json:"names"`
	Structs    []Inline           `json:"structs"`
	Pointers   []*Inline          `json:"pointers"`
	Lists      [][]string         `json:"lists"`
	Nothing    []struct{}         `json:"nothing"`
	Array      [2]int             `json:"array"`
	Labels     map[string]string  `json:"labels"`
	Names2     map[name]name      `json:"names2"`
	ByNumber   map[int]string     `json:"byNumber"`
	Counts     map[string]int64   `json:"counts"`
	Sets       map[string][]byte  `json:"sets"`
	Nested     map[string]Inline  `json:"nested"`
	NestedPtr  map[string]*Inline `json:"nestedPtr"`
	Time       metav1.Time        `json:"time"`
	TimePtr    *metav1.Time       `json:"timePtr"`
	Micro      metav1.MicroTime   `json:"micro"`
	Stdlib     time.Time          `json:"stdlib"`
	Duration   metav1.Duration    `json:"duration"`
	Quantity   resource.Quantity  `json:"quantity"`
	Limits     corev1.ResourceList
	Ported     intstr.IntOrString   `json:"ported"`
	PortPtr    *intstr.IntOrString  `json:"portPtr"`
	Raw        runtime.RawExtension `json:"raw"`
	Message    stdjson.RawMessage   `json:"message"`
	Number     stdjson.Number       `json:"number"`
	Owned      *metav1.FieldsV1     `json:"owned"`
	Anonymous  struct{ A, B int }   `json:"anonymous"`
	Promoted   struct{ metav1.Time }
	PromotedIn *struct{ metav1.Time }    `json:"promotedIn"`
	Quoted     quoted                    `json:"quoted"`
	Ambiguous  ambiguous                 `json:"ambiguous"`
	Address    netip.Addr                `json:"address"`
	Amounts    map[int]resource.Quantity `json:"amounts"`
	Private    private                   `json:"private"`
	Indirect   indirect                  `json:"indirect"`
	Self       *quirks                   `json:"self"`
	Selves     []quirks                  `json:"selves"`
}

type (
	name   string
	Inline struct {
		A string `json:"a"`
		B *int32 `json:"b,omitempty"`
	}
	quoted struct {
		N int `json:"n,string"`
	}
	ambiguous struct {
		Inline2
		Inline3
		D string
	}
	private struct {
		inline2
		D string
	}
	indirect struct {
		*Inline
		D string
	}
	inline2 struct{ C string }
	Inline2 struct{ C string }
	Inline3 struct{ C string }
)

func (q *quirks) DeepCopyObject() runtime.Object { return q }

var quirkKind = object.GVK{Group: "example.com", Version: "v1", Kind: "Quirk"}

// quirkValues are pieces of JSON for its fields, valid and invalid.
var quirkValues = []string{
	`null`, `true`, `false`, `tru`, `nul`, `x`, ``, `0`, `-0`, `1`, `-1`, `01`, `-`, `1.`, `.5`, `1.5`, `1e3`, `1E+2`, `1e`, `+1`,
	`127`, `128`, `-128`, `-129`, `255`, `256`, `32768`, `2147483648`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775808`,
	`18446744073709551615`, `18446744073709551616`, `1e400`, `123456789012345678`, `1234567890123456789`, `0.1`, `3.4e39`,
	`""`, `"a"`, `"null"`, `"1"`, `"a b"`, "\"\t\"", `"\t"`, `"\q"`, `"\'"`, `"\u00e9"`, `"\u00E9é"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00x"`, `"\ud83d\u0041"`, `"\u12"`, `"\u0000"`,
	"\"\xff\"", "\"\xc3\xa9\"", `"日本"`, `"\\"`, `"\""`, `"\/"`, `"\`, `"`,
	`"YWJj"`, `"YWJj="`, `"YW\nJj"`, `"%%"`, `"YQ=="`,
	`[]`, `[ ]`, `[null]`, `[1,2]`, `[1,2,3]`, `["a","b"]`, `["a",null]`, `[1,]`, `[,1]`, `[1 2]`, `[1}`, `[[]]`, `[["a"],null,[]]`, `["a"],`, `[{}]`, `[{"a":"x"},{"b":2},null]`,
	`{}`, `{ }`, `{"a":"x"}`, `{"a":"x","a":"y"}`, `{"b":1,"b":null}`, `{"A":"x"}`, `{"a":"x","b":7}`, `{"a":1}`, `{"a":null}`, `{"a":{"a":"x"}}`, `{"a":[1,{"b":2}]}`,
	`{"a" : "x" , "b" : 2 }`, "{\n\t\"a\": \"x\"\r\n}", `{"a":"x",}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a";1}`, `{"1":"1e-999999999"}`, `"1e-999999999"`, `"10.0.0.1"`, `{"a":1;"b":2}`, `[1;2]`, `{"B":{"b":1}}`, `{"a":"x","D":"y"}`, `{1:2}`, `{"1":"x"}`, `{"x":"y"}`, `{"\u0061":"x"}`, `{"é":"x"}`, "{\"\xff\":\"x\"}", `{"a":"x"]`,
	`{"n":"5"}`, `{"n":5}`, `{"C":"x","D":"y"}`, `{"cpu":"100m","memory":"1Gi"}`, `{"cpu":1}`, `{"cpu":null}`,
	`"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05+02:00"`, `"2026-01-02T03:04:05.123456Z"`, `"2026-02-30T03:04:05Z"`, `"2026-01-02t03:04:05z"`, `"2026-01-02"`, `"2026-01-02T03:04:05\u005a"`,
	`"100m"`, `"1Gi"`, `"1e3"`, `" 5 "`, `"1e99999"`, `"5\u0030"`, `"1.5"`, `100`, `"0.0000000001"`, `"12345678901234567890123"`, `"-3"`, `"5h3m"`, `"80%"`, `"a` + strings.Repeat("b", 70) + `c"`,
	`{"kind":"Quirk","string":"inner","self":{"string":"deep"}}`, `[{"string":"x","ints":[1]},{"labels":{"a":"b"}}]`,
}

// Every kind of field with every kind of value gives the same result or error as the reference.
func TestW01_JSONQuirks(t *testing.T) {
	SkipUnderRace(t)
	t.Parallel()
	var bodies []string
	typ := reflect.TypeFor[quirks]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "" {
			name = typ.Field(i).Name
		}
		for _, v := range quirkValues {
			bodies = append(bodies, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Quirk","metadata":{"name":"q"},%q:%s}`, name, v))
			bodies = append(bodies, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Quirk","metadata":{"name":"q"},"unknown":[%s],%q:{"a":%s}}`, v, name, v))
		}
	}
	for _, v := range quirkValues {
		for _, format := range []string{`%s`, ` %s `, `{"metadata":%s}`, `{"metadata":{"name":%s}}`, `{"metadata":{"labels":%s}}`, `{"metadata":{"creationTimestamp":%s}}`, `{"apiVersion":%s}`, `{%s:1}`, `{"a":1%s}`} {
			bodies = append(bodies, fmt.Sprintf(format, v))
		}
	}
	typed, free := newTwins[*quirks](t, Options{Kind: quirkKind}), newTwins[*unstructured.Unstructured](t, Options{Kind: quirkKind})
	meta := newTwins[*metav1.PartialObjectMetadata](t, Options{Kind: quirkKind})
	require.NotNil(t, plainOf(typed.others["alone"]).(*decoder).encoding.(*jsonEncoding).typeInfo)
	for i, body := range bodies {
		if !among(i / 10) {
			continue
		}
		typed.object(t, []byte(body))
		if i%10 == 0 || i > len(bodies)-2000 {
			free.object(t, []byte(body))
			meta.object(t, []byte(body))
		}
	}
}

// twins decodes the same bytes with the reference and with another decoder.
type twins[T object.Object] struct {
	reference typedDecoder[T]
	others    map[string]typedDecoder[T]
}

func newTwins[T object.Object](t testing.TB, opts Options) twins[T] {
	pooled, reference := opts, opts
	pooled.Pool, reference.Reference = NewPool(), true
	return twins[T]{
		reference: decoderOfType[T](t, MediaJSON, reference),
		others: map[string]typedDecoder[T]{
			"alone":  decoderOfType[T](t, MediaJSON, opts),
			"pooled": decoderOfType[T](t, MediaJSON, pooled),
		},
	}
}

func (w twins[T]) object(t testing.TB, body []byte) {
	t.Helper()
	want, wantErr := w.reference.Object(bytes.Clone(body))
	for name, d := range w.others {
		got, err := d.Object(body)
		equalResults(t, name, body, want, got, wantErr, err)
	}
	for range 2 { // parts that repeat are shared
		got, err := w.others["pooled"].Object(body)
		equalResults(t, "shared", body, want, got, wantErr, err)
	}
}

func (w twins[T]) list(t testing.TB, body []byte) {
	t.Helper()
	want, wantMeta, wantErr := readList(w.reference, bytes.NewReader(body))
	for name, d := range w.others {
		got, meta, err := readList(d, bytes.NewReader(body))
		equalResults(t, name, body, want, got, wantErr, err)
		require.Equal(t, wantMeta, meta)
	}
}

func (w twins[T]) watch(t testing.TB, body []byte) {
	t.Helper()
	want, wantErr := readWatch(w.reference, bytes.NewReader(body))
	for name, d := range w.others {
		got, err := readWatch(d, bytes.NewReader(body))
		for _, events := range [][]Event[T]{want, got} {
			for i := range events {
				events[i].Received, events[i].Decoded = time.Time{}, time.Time{}
			}
		}
		equalResults(t, name, body, want, got, wantErr, err)
	}
}

// equalResults compares exactly: nil and empty slices differ.
func equalResults(t testing.TB, name string, body []byte, want, got any, wantErr, err error) {
	t.Helper()
	if wantErr != nil || err != nil {
		if wantErr == nil || err == nil || wantErr.Error() != err.Error() {
			t.Fatalf("%s: %q:\n got %v\nwant %v", name, body, err, wantErr)
		}
		return
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s: %q:\n got %#v\nwant %#v", name, body, got, want)
	}
}

// TestW01_JSONOfRealObjects decodes lists of the objects that the benchmarks use, with much and
// with nothing in common.
func TestW01_JSONOfRealObjects(t *testing.T) {
	SkipUnderRace(t)
	t.Parallel()
	for _, o := range []objects.Options{{}, {Hostile: true}} {
		n := portion(300)
		pods, deployments, widgets := make([]any, n), make([]any, n), make([]any, n)
		for i := range pods {
			pods[i], deployments[i], widgets[i] = objects.Pod(1, i, o), objects.Deployment(1, i, o), objects.Widget(1, i, o)
		}
		for _, indent := range []string{"", "\t"} {
			body := indentedList(t, podKind, indent, pods)
			newTwins[*corev1.Pod](t, Options{Kind: podKind}).list(t, body)
			newTwins[*unstructured.Unstructured](t, Options{Kind: podKind}).list(t, body)
			newTwins[*metav1.PartialObjectMetadata](t, Options{Kind: podKind}).list(t, body)
			kind := appsv1.SchemeGroupVersion.WithKind("Deployment")
			newTwins[*appsv1.Deployment](t, Options{Kind: kind}).list(t, indentedList(t, kind, indent, deployments))
			kind = objects.WidgetVersion().WithKind(objects.WidgetKind)
			body = indentedList(t, kind, indent, widgets)
			newTwins[*unstructured.Unstructured](t, Options{Kind: kind}).list(t, body)
			newTwins[*quirks](t, Options{Kind: kind}).list(t, body)
		}
	}
}

// The same for events, with their fields in any order.
func TestW01_JSONOfRealEvents(t *testing.T) {
	t.Parallel()
	kind := objects.WidgetVersion().WithKind(objects.WidgetKind)
	var widgets, pods []byte
	for i := range portion(200) {
		format := "{\"type\":\"MODIFIED\",\"object\":%s}\n"
		if i%2 == 1 {
			format = "{ \"object\" : %s,\n\"type\" : \"ADDED\" }"
		}
		widget, err := stdjson.Marshal(objects.Widget(1, i%20, objects.Options{}).Object)
		require.NoError(t, err)
		widgets = fmt.Appendf(widgets, format, widget)
		pods = fmt.Appendf(pods, format, encodeAs(t, MediaJSON, podKind, objects.Pod(1, i%20, objects.Options{})))
	}
	newTwins[*unstructured.Unstructured](t, Options{Kind: kind}).watch(t, widgets)
	newTwins[*quirks](t, Options{Kind: kind}).watch(t, widgets)
	newTwins[*corev1.Pod](t, Options{Kind: podKind}).watch(t, pods)
}

// The APIVersion of an object without a Go type is normalized.
func TestJSONApiVersionIsNormal(t *testing.T) {
	for _, version := range []string{"v1", "/v1"} {
		got, err := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: podKind}).Object(fmt.Appendf(nil, `{"apiVersion":%q,"kind":"Pod"}`, version))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"apiVersion": "v1", "kind": "Pod"}, got.Object)
	}
}

func indentedList(t testing.TB, kind object.GVK, indent string, items []any) []byte {
	t.Helper()
	body, err := stdjson.MarshalIndent(map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind + "List", "metadata": metav1.ListMeta{ResourceVersion: "5"}, "items": items,
	}, "", indent)
	require.NoError(t, err)
	return body
}

// Objects of all kinds as the API server writes them are decoded without the reference, with the
// same result.
func TestW01_JSONOfAllKinds(t *testing.T) {
	t.Parallel()
	const seed = 20261120
	all := scheme.New()
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), serializer.NewCodecFactory(all)).NumElements(1, 3)
	n := 0
	for kind := range listKinds(all) {
		if n++; !among(n) {
			continue
		}
		obj, err := all.New(kind)
		require.NoError(t, err)
		fill.Fill(obj)
		body := encodeAs(t, MediaJSON, kind, obj)
		newTwins[object.Object](t, Options{Scheme: all, Kind: kind}).object(t, body)
		newTwins[*unstructured.Unstructured](t, Options{Kind: kind}).object(t, body)

		d := plainOf(decoderOfType[object.Object](t, MediaJSON, Options{Scheme: all, Kind: kind})).(*decoder).encoding.(*jsonEncoding)
		require.NotNil(t, d.typeInfo, "%v", kind)
		i, err := d.scan(frame.FromBytes(body)).Value()
		require.NoError(t, err)
		into := d.new()
		require.NoError(t, json.NewDecoder(nil, d.fields).Decode(d.typeInfo, reflect.ValueOf(into).UnsafePointer(), i), "%v, seed %d:\n%s", kind, seed, body)
		_, err = json.NewDecoder(nil, d.fields).DecodeUntyped(i)
		require.NoError(t, err, "%v", kind)
	}
}

// Unselected fields are skipped while reading, not removed afterwards.
func TestW04_TypedJSONIsProjectedAsItIsRead(t *testing.T) {
	pod := objects.Pod(1, 1, objects.Options{})
	body := encodeAs(t, MediaJSON, podKind, pod)
	for _, wanted := range []Fields{WithoutManagedFields, Only("spec.containers.image", "metadata.labels"), Without("status", "spec.volumes")} {
		opts := Options{Keep: wanted, Pool: NewPool()}
		d := plainOf(podDecoder(t, MediaJSON, opts)).(*decoder).encoding.(*jsonEncoding)
		i, err := d.scan(frame.FromBytes(body)).Value()
		require.NoError(t, err)
		got := new(corev1.Pod)
		require.NoError(t, json.NewDecoder(opts.Pool.sharePool(), d.fields).Decode(d.typeInfo, unsafe.Pointer(got), i))
		opts.Reference = true
		want, err := podDecoder(t, MediaJSON, opts).Object(body)
		require.NoError(t, err)
		got.TypeMeta = metav1.TypeMeta{}
		require.Equal(t, want, got, wanted.String())
	}
}

// The result does not depend on how the bytes arrive.
func TestJSONReadInPieces(t *testing.T) {
	tricky := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{
		"quotes": strings.Repeat(`\"`, 30), "slashes": strings.Repeat(`\`, 31), "long": strings.Repeat("é{[", 50), "": "",
	}}}
	body := indentedList(t, podKind, " ", []any{tricky, tricky})
	want, _, err := readList(podDecoder(t, MediaJSON, Options{Reference: true}), bytes.NewReader(body))
	require.NoError(t, err)
	got, _, err := readList(podDecoder(t, MediaJSON, Options{Pool: NewPool()}), iotest.OneByteReader(bytes.NewReader(body)))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// What repeats is there once, as long as somebody uses it; objects and their
// metadata never are the same. Without a pool nothing is shared.
func TestW03_JSONSharing(t *testing.T) {
	const n = 4
	kind := objects.WidgetVersion().WithKind(objects.WidgetKind)
	widgets := make([]any, n)
	for i := range widgets {
		widgets[i] = objects.Widget(1, i*objects.Apps, objects.Options{}) // all of one app
	}
	body := indentedList(t, kind, "", widgets)
	pool := NewPool()
	func() {
		got, _, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: kind, Pool: pool}), bytes.NewReader(body))
		require.NoError(t, err)
		require.True(t, sameMap(got[n-2].Object["spec"], got[n-1].Object["spec"]))
		require.False(t, sameMap(got[n-2].Object["metadata"], got[n-1].Object["metadata"]))
		require.False(t, sameMap(got[n-2].Object, got[n-1].Object))
		require.Positive(t, pool.Len())

		slices.Reverse(widgets)
		body = indentedList(t, kind, "", widgets)
		slices.Reverse(got)
		for range 2 { // other runs, and what they remember
			again, _, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: kind, Pool: pool}), bytes.NewReader(body))
			require.NoError(t, err)
			require.Equal(t, got, again)
			require.True(t, sameMap(got[0].Object["spec"], again[0].Object["spec"]))
			require.False(t, sameMap(got[0].Object["metadata"], again[0].Object["metadata"]))
			require.False(t, sameMap(got[0].Object, again[0].Object))
			got = again
		}

		alone, _, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: kind}), bytes.NewReader(body))
		require.NoError(t, err)
		require.False(t, sameMap(alone[n-2].Object["spec"], alone[n-1].Object["spec"]))
	}()
	for deadline := time.Now().Add(10 * time.Second); pool.Len() > 0; goruntime.Gosched() {
		goruntime.GC()
		require.True(t, time.Now().Before(deadline), "%d parts of objects that are gone", pool.Len())
	}
}

func sameMap(a, b any) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// A text that came again and again is not kept for the time when it may come
// once more: a watch that waits holds nothing.
func TestW03_WaitingWatchesHoldNoTexts(t *testing.T) {
	const node = "a-node-that-all-of-them-run-on"
	var body []byte
	for i := range 6 {
		on := node
		if i == 5 {
			on = "another"
		}
		body = fmt.Appendf(body, `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p%d"},"spec":{"nodeName":%q},"nodeName":%q}}`, i, on, on)
	}
	opts := Options{Kind: podKind, Pool: NewPool()}
	requireTextGone(t, decoderOfType[*corev1.Pod](t, MediaJSON, opts), body, func(p *corev1.Pod) string { return p.Spec.NodeName })
	requireTextGone(t, decoderOfType[*unstructured.Unstructured](t, MediaJSON, opts), body, func(u *unstructured.Unstructured) string { return u.Object["nodeName"].(string) })
}

// requireTextGone requires of a watch that a text which its objects share goes
// with the last of them, while the watch goes on.
func requireTextGone[T object.Object](t *testing.T, d typedDecoder[T], body []byte, text func(T) string) {
	t.Helper()
	var held []T
	var shared weak.Pointer[byte]
	n := 0
	for ev, err := range d.Watch(bytes.NewReader(body), nil) {
		require.NoError(t, err)
		if n++; n < 6 {
			held = append(held, ev.Object)
			continue
		}
		at := unsafe.StringData(text(held[3]))
		require.Same(t, at, unsafe.StringData(text(held[4])), "it is shared")
		shared, at = weak.Make(at), nil
		goruntime.GC()
		require.NotNil(t, shared.Value(), "it is in use")
		goruntime.KeepAlive(held)
		held = nil
		require.True(t, collectUntil(func() bool { return shared.Value() == nil }), "the text is held, and no object has it: %T", ev.Object)
	}
	require.Equal(t, 6, n)
}

// Parts of typed objects are shared too.
func TestW03_TypedJSONSharing(t *testing.T) {
	pods := make([]any, 4)
	for i := range pods {
		pods[i] = objects.Pod(1, i*objects.Apps, objects.Options{})
	}
	body := indentedList(t, podKind, "", pods)
	got, _, err := readList(podDecoder(t, MediaJSON, Options{Pool: NewPool()}), bytes.NewReader(body))
	require.NoError(t, err)
	a, b := got[2], got[3]
	require.Same(t, &a.Spec.Containers[0].Env[0], &b.Spec.Containers[0].Env[0])
	require.Same(t, &a.OwnerReferences[0], &b.OwnerReferences[0])
	require.True(t, sameMap(a.Labels, b.Labels))
	require.NotSame(t, &a.Status.Conditions[0], &b.Status.Conditions[0])
	got, _, err = readList(podDecoder(t, MediaJSON, Options{}), bytes.NewReader(body))
	require.NoError(t, err)
	require.NotSame(t, &got[2].Spec.Containers[0].Env[0], &got[3].Spec.Containers[0].Env[0])
}

// Many runs use one pool.
func TestJSONFromManyGoroutines(t *testing.T) {
	t.Parallel()
	kind := objects.WidgetVersion().WithKind(objects.WidgetKind)
	widgets := make([]any, 2*objects.Apps)
	for i := range widgets {
		widgets[i] = objects.Widget(1, i, objects.Options{})
	}
	body := indentedList(t, kind, "", widgets)
	want, _, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: kind, Reference: true}), bytes.NewReader(body))
	require.NoError(t, err)
	d := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: kind, Pool: NewPool()})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			got, _, err := readList(d, bytes.NewReader(body))
			if err != nil || !reflect.DeepEqual(want, got) {
				t.Errorf("error %v, or other objects", err)
			}
		})
	}
	all.Wait()
}

// What head says is what decoding gives.
// A body that is whole has not ended early, which would be the fault of the connection.
func TestL21_BodyOtherThanAnObjectIsNotTruncated(t *testing.T) {
	d := podDecoder(t, MediaJSON, Options{})
	for _, body := range []string{"null", "OK", "true", "42", " 42\n", `"Pod"`, "[]"} {
		_, err := d.Object([]byte(body))
		require.ErrorIs(t, err, ErrSyntax, body)
		require.ErrorContains(t, err, "want a JSON object at byte", body)
		require.NotErrorIs(t, err, io.ErrUnexpectedEOF, body)
	}
	for _, body := range []string{"", " \n", "{", `{"kind":"Pod"`} {
		_, err := d.Object([]byte(body))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, body)
	}
}

func TestJSONHead(t *testing.T) {
	for body, want := range map[string]string{
		`{"metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"d","labels":{"name":"x"}},"spec":{"metadata":{"name":"y"}}}`: "b/a c d",
		`{"spec":[{"name":"y"},"}"],"metadata":{"uid":"c","resourceVersion":"d","name":"a"}}`:                                              "/a c d",
		"{ \"metadata\" : { \"uid\":\"c\",\n\"resourceVersion\":\"d\",\"name\":\"a\" } }":                                                  "/a c d",
		`{"metadata":{"name":"a","uid":"c"}}`:                                          "",
		`{"metadata":{"name":"a","uid":"c","resourceVersion":"d","uid":"e"}}`:          "",
		`{"metadata":{"name":"a","uid":"c","resourceVersion":"d"},"metadata":{}}`:      "",
		`{"metadata":{"name":"a","uid":"c","resourceVersion":"d"},"met\u0061data":{}}`: "",
		`{"metadata":{"name":"\u0061","uid":"c","resourceVersion":"d"}}`:               "",
		`{"metadata":{"name":1,"uid":"c","resourceVersion":"d"}}`:                      "",
		`{"metadata":[{"name":"a","uid":"c","resourceVersion":"d"}]}`:                  "",
		`[{"metadata":{"name":"a","uid":"c","resourceVersion":"d"}}]`:                  "",
		`{"metadata":{"name":"a","uid":"c","resourceVersion":"d"]}`:                    "",
		`{"metadata":{"name":"a","uid":"c","resourceVersion":"d"},}`:                   "",
		`"a"`: "",
	} {
		d := &jsonEncoding{decoderConfig: decoderConfig{opts: Options{}.withDefaults()}}
		i, err := d.scan(frame.FromBytes([]byte(body))).Value()
		require.NoError(t, err, body)
		of, ok := json.IdentityOf(i)
		require.Equal(t, want != "", ok, body)
		if ok {
			require.Equal(t, want, fmt.Sprintf("%s/%s %s %s", of.Namespace, of.Name, of.UID, of.RV))
		}
	}
}

func FuzzJSONEqualsTheReference(f *testing.F) {
	for _, v := range quirkValues {
		f.Add([]byte(`{"apiVersion":"example.com/v1","kind":"Quirk","metadata":{"name":"q"},"any":` + v + `}`))
	}
	widget, err := stdjson.Marshal(objects.Widget(1, 1, objects.Options{}).Object)
	require.NoError(f, err)
	f.Add(widget)
	f.Add([]byte(`{"items":[{"metadata":{"name":"q"}}],"apiVersion":"example.com/v1","kind":"QuirkList"}`))
	f.Add([]byte("{\"object\":{\"apiVersion\":\"example.com/v1\",\"kind\":\"Quirk\",\"metadata\":{\"name\":\"q\"}},\"type\":\"ADDED\"}\n"))
	opts := fuzzOptions
	opts.Kind = quirkKind
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, body []byte) {
		typed, free := newTwins[*quirks](t, opts), newTwins[*unstructured.Unstructured](t, opts)
		withinBudget(t, body, func() { typed.others["alone"].Object(body) })
		kept.Nothing(t)
		typed.object(t, body)
		typed.list(t, body)
		typed.watch(t, body)
		free.object(t, body)
		free.list(t, body)
		free.watch(t, body)
	})
}
