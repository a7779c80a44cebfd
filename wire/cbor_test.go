package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// Every kind of the scheme, alone, in lists and in watches, decodes from CBOR as from JSON: with
// its Go type, as metadata, and as maps.
func TestW01_EveryKindInCBOR(t *testing.T) {
	t.Parallel()
	all := scheme.New()
	f := newFiller(all)
	count := objectKinds(all, func(i int, a apiType) {
		for n, how := range []fullness{full, sparse} {
			obj := f.object(a.typ, how, int64(8000*i+n))
			about := fmt.Sprintf("%s, seed %d", a.kind, 8000*i+n)
			sameInCBOR[object.Object](t, Options{Scheme: all, Kind: a.kind}, obj, about)
			sameInCBOR[*metav1.PartialObjectMetadata](t, Options{Kind: a.kind}, obj, about+", metadata")
			sameInCBOR[*unstructured.Unstructured](t, Options{Kind: a.kind}, obj, about+", maps")
		}
	})
	t.Logf("%d kinds", count)
	require.GreaterOrEqual(t, count, 158)
}

func sameInCBOR[T object.Object](t *testing.T, opts Options, obj runtime.Object, about string) {
	t.Helper()
	inJSON, inCBOR := encodeAs(t, MediaJSON, opts.Kind, obj), encodeAs(t, MediaCBOR, opts.Kind, obj)
	reference := opts
	reference.Reference = true
	d, want := decoderOfType[T](t, MediaCBOR, opts), decoderOfType[T](t, MediaJSON, reference)
	one, err := want.Object(inJSON)
	require.NoError(t, err, about)
	memory := bytes.Clone(inCBOR)
	got, err := d.Object(memory)
	require.NoError(t, err, about)
	requireFree(t, got, memory, about)
	requireSameMeaning(t, one, got, about)

	r := &recorder{r: bytes.NewReader(listOf(t, MediaCBOR, opts.Kind, [][]byte{inCBOR, inCBOR}))}
	list, meta, err := readList(d, r)
	require.NoError(t, err, about)
	r.requireFree(t, list, about)
	requireSameMeaning(t, []T{one, one}, list, about)
	require.Equal(t, "5", meta.ResourceVersion)

	r = &recorder{r: bytes.NewReader(watchOf(t, MediaCBOR, [][]byte{inCBOR, inCBOR}))}
	events, err := readWatch(d, r)
	require.NoError(t, err, about)
	r.requireFree(t, events, about)
	require.Len(t, events, 2)
	requireSameMeaning(t, []T{one, one}, []T{events[0].Object, events[1].Object}, about)
}

// requireSameMeaning requires that two values are equal in JSON except for the order of fields:
// types that keep raw bytes have another order after CBOR.
func requireSameMeaning(t *testing.T, want, got any, about string) {
	t.Helper()
	var trees [2]any
	for i, v := range []any{want, got} {
		text, err := json.Marshal(v)
		require.NoError(t, err, about)
		require.NoError(t, json.Unmarshal(text, &trees[i]), about)
	}
	requireSame(t, trees[0], trees[1], about)
}

// Lists as the serializer of servers writes them: item by item since v0.37 of k8s.io/apimachinery,
// and as one value before.
func TestCBORListsAsServersWriteThem(t *testing.T) {
	pods := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "c"}}
	untyped := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"resourceVersion": "5", "continue": "c"}}}
	for i := range 50 {
		pods.Items = append(pods.Items, *objects.Pod(1, i, objects.Options{}))
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pods.Items[i])
		require.NoError(t, err)
		content["kind"], content["apiVersion"] = "Pod", "v1"
		untyped.Items = append(untyped.Items, unstructured.Unstructured{Object: content})
	}
	serializer := cbor.NewSerializer(nil, nil)
	for _, encode := range []func(*bytes.Buffer, runtime.Object) error{
		func(b *bytes.Buffer, o runtime.Object) error { return serializer.Encode(o, b) },
		func(b *bytes.Buffer, o runtime.Object) error { return serializer.EncodeNondeterministic(o, b) },
	} {
		var body bytes.Buffer
		pods.Kind, pods.APIVersion = "PodList", "v1"
		require.NoError(t, encode(&body, pods))
		got, meta, err := readList(podDecoder(t, MediaCBOR, Options{}), &body)
		require.NoError(t, err)
		require.Equal(t, pods.ListMeta, meta)
		require.Len(t, got, len(pods.Items))
		pods.Items[49].TypeMeta = metav1.TypeMeta{}
		requireSameMeaning(t, &pods.Items[49], got[49], "pod")

		require.NoError(t, encode(&body, untyped))
		maps, meta, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaCBORSequence+"; charset=x", Options{Kind: podKind}), &body)
		require.NoError(t, err)
		require.Equal(t, pods.ListMeta, meta)
		require.Equal(t, &untyped.Items[49], maps[49])
	}
}

