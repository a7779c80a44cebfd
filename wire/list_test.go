package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

var (
	podKind     = corev1.SchemeGroupVersion.WithKind("Pod")
	podListKind = corev1.SchemeGroupVersion.WithKind("PodList")
	bothMedia   = []string{MediaJSON, MediaProtobuf} // with a compiled decoder
	allMedia    = append(bothMedia, MediaCBOR)
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "7"},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
	}
}

func podList(names ...string) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "100", Continue: "more"}, Items: []corev1.Pod{}}
	for _, name := range names {
		list.Items = append(list.Items, *pod(name))
	}
	return list
}

func podDecoder(t testing.TB, media string, opts Options) typedDecoder[*corev1.Pod] {
	opts.Kind = podKind
	return decoderOfType[*corev1.Pod](t, media, opts)
}

// readList reads a list to its end or to its first error.
func readList[T object.Object](d typedDecoder[T], body io.Reader) (items []T, meta metav1.ListMeta, err error) {
	for item, err := range d.List(body, &meta, nil) {
		if err != nil {
			return items, meta, err
		}
		items = append(items, item)
	}
	return items, meta, nil
}

func TestListYieldsItemsAndMetadata(t *testing.T) {
	for _, media := range allMedia {
		for _, n := range []int{0, 1, 3} {
			list := podList([]string{"a", "b", "c"}[:n]...)
			body := encodeAs(t, media, podListKind, list)
			for name, r := range map[string]io.Reader{"whole": bytes.NewReader(body), "byte by byte": iotest.OneByteReader(bytes.NewReader(body))} {
				items, meta, err := readList(podDecoder(t, media, Options{}), r)
				require.NoError(t, err, "%s %s", media, name)
				require.Equal(t, list.ListMeta, meta)
				require.Len(t, items, n)
				for i := range items {
					require.Equal(t, &list.Items[i], items[i])
				}
			}
		}
	}
}

func TestListFieldsInAnyOrder(t *testing.T) {
	fields := []string{`"kind":"PodList"`, `"apiVersion":"v1"`, `"metadata":{"resourceVersion":"9"}`, `"\u0069tems":[{"metadata":{"name":"a"}}]`, `"unknown":{"items":[1]}`}
	for range fields {
		fields = append(fields[1:], fields[0])
		body := " {" + strings.Join(fields, " , ") + "} \n"
		items, meta, err := readList(podDecoder(t, MediaJSON, Options{}), strings.NewReader(body))
		require.NoError(t, err, body)
		require.Equal(t, "9", meta.ResourceVersion)
		require.Len(t, items, 1)
	}
}

// A truncated list is never taken for a shorter one, wherever it was cut.
func TestTruncatedListIsAnError(t *testing.T) {
	for _, media := range allMedia {
		body := encodeAs(t, media, podListKind, podList("a", "b"))
		body = bytes.TrimRight(body, "\n")
		for n := range body {
			items, _, err := readList(podDecoder(t, media, Options{}), bytes.NewReader(body[:n]))
			if media == MediaProtobuf && len(items) == 2 && err == nil && n >= len(body)-4 {
				continue // only the empty fields after the list are missing
			}
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s cut at %d of %d", media, n, len(body))
			var e *Error
			require.ErrorAs(t, err, &e)
		}
	}
}

// A broken connection is not reported as an error of the bytes.
func TestListPassesErrorsOfTheTransport(t *testing.T) {
	reset := errors.New("connection reset")
	for _, media := range allMedia {
		body := encodeAs(t, media, podListKind, podList("a", "b"))
		for n := range body {
			_, _, err := readList(podDecoder(t, media, Options{}), io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(reset)))
			require.ErrorIs(t, err, reset, "%s after %d bytes", media, n)
			var e *Error
			require.False(t, errors.As(err, &e), "%s after %d bytes: %v", media, n, err)
		}
	}
}

