package wire

import (
	"bytes"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// listKinds returns the kinds of the scheme that have a list, with the Go type
// of the list.
func listKinds(scheme *runtime.Scheme) map[object.GVK]reflect.Type {
	kinds := map[object.GVK]reflect.Type{}
	for gvk, t := range scheme.AllKnownTypes() {
		item, isList := strings.CutSuffix(gvk.Kind, "List")
		if _, ok := t.FieldByName("Items"); !isList || item == "" || !ok || !strings.HasPrefix(t.PkgPath(), "k8s.io/api/") {
			continue
		}
		kinds[gvk.GroupVersion().WithKind(item)] = t
	}
	return kinds
}

// The streaming list decoder relies on the numbers of these two fields.
func TestEveryListIsMetadataAndItems(t *testing.T) {
	kinds := listKinds(scheme.New())
	require.Greater(t, len(kinds), 100)
	for kind, list := range kinds {
		for i := range list.NumField() {
			f := list.Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("protobuf"), ",opt")
			switch f.Name {
			case "TypeMeta":
			case "ListMeta":
				require.True(t, strings.HasPrefix(tag, "bytes,1"), "%s: ListMeta is %q", kind, tag)
			case "Items":
				require.True(t, strings.HasPrefix(tag, "bytes,2,rep"), "%s: Items is %q", kind, tag)
			default:
				t.Errorf("%s: its list has a field %s", kind, f.Name)
			}
		}
	}
}

// A type that contains itself is only read from JSON, which has a depth limit.
func TestBuiltinKindsAreReadFromProtobuf(t *testing.T) {
	all := scheme.New()
	var others []string
	for kind := range listKinds(all) {
		if !SupportsProtobuf(Options{Scheme: all, Kind: kind}) {
			others = append(others, kind.String())
		}
	}
	// Since v0.37 of k8s.io/api.
	require.Subset(t, []string{"scheduling.k8s.io/v1alpha3, Kind=Workload", "scheduling.k8s.io/v1beta1, Kind=Workload"}, others)
}

// encodeAs writes an object with its kind, as the API server does.
func encodeAs(t testing.TB, media string, kind object.GVK, obj runtime.Object) []byte {
	t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(kind)
	defer obj.GetObjectKind().SetGroupVersionKind(object.GVK{})
	var s runtime.Serializer = jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, nil, nil, jsonserializer.SerializerOptions{})
	switch media {
	case MediaProtobuf:
		s = protobuf.NewSerializer(nil, nil)
	case MediaCBOR:
		s = cbor.NewSerializer(nil, nil)
	}
	var buf bytes.Buffer
	require.NoError(t, s.Encode(obj, &buf))
	return buf.Bytes()
}

// Every list of every built-in kind, filled with random values, is decoded as by apimachinery's
// serializers.
func TestListsEqualApimachinery(t *testing.T) {
	const seed = 20261120
	all := scheme.New()
	codecs := serializer.NewCodecFactory(all)
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), codecs).NumElements(1, 3)
	kinds := listKinds(all)
	order := make([]object.GVK, 0, len(kinds))
	for kind := range kinds {
		order = append(order, kind)
	}
	slices.SortFunc(order, func(a, b object.GVK) int { return strings.Compare(a.String(), b.String()) })
	for _, kind := range order {
		list := reflect.New(kinds[kind]).Interface().(runtime.Object)
		fill.Fill(list)
		nameItems(list)
		listKind := kind.GroupVersion().WithKind(kind.Kind + "List")
		for _, media := range []string{MediaJSON, MediaProtobuf} {
			if media == MediaProtobuf && !SupportsProtobuf(Options{Scheme: all, Kind: kind}) {
				continue
			}
			body := encodeAs(t, media, listKind, list)
			info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media)
			require.True(t, ok)
			want, _, err := info.Serializer.Decode(body, nil, nil)
			require.NoError(t, err, "%s, seed %d", kind, seed)

			got := reflect.New(kinds[kind])
			items := got.Elem().FieldByName("Items")
			var meta metav1.ListMeta
			for obj, err := range decoderOfType[object.Object](t, media, Options{Scheme: all, Kind: kind}).List(bytes.NewReader(body), &meta, nil) {
				require.NoError(t, err, "%s in %s, seed %d", kind, media, seed)
				items.Set(reflect.Append(items, reflect.ValueOf(obj).Elem()))
			}
			got.Elem().FieldByName("ListMeta").Set(reflect.ValueOf(meta))
			want.GetObjectKind().SetGroupVersionKind(object.GVK{})
			if !equality.Semantic.DeepEqual(want, got.Interface()) {
				t.Errorf("%s in %s, seed %d:\n got %+v\nwant %+v", kind, media, seed, got.Interface(), want)
			}
		}
	}
}

// nameItems gives every item a name and removes its kind, as in a list from a server.
func nameItems(list runtime.Object) {
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	for i := range items.Len() {
		obj := items.Index(i).Addr().Interface().(object.Object)
		obj.SetName("item")
		obj.GetObjectKind().SetGroupVersionKind(object.GVK{})
	}
	list.GetObjectKind().SetGroupVersionKind(object.GVK{})
}

func decoderOfType[T object.Object](t testing.TB, media string, opts Options) typedDecoder[T] {
	t.Helper()
	d, err := newTyped[T](media, opts)
	require.NoError(t, err)
	return d
}

// An unstructured object decodes as with its own UnmarshalJSON.
func TestUnstructuredEqualsApimachinery(t *testing.T) {
	body := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","generation":3},
		"spec":{"int":9007199254740993,"float":1.5,"Case":1,"case":2,"null":null,"list":[1,"a",{"b":[]}]},"items":[1]}`)
	var want unstructured.Unstructured
	require.NoError(t, want.UnmarshalJSON(body))
	got, err := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind}).Object(body)
	require.NoError(t, err)
	require.Equal(t, want.Object, got.Object)
}

var widgetKind = object.GVK{Group: "example.com", Version: "v1", Kind: "Widget"}

// A Go type that the scheme has for other kinds would misread the bytes.
func TestATypeOfAnotherKindIsRefused(t *testing.T) {
	type own struct{ corev1.Pod }
	configMap, pod := corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Pod")
	for _, media := range []string{MediaJSON, MediaProtobuf, MediaCBOR} {
		_, err := NewDecoder(media, Options{Type: reflect.TypeFor[*corev1.Pod](), Kind: configMap, Scheme: scheme.New()})
		require.ErrorIs(t, err, ErrKind)
		require.ErrorContains(t, err, "the scheme has *v1.Pod as v1 Pod, want v1 ConfigMap")
	}
	for name, opts := range map[string]Options{
		"the type of the kind":         {Type: reflect.TypeFor[*corev1.Pod](), Kind: pod},
		"that of another version":      {Type: reflect.TypeFor[*corev1.Pod](), Kind: object.GVK{Group: "example.com", Version: "v2", Kind: "Pod"}},
		"one that the scheme does not": {Type: reflect.TypeFor[*own](), Kind: pod},
		"one for all kinds":            {Type: reflect.TypeFor[*metav1.PartialObjectMetadata](), Kind: configMap},
	} {
		opts.Scheme = scheme.New()
		_, err := NewDecoder(MediaJSON, opts)
		require.NoError(t, err, name)
	}
}