// The output of other encoders is accepted as well: indefinite lengths, strings in pieces, tags,
// names as byte strings, heads longer than necessary.
func TestW01_CBORInOtherForms(t *testing.T) {
	d := decoderOfType[*unstructured.Unstructured](t, MediaCBOR, Options{Kind: widgetKind})
	const kind = "\x6aapiVersion\x6eexample.com/v1\x64kind\x66Widget"
	want := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "a": []any{int64(1), "xyz"}}
	for name, body := range map[string]string{
		"plain":          "\xa4" + kind + "\x68metadata\xa1\x64name\x61w\x61a\x82\x01\x63xyz",
		"self-described": "\xd9\xd9\xf7\xa4" + kind + "\x68metadata\xa1\x64name\x61w\x61a\x82\x01\x63xyz",
		"indefinite":     "\xbf" + kind + "\x68metadata\xbf\x64name\x61w\xff\x61a\x9f\x01\x7f\x61x\x62yz\xff\xff\xff",
		"long heads":     "\xb8\x04" + kind + "\x78\x08metadata\xb9\x00\x01\x7a\x00\x00\x00\x04name\x61w\x61a\x9b\x00\x00\x00\x00\x00\x00\x00\x02\x18\x01\x63xyz",
		"bytes as text":  "\xa4" + kind + "\x68metadata\xa1\x64name\x41w\x61a\x82\x01\x43xyz",
		"tags":           "\xa4" + kind + "\x68metadata\xa1\x64name\xd9\xd9\xf7\x61w\x61a\xd9\xd9\xf7\x82\x01\x63xyz",
	} {
		got, err := d.Object([]byte(body))
		require.NoError(t, err, name)
		require.Equal(t, want, got.Object, name)
		list := "\xbf\x65items\x9f" + body + body + "\xff" + strings.Replace(kind, "\x66Widget", "\x6aWidgetList", 1) + "\xff"
		all, _, err := readList(d, strings.NewReader(list))
		require.NoError(t, err, name)
		require.Len(t, all, 2, name)
		require.Equal(t, want, all[1].Object, name)
		events, err := readWatch(d, strings.NewReader("\xbf\x66object"+body+"\x64type\x65ADDED\xff"))
		require.NoError(t, err, name)
		require.Equal(t, want, events[0].Object.Object, name)
	}
	empty, _, err := readList(d, strings.NewReader("\xa3\x65items\xf6"+strings.Replace(kind, "\x66Widget", "\x6aWidgetList", 1)))
	require.NoError(t, err)
	require.Empty(t, empty)
}

// Duplicate fields are refused, and so are lists that end too early or too late.
func TestL21_CBORListRefusesBadBodies(t *testing.T) {
	const kind = "\x6aapiVersion\x62v1\x64kind\x67PodList"
	const item = "\xa1\x68metadata\xa1\x64name\x61a"
	for body, want := range map[string]error{
		"\x80":                              ErrSyntax,
		"\xf6":                              ErrSyntax,
		"\xa3" + kind + "\x65items\x60":     ErrSyntax,
		"\xa3" + kind + "\x01\x80":          ErrSyntax,
		"\xa3" + kind + "\x65items\x80\x00": ErrSyntax,
		"\xa4" + kind + "\x65items\x80\x65items\x80":                      ErrSyntax,
		"\xa3" + kind + "\x64kind\x67PodList":                             ErrSyntax,
		"\xa3" + kind + "\x65items\x82" + item + "\xf6":                   ErrSyntax,
		"\xa3" + kind + "\x65items\x82" + item + "\x1c":                   ErrSyntax,
		"\xa3" + kind + "\x65items\x82" + item + "\xff":                   ErrSyntax,
		"\xa3" + kind + "\x65items\x81\xa0":                               ErrNoName,
		"\xa2\x6aapiVersion\x62v1\x65items\x80":                           ErrKind,
		"\xa3\x65items\x80\x6aapiVersion\x62v1\x64kind\x6bServiceList":    ErrKind,
		"\xa3" + kind + "\x65items\x81\xa2\x64kind\x67Service" + item[1:]: ErrKind,
	} {
		_, _, err := readList(podDecoder(t, MediaCBOR, Options{}), strings.NewReader(body))
		require.ErrorIs(t, err, want, "%q", body)
		var e *Error
		require.ErrorAs(t, err, &e, "%q", body)
	}
}