// An empty list of Services is not accepted as a list of Pods, whatever the Go type: an informer
// would delete all Pods.
func TestL21_ListOfAnotherBuiltinKindIsRefused(t *testing.T) {
	body := `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`
	_, _, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: podKind}), strings.NewReader(body))
	require.ErrorIs(t, err, ErrKind)
	_, _, err = readList(decoderOfType[*metav1.PartialObjectMetadata](t, MediaJSON, Options{Kind: podKind}), strings.NewReader(body))
	require.ErrorIs(t, err, ErrKind)

	all := scheme.New()
	for kind, goType := range all.AllKnownTypes() {
		if object.IsBuiltin(goType) {
			require.True(t, isBuiltinGroup(kind.Group), kind)
		}
	}
	require.False(t, isBuiltinGroup(widgetKind.Group))
	require.False(t, isBuiltinGroup("gateway.networking.k8s.io"), "of custom resources")
}

func TestL21_ListRefusesBadBodies(t *testing.T) {
	const kind = `"kind":"PodList","apiVersion":"v1",`
	deep := strings.Repeat("[", 30) + strings.Repeat("]", 30)
	opts := Options{MaxObjectBytes: 1000, MaxDepth: 20}
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"not JSON":                 {`<html>`, ErrSyntax},
		"empty object":             {`{}`, ErrKind},
		"no kind":                  {`{"apiVersion":"v1","items":[]}`, ErrKind},
		"list of another kind":     {`{"kind":"ServiceList","apiVersion":"v1","items":[]}`, ErrKind},
		"list of another version":  {`{"kind":"PodList","apiVersion":"v2","items":[]}`, ErrKind},
		"item of no version":       {`{` + kind + `"items":[{"kind":"Pod","apiVersion":"a/b/c","metadata":{"name":"a"}}]}`, ErrKind},
		"a single object":          {`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, ErrKind},
		"kind behind the items":    {`{"items":[],"kind":"ServiceList","apiVersion":"v1"}`, ErrKind},
		"item of another kind":     {`{` + kind + `"items":[{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"}}]}`, ErrKind},
		"item of another shape":    {`{` + kind + `"items":[{"kind":"Other","apiVersion":"v1","metadata":{"name":"a"},"spec":7}]}`, ErrKind},
		"item without a name":      {`{` + kind + `"items":[{"metadata":{}}]}`, ErrNoName},
		"null item":                {`{` + kind + `"items":[null]}`, ErrSyntax},
		"items not an array":       {`{` + kind + `"items":{}}`, ErrSyntax},
		"items nonsense":           {`{` + kind + `"items":nul}`, ErrSyntax},
		"items twice":              {`{` + kind + `"items":[],"items":[]}`, ErrSyntax},
		"trailing garbage":         {`{` + kind + `"items":[]}x`, ErrSyntax},
		"second document":          {`{` + kind + `"items":[]}{}`, ErrSyntax},
		"no comma":                 {`{` + kind + `"items":[{"metadata":{"name":"a"}} {"metadata":{"name":"b"}}]}`, ErrSyntax},
		"trailing comma":           {`{` + kind + `"items":[{"metadata":{"name":"a"}},]}`, ErrSyntax},
		"wrong brackets":           {`{` + kind + `"items":[{"metadata":{"name":"a"]}]}`, ErrSyntax},
		"wrong type of a field":    {`{` + kind + `"items":[{"metadata":{"name":"a"},"spec":{"nodeName":1}}]}`, ErrSyntax},
		"wrong type of a metadata": {`{` + kind + `"metadata":{"resourceVersion":1},"items":[]}`, ErrSyntax},
		"unknown field nonsense":   {`{` + kind + `"x":[}],"items":[]}`, ErrSyntax},
		"item too large":           {`{` + kind + `"items":[{"metadata":{"name":"` + strings.Repeat("a", 1000) + `"}}]}`, ErrTooLarge},
		"field too large":          {`{` + kind + `"x":"` + strings.Repeat("a", 1000) + `"}`, ErrTooLarge},
		"number too large":         {`{` + kind + `"x":` + strings.Repeat("1", 1001) + `}`, ErrTooLarge},
		"item too deep":            {`{` + kind + `"items":[{"metadata":{"name":"a"},"x":` + deep + `}]}`, ErrTooDeep},
		"field too deep":           {`{` + kind + `"x":` + deep + `}`, ErrTooDeep},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readList(podDecoder(t, MediaJSON, opts), strings.NewReader(c.body))
			require.ErrorIs(t, err, c.want)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, MediaJSON, e.Media)
		})
	}
}

