package wire

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// fuzzKinds are kinds that together have every sort of field. Their order is part of the corpus in
// testdata: append new ones.
var fuzzKinds = []object.GVK{
	podKind,
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "Event"},
	{Version: "v1", Kind: "Node"},
	{Version: "v1", Kind: "PersistentVolume"},
	{Version: "v1", Kind: "ResourceQuota"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"},
	{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadata"},
}

// fuzzContest is a contest whose compiled decoders must also keep the budget.
type fuzzContest[T object.Object] struct{ *contest[T] }

func newFuzzContest[T object.Object](t testing.TB, media string, kind object.GVK, pool *Pool) fuzzContest[T] {
	opts := fuzzOptions
	opts.Scheme, opts.Kind = scheme.New(), kind
	return fuzzContest[T]{newContest[T](t, media, opts, pool)}
}

func (c fuzzContest[T]) object(t *testing.T, body []byte) {
	c.objects(t, body, "object")
	withinBudget(t, body, func() { c.compiled[0].Object(body) })
	withinBudget(t, body, func() { c.compiled[1].Object(body) })
}

func (c fuzzContest[T]) list(t *testing.T, body []byte) {
	c.lists(t, body, "list")
	withinBudget(t, body, func() { readList(c.compiled[0].typedDecoder, bytes.NewReader(body)) })
	withinBudget(t, body, func() { readList(c.compiled[1].typedDecoder, bytes.NewReader(body)) })
}

func (c fuzzContest[T]) watch(t *testing.T, body []byte) {
	c.watches(t, body, "watch")
	withinBudget(t, body, func() { readWatch(c.compiled[0].typedDecoder, bytes.NewReader(body)) })
	withinBudget(t, body, func() { readWatch(c.compiled[1].typedDecoder, bytes.NewReader(body)) })
}

// FuzzObjectProtobuf decodes a message as one of the kinds.
func FuzzObjectProtobuf(f *testing.F) {
	contests := fuzzContests(f, MediaProtobuf)
	for i, kind := range fuzzKinds {
		e, err := protobuf.Open(MediaProtobuf, seedObject(f, MediaProtobuf, i, kind))
		require.NoError(f, err)
		f.Add(uint8(i), e.Raw)
	}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte) {
		kept.Nothing(t)
		n := int(kind) % len(fuzzKinds)
		contests[n].object(t, protobufBody(t, fuzzKinds[n], raw))
	})
}

// FuzzObjectJSON decodes a text as one of the kinds, and into maps.
func FuzzObjectJSON(f *testing.F) {
	contests := fuzzContests(f, MediaJSON)
	maps := newFuzzContest[*unstructured.Unstructured](f, MediaJSON, podKind, NewPool())
	for i, kind := range fuzzKinds {
		f.Add(uint8(i), seedObject(f, MediaJSON, i, kind))
	}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		kept.Nothing(t)
		contests[int(kind)%len(fuzzKinds)].object(t, text)
		maps.object(t, text)
	})
}

// fuzzContests returns a contest for each of the fuzzKinds.
func fuzzContests(f *testing.F, media string) (contests []fuzzContest[object.Object]) {
	f.Helper()
	pool := NewPool()
	for _, kind := range fuzzKinds {
		contests = append(contests, newFuzzContest[object.Object](f, media, kind, pool))
	}
	return contests
}

// seedObject returns a random object as a seed for the fuzzer.
func seedObject(f *testing.F, media string, seed int, kind object.GVK) []byte {
	f.Helper()
	all := scheme.New()
	obj, err := all.New(kind)
	require.NoError(f, err)
	return encodeAs(f, media, kind, newFiller(all).object(reflect.TypeOf(obj).Elem(), sparse, int64(seed)))
}

func FuzzListJSON(f *testing.F)     { fuzzList(f, MediaJSON) }
func FuzzListProtobuf(f *testing.F) { fuzzList(f, MediaProtobuf) }

func fuzzList(f *testing.F, media string) {
	f.Add(encodeAs(f, media, podListKind, podList()))
	f.Add(encodeAs(f, media, podListKind, podList("a", "b")))
	f.Add(encodeAs(f, media, widgetKind, podList("a")))
	typed := newFuzzContest[object.Object](f, media, podKind, NewPool())
	maps := newFuzzContest[*unstructured.Unstructured](f, MediaJSON, podKind, NewPool())
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, body []byte) {
		kept.Nothing(t)
		typed.list(t, body)
		if media == MediaJSON {
			maps.list(t, body)
		}
	})
}