// The codec of apimachinery v0.35 has lower limits than a decoder may be configured for. Exceeding
// them is not a syntax error.
func TestL21_LimitsOfTheCBORCodecAreNamed(t *testing.T) {
	deep := any("x")
	for range 100 {
		deep = map[string]any{"a": deep}
	}
	wide := make(map[string]any)
	for i := range 2000 {
		wide[fmt.Sprint(i)] = "x"
	}
	for name, c := range map[string]struct {
		spec  any
		want  error
		limit string
	}{
		"deep": {deep, ErrTooDeep, "64"},
		"long": {make([]any, 2000), ErrTooLarge, "1024"},
		"wide": {wide, ErrTooLarge, "1024"},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": c.spec}}
		body := encodeAs(t, MediaCBOR, widgetKind, u)
		if direct.Unmarshal(body, new(any)) == nil {
			continue // it is a later version
		}
		_, err := decoderOfType[*unstructured.Unstructured](t, MediaCBOR, Options{Kind: widgetKind}).Object(body)
		require.ErrorIs(t, err, c.want, name)
		require.ErrorContains(t, err, c.limit, name)
		_, err = decoderOfType[*metav1.PartialObjectMetadata](t, MediaCBOR, Options{Kind: widgetKind}).Object(body)
		require.ErrorIs(t, err, c.want, name)
	}
}

// Unselected fields are absent. CBOR objects share nothing.
func TestW04_CBORIsProjected(t *testing.T) {
	random := rand.New(rand.NewPCG(20261123, 0))
	for n := range 50 {
		var tree map[string]any
		var widget []byte
		for widget == nil { // no duplicate names, which CBOR does not allow
			text := randomWidget(random, "w")
			require.NoError(t, json.Unmarshal(text, &tree))
			widget, _ = json.Marshal(tree)
		}
		f := randomPaths(random)
		opts := Options{Kind: widgetKind, Keep: f, Reference: true}
		want, err := decoderOfType[*unstructured.Unstructured](t, MediaJSON, opts).Object(widget)
		require.NoError(t, err)
		whole, err := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind}).Object(widget)
		require.NoError(t, err)
		got, err := decoderOfType[*unstructured.Unstructured](t, MediaCBOR, Options{Kind: widgetKind, Keep: f, Pool: NewPool()}).Object(encodeAs(t, MediaCBOR, widgetKind, whole))
		require.NoError(t, err)
		require.Equal(t, want, got, "%d: %s of %s", n, f, widget)
	}
}