func TestErrorNamesThePlaceAndTheObject(t *testing.T) {
	body := `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"spec":{"nodeName":1},"metadata":{"name":"b","namespace":"x"}}]}`
	items, _, err := readList(podDecoder(t, MediaJSON, Options{}), strings.NewReader(body))
	require.Len(t, items, 1)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "item 1", e.Where)
	require.Equal(t, object.Key{Namespace: "x", Name: "b"}, e.Key)
	require.EqualError(t, err, `decode application/json: item 1 (x/b), 63 bytes: malformed body: field "spec.nodeName" of type string cannot hold a JSON number; to skip the field, use Keep: wire.Without("spec.nodeName")`)
}

func TestListRefusesBadProtobuf(t *testing.T) {
	envelope := func(kind object.GVK, raw []byte) []byte {
		u := &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}, Raw: raw}
		b, err := u.Marshal()
		require.NoError(t, err)
		return append([]byte(protobuf.Magic), b...)
	}
	meta := []byte{0x0a, 0}
	item := func(p *corev1.Pod) []byte {
		b, err := p.Marshal()
		require.NoError(t, err)
		return append([]byte{0x12, byte(len(b))}, b...)
	}
	for name, c := range map[string]struct {
		body []byte
		want error
	}{
		"no prefix":             {[]byte("k8s\x01"), ErrSyntax},
		"another kind":          {envelope(widgetKind, meta), ErrKind},
		"no kind":               {envelope(object.GVK{}, meta), ErrKind},
		"no list":               {[]byte(protobuf.Magic + "\x0a\x00"), io.ErrUnexpectedEOF},
		"item overruns list":    {envelope(podListKind, append(meta, 0x12, 100)), ErrSyntax},
		"item too large":        {envelope(podListKind, append(append(meta, 0x12, 0x80, 0x10), make([]byte, 2048)...)), ErrTooLarge},
		"item without a name":   {envelope(podListKind, append(meta, item(&corev1.Pod{})...)), ErrNoName},
		"item is garbage":       {envelope(podListKind, append(meta, 0x12, 2, 0x0a, 0x7f)), ErrSyntax},
		"metadata is garbage":   {envelope(podListKind, []byte{0x0a, 1, 0xff}), ErrSyntax},
		"field number zero":     {envelope(podListKind, append(meta, 0x02, 0)), ErrSyntax},
		"wire type of a group":  {envelope(podListKind, append(meta, 0x13)), ErrSyntax},
		"endless varint":        {append([]byte(protobuf.Magic), bytes.Repeat([]byte{0xff}, 20)...), ErrSyntax},
		"metadata is too large": {envelope(podListKind, append([]byte{0x0a, 0xff, 0xff, 0x7f}, make([]byte, 0x1fffff)...)), ErrTooLarge},
		"encoded content":       {append([]byte(protobuf.Magic), 0x1a, 4, 'g', 'z', 'i', 'p'), ErrMedia},
		"other content":         {append([]byte(protobuf.Magic), 0x22, 4, 'y', 'a', 'm', 'l'), ErrMedia},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readList(podDecoder(t, MediaProtobuf, Options{MaxObjectBytes: 1000}), bytes.NewReader(c.body))
			require.ErrorIs(t, err, c.want)
			var e *Error
			require.ErrorAs(t, err, &e)
		})
	}
	unknown := append(envelope(podListKind, append(append(meta, 0x1a, 3, 1, 2, 3, 0x20, 5), item(pod("a"))...)), 0x28, 1)
	items, _, err := readList(podDecoder(t, MediaProtobuf, Options{}), bytes.NewReader(unknown))
	require.NoError(t, err, "fields of later versions are skipped")
	require.Len(t, items, 1)
}