func FuzzWatchJSON(f *testing.F)     { fuzzWatch(f, MediaJSON) }
func FuzzWatchProtobuf(f *testing.F) { fuzzWatch(f, MediaProtobuf) }

func fuzzWatch(f *testing.F, media string) {
	for _, typ := range []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "OTHER"} {
		f.Add(frameOf(f, media, typ, podKind, pod("a")))
	}
	f.Add(frameOf(f, media, "ERROR", statusKind, &metav1.Status{Code: 410}))
	f.Add([]byte{0x40, 0, 0, 0})
	typed := newFuzzContest[object.Object](f, media, podKind, NewPool())
	maps := newFuzzContest[*unstructured.Unstructured](f, MediaJSON, podKind, NewPool())
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, body []byte) {
		kept.Nothing(t)
		typed.watch(t, body)
		if media == MediaJSON {
			maps.watch(t, body)
		}
	})
}

// maxRepeated is the size of the longest body of FuzzRepeated, in bytes: long enough to expose
// costs that grow faster than the length, and short enough for many runs.
const maxRepeated = 64 << 10

// FuzzRepeated decodes long bodies in which a part repeats. They expose superlinear time or memory:
// mutations alone rarely make a body that is both long and valid.
func FuzzRepeated(f *testing.F) {
	for i, media := range allMedia {
		f.Add(uint8(i), []byte(`{"items":[`), []byte(`{"metadata":{"name":"a"}},`), []byte(`{}]}`))
		f.Add(uint8(i), []byte(nil), frameOf(f, media, "ADDED", podKind, pod("a")), []byte(nil))
		f.Add(uint8(i), []byte(nil), []byte("["), []byte(nil))
		f.Add(uint8(i), []byte("\xbf\x65items\x9f"), []byte("\xa1\x68metadata\xa1\x64name\x61a"), []byte("\xff\xff"))
	}
	var typed []typedDecoder[object.Object]
	var maps []typedDecoder[*unstructured.Unstructured]
	for _, media := range allMedia {
		opts := fuzzOptions
		opts.Scheme, opts.Kind, opts.Pool = scheme.New(), podKind, NewPool()
		typed = append(typed, decoderOfType[object.Object](f, media, opts))
		if media != MediaProtobuf {
			maps = append(maps, decoderOfType[*unstructured.Unstructured](f, media, opts))
		}
	}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, media uint8, before, unit, after []byte) {
		kept.Nothing(t)
		times := max(0, maxRepeated-len(before)-len(after)) / max(1, len(unit))
		body := slices.Concat(before, bytes.Repeat(unit, times), after)
		repeated(t, typed[int(media)%len(typed)], body)
		repeated(t, maps[int(media)%len(maps)], body)
	})
}

func repeated[T object.Object](t *testing.T, d typedDecoder[T], body []byte) {
	t.Helper()
	withinBudget(t, body, func() { d.Object(body) })
	withinBudget(t, body, func() { readList(d, bytes.NewReader(body)) })
	withinBudget(t, body, func() { readWatch(d, bytes.NewReader(body)) })
}

// FuzzUnmarshalJSON decodes input for webhooks, as a kind with every sort of field and into maps. A
// decoder that reads the same text must agree.
func FuzzUnmarshalJSON(f *testing.F) {
	f.Add(encodeAs(f, MediaJSON, podKind, pod("a")))
	f.Add([]byte(podText(`"overhead":{"cpu":"1e-999999999"}`)))
	d := podDecoder(f, MediaJSON, fuzzOptions)
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, body []byte) {
		kept.Nothing(t)
		withinBudget(t, body, func() { _, _ = UnmarshalJSON[*corev1.Pod](body, podKind) })
		withinBudget(t, body, func() { _, _ = UnmarshalJSON[*unstructured.Unstructured](body, podKind) })
		if want, err := d.Object(body); err == nil {
			got, err := UnmarshalJSON[*corev1.Pod](body, podKind)
			require.NoError(t, err)
			got.TypeMeta = want.TypeMeta
			requireSame(t, want, got, "object")
		}
	})
}