// Lengths are not trusted, depth is bounded, and items that the codec reads repeatedly do not nest
// deeply.
func TestW02_CBORIsBounded(t *testing.T) {
	opts := Options{MaxObjectBytes: 1 << 20, MaxDepth: 100}
	d := podDecoder(t, MediaCBOR, opts)
	const start = "\xa3\x6aapiVersion\x62v1\x64kind\x63Pod\x68metadata"
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"a long text":      {start + "\x7a\x7f\xff\xff\xff", ErrTooLarge},
		"a huge text":      {start + "\x7b\xff\xff\xff\xff\xff\xff\xff\xff", ErrTooLarge},
		"a long list":      {start + "\x9a\x7f\xff\xff\xff", ErrTooLarge},
		"a huge map":       {start + "\xbb\x80\x00\x00\x00\x00\x00\x00\x01", ErrTooLarge},
		"many bytes":       {start + "\x9f" + strings.Repeat("\x00", 1<<20+4<<10) + "\xff", ErrTooLarge},
		"deep lists":       {start + strings.Repeat("\x81", 200) + "\x00", ErrTooDeep},
		"deep maps":        {start + strings.Repeat("\xa1\x61a", 200) + "\x00", ErrTooDeep},
		"deep tags":        {start + strings.Repeat("\xc1", 200) + "\x00", ErrTooDeep},
		"deep and endless": {start + strings.Repeat("\x9f", 80) + strings.Repeat("\xff", 80), ErrTooDeep},
	} {
		list := "\xa3\x65items\x81" + c.body
		stream := "\xa2\x64type\x65ADDED\x66object" + c.body
		withinBudget(t, []byte(c.body), func() {
			_, err := d.Object([]byte(c.body))
			require.ErrorIs(t, err, c.want, name)
			_, _, err = readList(d, strings.NewReader(list))
			require.ErrorIs(t, err, c.want, name)
			_, err = readWatch(d, strings.NewReader(stream))
			require.ErrorIs(t, err, c.want, name)
		})
	}
	// The deepest allowed items of indefinite length.
	deep := start + strings.Repeat("\x9f", frame.MaxIndefinite) + strings.Repeat("\x00", 1<<19) + strings.Repeat("\xff", frame.MaxIndefinite)
	_, err := d.Object([]byte(deep))
	if !errors.Is(err, ErrTooLarge) { // see TestL21_LimitsOfTheCBORCodecAreNamed
		require.ErrorIs(t, err, ErrSyntax)
	}
	deep = strings.Replace(deep, "\x68metadata", "\x68metadatb", 1)
	_, err = decoderOfType[*unstructured.Unstructured](t, MediaCBOR, Options{Kind: podKind}).Object([]byte(deep))
	if reference := direct.Unmarshal([]byte(deep), new(any)); reference != nil { // v0.35 of k8s.io/apimachinery has narrow limits
		require.Error(t, err, "the reference refuses it: %v", reference)
		return
	}
	require.NoError(t, err)
}

// Absurd quantities are refused in every encoding; labels of the same form are accepted.
func TestW02_CBORQuantitiesWithHugeExponents(t *testing.T) {
	d := podDecoder(t, MediaCBOR, Options{})
	const kind = "\x6aapiVersion\x62v1\x64kind\x63Pod\x68metadata\xa1\x64name\x61p"
	with := func(value string) []byte {
		return []byte("\xa4" + kind + "\x64spec\xa1\x68overhead\xa1\x63cpu" + value)
	}
	const huge = "1e-999999999"
	for name, value := range map[string]string{
		"text":            cborTextOf(huge),
		"bytes":           "\x4c" + huge,
		"in pieces":       "\x7f\x621e\x6a-999999999\xff",
		"bytes in pieces": "\x5f\x421e\x4a-999999999\xff",
		"of base16":       "\xd7\x45\x1e\x99\x99\x99\x99",
		"tagged":          "\xd9\xd9\xf7" + cborTextOf(huge),
	} {
		_, err := d.Object(with(value))
		require.ErrorIs(t, err, ErrQuantity, name)
		require.NotContains(t, err.Error(), huge)
	}
	for value, want := range map[string]string{cborTextOf("1e3"): "1e3", cborTextOf("100m"): "100m", "\x7f\x621e\x613\xff": "1e3"} {
		got, err := d.Object(with(value))
		require.NoError(t, err, value)
		require.True(t, resource.MustParse(want).Equal(got.Spec.Overhead["cpu"]), "%q is %v", value, got.Spec.Overhead)
	}
	got, err := d.Object([]byte("\xa3" + strings.Replace(kind, "\xa1\x64name", "\xa2\x66labels\xa1\x61a"+cborTextOf(huge)+"\x64name", 1)))
	require.NoError(t, err)
	require.Equal(t, huge, got.Labels["a"])
}

// Errors of the codec quote their input; ours do not.
func TestCBORErrorsKeepSecrets(t *testing.T) {
	const secret = "hunter2"
	d := decoderOfType[*corev1.Secret](t, MediaCBOR, Options{Kind: corev1.SchemeGroupVersion.WithKind("Secret")})
	for _, value := range []any{secret, map[string]any{"password": secret + "!!"}, map[string]any{"password": map[string]any{secret: 1}}, []any{secret}} {
		body, err := direct.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"}, "data": value})
		require.NoError(t, err)
		_, err = d.Object(body)
		require.Error(t, err, "%v", value)
		clear(body) // the error does not point into the body
		require.NotContains(t, err.Error(), secret)
		require.Contains(t, err.Error(), "(a)")
	}
}