func TestStatusInsteadOfAList(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old").ErrStatus
	for _, media := range allMedia {
		body := encodeAs(t, media, statusKind, &gone)
		_, _, err := readList(podDecoder(t, media, Options{}), bytes.NewReader(body))
		require.True(t, apierrors.IsResourceExpired(err), "%s: %v", media, err)
		require.EqualError(t, err, "too old")
		_, err = podDecoder(t, media, Options{}).Object(body)
		require.True(t, apierrors.IsResourceExpired(err), "%s: %v", media, err)
	}
}

func TestTypeMeta(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	body := []byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b"}}]}`)

	pods, _, err := readList(podDecoder(t, MediaJSON, Options{}), bytes.NewReader(body))
	require.NoError(t, err)
	mixed, _, err := readList(decoderOfType[object.Object](t, MediaJSON, Options{Scheme: scheme, Kind: podKind}), bytes.NewReader(body))
	require.NoError(t, err)
	maps, _, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: podKind}), bytes.NewReader(body))
	require.NoError(t, err)
	metas, _, err := readList(decoderOfType[*metav1.PartialObjectMetadata](t, MediaJSON, Options{Kind: podKind}), bytes.NewReader(body))
	require.NoError(t, err)
	for i := range 2 {
		require.Empty(t, pods[i].TypeMeta, "typed")
		require.IsType(t, &corev1.Pod{}, mixed[i])
		require.True(t, mixed[i].GetObjectKind().GroupVersionKind().Empty(), "mixed")
		require.Equal(t, podKind, maps[i].GroupVersionKind(), "unstructured")
		require.Equal(t, podKind, metas[i].GroupVersionKind(), "metadata")
	}
	unknown, err := decoderOfType[object.Object](t, MediaJSON, Options{Scheme: scheme, Kind: widgetKind}).Object([]byte(`{"kind":"Widget","apiVersion":"example.com/v1"}`))
	require.NoError(t, err)
	require.IsType(t, &unstructured.Unstructured{}, unknown)
}

func TestMetadataOnlyFromItsOwnKind(t *testing.T) {
	list := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
	list.Items[0].TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	for _, media := range allMedia {
		body := encodeAs(t, media, metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"), list)
		items, _, err := readList(decoderOfType[*metav1.PartialObjectMetadata](t, media, Options{Kind: podKind}), bytes.NewReader(body))
		require.NoError(t, err, media)
		require.Len(t, items, 1)
		require.Equal(t, podKind, items[0].GroupVersionKind())
	}
}

// The list of a custom resource may have any kind if its items name theirs.
func TestListKindOfACustomResource(t *testing.T) {
	d := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind})
	own := `{"kind":"Widgets","apiVersion":"example.com/v1","items":[{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"}}]}`
	_, _, err := readList(d, strings.NewReader(own))
	require.NoError(t, err)
	bare := `{"kind":"Widgets","apiVersion":"example.com/v1","items":[{"metadata":{"name":"a"}}]}`
	_, _, err = readList(d, strings.NewReader(bare))
	require.ErrorIs(t, err, ErrKind)
	none := `{"kind":"Widgets","apiVersion":"example.com/v1","items":[]}`
	_, _, err = readList(d, strings.NewReader(none))
	require.NoError(t, err)
}

// A single object of another custom resource is not an empty list: an informer would delete all
// objects.
func TestL21_AnotherCustomResourceIsNotAList(t *testing.T) {
	for _, media := range []string{MediaJSON, MediaCBOR} {
		gadget := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}
		body := encodeAs(t, media, widgetKind.GroupVersion().WithKind("Gadget"), gadget)
		_, _, err := readList(decoderOfType[*unstructured.Unstructured](t, media, Options{Kind: widgetKind}), bytes.NewReader(body))
		require.ErrorIs(t, err, ErrKind, media)
	}
}

// A single object must name its kind in full.
func TestL21_ObjectsNameTheirKind(t *testing.T) {
	for _, media := range allMedia {
		whole := encodeAs(t, media, podKind, pod("a"))
		_, err := podDecoder(t, media, Options{}).Object(whole)
		require.NoError(t, err, media)
		var bare []byte
		switch media {
		case MediaProtobuf:
			p, err := pod("a").Marshal()
			require.NoError(t, err)
			bare = protobufBody(t, object.GVK{Kind: "Pod"}, p)
		case MediaJSON:
			bare = bytes.Replace(whole, []byte(`"apiVersion"`), []byte(`"apiversion"`), 1)
		case MediaCBOR:
			bare = bytes.Replace(whole, []byte("apiVersion"), []byte("apiversion"), 1)
		}
		_, err = podDecoder(t, media, Options{}).Object(bare)
		require.ErrorIs(t, err, ErrKind, media)
		_, err = readWatch(podDecoder(t, media, Options{}), bytes.NewReader(rawFrame(t, media, "ADDED", bare)))
		require.ErrorIs(t, err, ErrKind, media)
	}
}

func TestBreakStopsReading(t *testing.T) {
	for _, media := range allMedia {
		body := encodeAs(t, media, podListKind, podList("a", "b"))
		var meta metav1.ListMeta
		n := 0
		for _, err := range podDecoder(t, media, Options{}).List(bytes.NewReader(body), &meta, nil) {
			require.NoError(t, err)
			n++
			break
		}
		require.Equal(t, 1, n)
	}
}

func TestNewDecoderRefuses(t *testing.T) {
	scheme := runtime.NewScheme()
	for name, c := range map[string]struct {
		make func() error
		want error
	}{
		"unknown media type":       {makeDecoder[*corev1.Pod]("text/html; charset=utf-8", Options{Kind: podKind}), ErrMedia},
		"no media type":            {makeDecoder[*corev1.Pod]("", Options{Kind: podKind}), ErrMedia},
		"unstructured in protobuf": {makeDecoder[*unstructured.Unstructured](MediaProtobuf, Options{Kind: podKind}), ErrMedia},
		"no kind":                  {makeDecoder[*unstructured.Unstructured](MediaJSON, Options{}), ErrKind},
		"not in the scheme":        {makeDecoder[*corev1.Pod](MediaJSON, Options{Scheme: scheme}), ErrKind},
		"kind without version":     {makeDecoder[*corev1.Pod](MediaJSON, Options{Kind: object.GVK{Kind: "Pod"}}), ErrKind},
	} {
		require.ErrorIs(t, c.make(), c.want, name)
	}
	require.NoError(t, makeDecoder[*corev1.Pod]("application/json;charset", Options{Kind: podKind})(), "a bad parameter does no harm")
}

func makeDecoder[T object.Object](media string, opts Options) func() error {
	return func() error {
		_, err := newTyped[T](media, opts)
		return err
	}
}

func ExampleNewDecoder() {
	body := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`
	dec, err := newTyped[*corev1.Pod](MediaJSON, Options{Kind: corev1.SchemeGroupVersion.WithKind("Pod")})
	if err != nil {
		fmt.Println(err)
		return
	}
	var meta metav1.ListMeta
	for pod, err := range dec.List(strings.NewReader(body), &meta, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(pod.Name)
	}
	fmt.Println("at", meta.ResourceVersion)
	// Output:
	// a
	// b
	// at 42
}