// FuzzCBOR decodes bytes as an object, a list and a watch. The result is a value or an error, in
// bounded memory, and encoding and decoding a value gives an equal one.
func FuzzCBOR(f *testing.F) {
	for i, kind := range fuzzKinds[:8] {
		f.Add(seedObject(f, MediaCBOR, i, kind))
	}
	f.Add(encodeAs(f, MediaCBOR, podListKind, podList("a", "b")))
	f.Add(frameOf(f, MediaCBOR, "ADDED", podKind, pod("a")))
	f.Add(frameOf(f, MediaCBOR, "ERROR", statusKind, &metav1.Status{Code: 410}))
	f.Add([]byte("\xbf\x65items\x9f\xff\xff"))
	opts := fuzzOptions
	opts.Scheme = scheme.New()
	opts.Kind = podKind
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, body []byte) {
		kept.Nothing(t)
		pods := podDecoder(t, MediaCBOR, opts)
		maps := decoderOfType[*unstructured.Unstructured](t, MediaCBOR, opts)
		meta := decoderOfType[*metav1.PartialObjectMetadata](t, MediaCBOR, opts)
		withinBudget(t, body, func() { pods.Object(body) })
		withinBudget(t, body, func() { readList(pods, bytes.NewReader(body)) })
		withinBudget(t, body, func() { readWatch(pods, bytes.NewReader(body)) })
		withinBudget(t, body, func() { maps.Object(body) })
		withinBudget(t, body, func() { readList(maps, bytes.NewReader(body)) })
		withinBudget(t, body, func() { readWatch(maps, bytes.NewReader(body)) })
		withinBudget(t, body, func() { meta.Object(body) })
		if got, err := maps.Object(body); err == nil {
			again, err := maps.Object(encodeAs(t, MediaCBOR, podKind, got))
			require.NoError(t, err)
			got.SetGroupVersionKind(podKind)
			if !reflect.DeepEqual(got, again) {
				t.Fatalf("%q is %v, then %v", body, got, again)
			}
		}
	})
}

// A known object is reused only if the item's identity is unambiguous.
func TestCBORIdentity(t *testing.T) {
	const metadata = "\x68metadata"
	for body, want := range map[string]string{
		"\xa1" + metadata + "\xa4\x64name\x61a\x69namespace\x61b\x63uid\x61c\x6fresourceVersion\x61d":                    "b/a c d",
		"\xd9\xd9\xf7\xa2\x61x\x82\x00\xbf\xff" + metadata + "\xbf\x63uid\x61c\x64name\x61a\x6fresourceVersion\x41d\xff": "/a c d",
		"\xa1" + metadata + "\xa2\x64name\x61a\x63uid\x61c":                                                              "",
		"\xa1" + metadata + "\xa4\x64name\x61a\x63uid\x61c\x6fresourceVersion\x61d\x63uid\x61e":                          "",
		"\xa2" + metadata + "\xa3\x64name\x61a\x63uid\x61c\x6fresourceVersion\x61d" + metadata + "\xa1\x64name\x61a":     "",
		"\xa1" + metadata + "\xa3\x64name\x01\x63uid\x61c\x6fresourceVersion\x61d":                                       "",
		"\xa1" + metadata + "\xa3\x64name\x7f\x61a\xff\x63uid\x61c\x6fresourceVersion\x61d":                              "",
		"\xa1" + metadata + "\x81\xa3\x64name\x61a\x63uid\x61c\x6fresourceVersion\x61d":                                  "",
		"\xa2" + metadata + "\xa3\x64name\x61a\x63uid\x61c\x6fresourceVersion\x61d\x01\x02":                              "",
	} {
		raw, err := (&frame.CBOR{Source: frame.FromBytes([]byte(body)), MaxBytes: 1000, MaxDepth: 10}).Value()
		require.NoError(t, err, "%q", body)
		asked := false
		have := pod("have")
		have.UID, have.ResourceVersion = "c", "d"
		d := plainOf(podDecoder(t, MediaCBOR, Options{})).(*decoder)
		got, ok := d.cached(func(key object.Key) (object.Head, bool) {
			asked = true
			require.Equal(t, want, fmt.Sprintf("%s/%s c d", key.Namespace, key.Name))
			return have, true
		}, frame.Item{Raw: raw})
		require.Equal(t, want != "", asked, "%q", body)
		require.Equal(t, want != "", ok, "%q", body)
		if ok {
			require.Same(t, have, got)
		}
	}
}
