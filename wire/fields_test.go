package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/selection"
)

// Random objects of every kind, decoded in every way with random fields selected, have the selected
// fields and no others.
func TestW04_EveryKindIsProjectedExactly(t *testing.T) {
	t.Parallel()
	const seed = 20261121
	all, pool := scheme.New(), NewPool()
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), serializer.NewCodecFactory(all)).NumElements(1, 3)
	random := rand.New(rand.NewSource(seed))
	kinds := listKinds(all)
	order := slices.SortedFunc(maps.Keys(kinds), func(a, b object.GVK) int { return strings.Compare(a.String(), b.String()) })
	for n, kind := range order {
		if !among(n) {
			continue
		}
		obj, err := all.New(kind)
		require.NoError(t, err)
		fill.Fill(obj)
		for range 2 {
			f := randomFields(random, reflect.TypeOf(obj))
			checkProjection(t, Options{Scheme: all, Kind: kind, Keep: f}, pool, kinds[kind], obj)
		}
	}
}

// inlining embeds unexported structs, whose fields are promoted.
type inlining struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	inlined           `json:",inline"`
	named             `json:"named"`
}

type inlined struct {
	Amount int    `json:"size"`
	Text   string `json:"text"`
}

type named struct {
	Length int `json:"length"`
}

func (i *inlining) DeepCopyObject() apiruntime.Object { d := *i; return &d }

func TestW04_EmbeddedStructsThatAreNotExportedAreProjected(t *testing.T) {
	body := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"},
		"size": int64(5), "text": "x", "named": map[string]any{"length": int64(7)}}
	for _, media := range []string{MediaJSON, MediaCBOR} {
		raw := encodeAs(t, media, widgetKind, &unstructured.Unstructured{Object: body})
		whole, err := decoderOfType[*inlining](t, media, Options{Kind: widgetKind}).Object(raw)
		require.NoError(t, err)
		require.Equal(t, 7, whole.Length, media)
		for keep, length := range map[Fields]int{Without("size"): 7, Only("text"): 0} {
			got, err := decoderOfType[*inlining](t, media, Options{Kind: widgetKind, Keep: keep}).Object(raw)
			require.NoError(t, err)
			require.Equal(t, inlined{Text: "x"}, got.inlined, "%s %s", media, keep)
			require.Equal(t, length, got.Length, "%s %s", media, keep)
		}
	}
}

// Few paths pass through the values of a map.
func TestW04_PathsPassThroughMaps(t *testing.T) {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{{
		Name: "d",
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: new("x")}, "version": {VersionValue: new("1.2.3")},
		},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			"memory": {Value: resource.MustParse("1Gi"), RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse("1Mi"))}},
		},
	}}}}
	paths := []string{"spec.devices.attributes.string", "spec.devices.capacity.requestPolicy.default"}
	for _, f := range []Fields{Only(paths...), Without(paths...)} {
		opts := Options{Scheme: scheme.New(), Kind: resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"), Keep: f}
		checkProjection(t, opts, NewPool(), reflect.TypeFor[resourcev1.ResourceSliceList](), slice)
	}
}

// checkProjection decodes a list that contains obj three times, with every decoder: a part is
// remembered the second time and found the third time.
func checkProjection(t *testing.T, opts Options, pool *Pool, list reflect.Type, obj apiruntime.Object) {
	t.Helper()
	three := reflect.New(list)
	items := three.Elem().FieldByName("Items")
	for range 3 {
		items.Set(reflect.Append(items, reflect.ValueOf(obj).Elem()))
	}
	listKind := opts.Kind.GroupVersion().WithKind(opts.Kind.Kind + "List")
	whole, reference, shared, wholeShared := opts, opts, opts, opts
	whole.Keep, whole.Reference = Fields{}, true
	reference.Reference = true
	shared.Pool = pool
	wholeShared.Keep, wholeShared.Pool = Fields{}, pool
	for _, media := range allMedia {
		if media == MediaProtobuf && !SupportsProtobuf(opts) {
			continue
		}
		nameItems(three.Interface().(apiruntime.Object))
		body := encodeAs(t, media, listKind, three.Interface().(apiruntime.Object))
		read := func(o Options) []object.Object {
			items, _, err := readList(decoderOfType[object.Object](t, media, o), bytes.NewReader(body))
			require.NoError(t, err)
			require.Len(t, items, 3)
			return items
		}
		full := read(whole)
		for name, o := range map[string]Options{"reference": reference, "compiled": opts, "shared": shared, "whole": wholeShared} {
			for i, got := range read(o) {
				oracle{o.Keep, t.Errorf, fmt.Sprintf("%s %s from %s, %s decoder", opts.Kind, o.Keep, media, name)}.
					compare("", reflect.ValueOf(full[i]).Elem(), reflect.ValueOf(got).Elem())
			}
		}
	}
}

// randomFields selects random fields of t.
func randomFields(random *rand.Rand, t reflect.Type) Fields {
	var paths []string
	for range 1 + random.Intn(4) {
		var path []string
		for at := t; len(path) == 0 || random.Intn(4) > 0; {
			fields := selection.FieldsOf(at)
			if len(fields) == 0 {
				break
			}
			names := slices.Sorted(maps.Keys(fields))
			path = append(path, names[random.Intn(len(names))])
			at = fields[path[len(path)-1]]
		}
		paths = append(paths, strings.Join(path, "."))
	}
	if random.Intn(2) == 0 {
		return Only(paths...)
	}
	return Without(paths...)
}

// oracle compares an object with the full one according to the law: every unselected field is zero,
// every other is equal. It works only on paths.
type oracle struct {
	fields Fields
	errorf func(string, ...any)
	what   string
}

// below reports whether path is one of the paths or below one of them.
func below(path string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return path == p || strings.HasPrefix(path, p+".") })
}

// above reports whether one of the paths is below path.
func above(path string, paths []string) bool {
	return path == "" && len(paths) > 0 || slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, path+".") })
}

func (o oracle) compare(path string, full, got reflect.Value) {
	named, kept := o.fields.split(), []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}
	var whole, none bool
	if o.fields.mode == fieldsOnly {
		whole = below(path, named) || below(path, kept)
		none = !above(path, named) && !above(path, kept)
	} else {
		none = below(path, named) && !below(path, kept) && !above(path, kept)
		whole = !none && (below(path, kept) || !below(path, named) && !above(path, named))
	}
	switch {
	case whole:
		if !equality.Semantic.DeepEqual(full.Interface(), got.Interface()) {
			o.errorf("%s: %s is %v, want %v", o.what, path, got, full)
		}
	case none:
		if !got.IsZero() {
			o.errorf("%s: %s is %v, want nothing", o.what, path, got)
		}
	default:
		o.descend(path, full, got)
	}
}

func (o oracle) descend(path string, full, got reflect.Value) {
	switch full.Kind() {
	case reflect.Pointer:
		if full.IsNil() != got.IsNil() {
			o.errorf("%s: the pointer %s is nil: %v, want %v", o.what, path, got.IsNil(), full.IsNil())
		} else if !full.IsNil() {
			o.descend(path, full.Elem(), got.Elem())
		}
	case reflect.Slice, reflect.Map:
		if full.Len() != got.Len() {
			o.errorf("%s: %s has %d elements, want %d", o.what, path, got.Len(), full.Len())
			return
		}
		if full.Kind() == reflect.Slice {
			for i := range full.Len() {
				o.descend(path, full.Index(i), got.Index(i))
			}
			return
		}
		for _, key := range full.MapKeys() {
			o.descend(path, full.MapIndex(key), got.MapIndex(key))
		}
	case reflect.Struct:
		for i := range full.NumField() {
			f := full.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				o.descend(path, full.Field(i), got.Field(i)) // inlined
				continue
			}
			o.compare(strings.TrimPrefix(path+"."+name, "."), full.Field(i), got.Field(i))
		}
	default:
		o.errorf("%s: %s has nothing below it", o.what, path)
	}
}

func projected[T object.Object](t *testing.T, media string, f Fields, kind object.GVK, body []byte) T {
	t.Helper()
	obj, err := decoderOfType[T](t, media, Options{Kind: kind, Keep: f}).Object(body)
	require.NoError(t, err)
	return obj
}

func TestW04_UnstructuredIsProjected(t *testing.T) {
	const body = `{"apiVersion":"example.com/v1","kind":"Widget",
		"metadata":{"name":"w","namespace":"n","uid":"u","resourceVersion":"7","generation":3,"labels":{"a":"1","b":"2"},"managedFields":[{}]},
		"spec":{"parts":[{"name":"p","size":1},{"size":2},5,null],"nested":[[{"x":1,"y":2}]],"scalar":5,"empty":{}},
		"status":{"ok":true}}`
	const head = `"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"n","uid":"u","resourceVersion":"7"`
	for _, c := range []struct {
		fields Fields
		want   string
	}{
		{Only(), `{` + head + `}}`},
		{Only("status", "metadata.labels.a"), `{` + head + `,"labels":{"a":"1"}},"status":{"ok":true}}`},
		{Only("spec.parts.name"), `{` + head + `},"spec":{"parts":[{"name":"p"},{},null,null]}}`},
		{Only("spec.nested.y", "spec.scalar.x", "spec.empty.x", "none.x"), `{` + head + `},"spec":{"nested":[[{"y":2}]],"empty":{}}}`},
		{Without("metadata", "spec"), `{` + head + `},"status":{"ok":true}}`},
		{Without("kind", "metadata.name", "metadata.uid.x", "metadata.generation", "metadata.labels", "metadata.managedFields", "spec.parts.size", "spec.nested.x", "spec.scalar.x", "status.ok"),
			`{` + head + `},"spec":{"parts":[{"name":"p"},{},5,null],"nested":[[{"y":2}]],"scalar":5,"empty":{}},"status":{}}`},
	} {
		var want unstructured.Unstructured
		require.NoError(t, json.Unmarshal([]byte(c.want), &want.Object))
		got := projected[*unstructured.Unstructured](t, MediaJSON, c.fields, widgetKind, []byte(body))
		gotJSON, err := json.Marshal(got.Object)
		require.NoError(t, err)
		wantJSON, err := json.Marshal(want.Object)
		require.NoError(t, err)
		require.Equal(t, string(wantJSON), string(gotJSON), "%s", c.fields)
	}
}

// Metadata-only objects keep their real kind.
func TestW04_MetadataIsProjected(t *testing.T) {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}}
	for _, media := range allMedia {
		body := encodeAs(t, media, metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"), meta)
		got := projected[*metav1.PartialObjectMetadata](t, media, Only("metadata.labels"), podKind, body)
		require.Equal(t, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Labels: map[string]string{"a": "b"}},
		}, got)
	}
}

// An annotation of a bookmark marks the end of a streaming list. A selection of a Pod's fields does
// not remove it.
func TestW04_BookmarksAreWhole(t *testing.T) {
	for _, media := range allMedia {
		for _, typ := range []watch.EventType{watch.Added, watch.Bookmark} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
			events, err := readWatch(podDecoder(t, media, Options{Keep: Only("spec.nodeName")}), bytes.NewReader(frameOf(t, media, string(typ), podKind, pod)))
			require.NoError(t, err)
			require.Len(t, events, 1)
			require.Equal(t, typ == watch.Bookmark, len(events[0].Object.Annotations) == 1, "%s from %s", typ, media)
			require.Equal(t, "7", events[0].Object.ResourceVersion)
			if media == MediaProtobuf {
				continue
			}
			untyped, err := readWatch(decoderOfType[*unstructured.Unstructured](t, media, Options{Kind: podKind, Keep: Only("spec.nodeName")}), bytes.NewReader(frameOf(t, media, string(typ), podKind, pod)))
			require.NoError(t, err)
			require.Equal(t, typ == watch.Bookmark, len(untyped[0].Object.GetAnnotations()) == 1, "%s in maps", typ)
		}
	}
}

// Unselected fields are not decoded, and the others are shared with objects that are decoded whole.
func TestW04_DroppedFieldsCostNothing(t *testing.T) {
	pod := objects.Pod(1, 7, objects.Options{})
	pod.Spec.Containers[0].Env = slices.Repeat(pod.Spec.Containers[0].Env, 2)
	body := encodeAs(t, MediaProtobuf, corev1.SchemeGroupVersion.WithKind("PodList"), &corev1.PodList{Items: slices.Repeat([]corev1.Pod{*pod}, 16)})
	pool := NewPool()
	var all []*corev1.Pod // only parts in use are shared
	read := func(f Fields) *corev1.Pod {
		pods, _, err := readList(podDecoder(t, MediaProtobuf, Options{Keep: f, Pool: pool}), bytes.NewReader(body))
		require.NoError(t, err)
		all = append(all, pods...)
		return pods[15]
	}
	read(Fields{})
	whole, without, names := read(Fields{}), read(WithoutManagedFields), read(Only("spec.containers.name"))
	require.NotEmpty(t, whole.ManagedFields)
	require.Empty(t, without.ManagedFields)
	require.Same(t, &whole.Spec.Containers[0], &without.Spec.Containers[0])
	require.NotSame(t, &whole.Spec.Containers[0], &names.Spec.Containers[0])
	require.Equal(t, corev1.Container{Name: pod.Spec.Containers[0].Name}, names.Spec.Containers[0])

	runtime.KeepAlive(all)

	// metadata{name: "a", managedFields: two bytes that are not a message}
	garbage := []byte{1<<3 | frame.WireBytes, 8, 1<<3 | frame.WireBytes, 1, 'a', 0x8a, 0x01, 2, 0xff, 0xff}
	unknown, err := (&apiruntime.Unknown{TypeMeta: apiruntime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: garbage}).Marshal()
	require.NoError(t, err)
	for f, fine := range map[Fields]bool{{}: false, WithoutManagedFields: true} {
		_, err := podDecoder(t, MediaProtobuf, Options{Keep: f}).Object(append([]byte(protobuf.Magic), unknown...))
		require.Equal(t, fine, err == nil, "%s: %v", f, err)
	}
}

func TestFieldsThatDoNotExistAreRefused(t *testing.T) {
	for path, want := range map[string]string{
		"spec.nodename":                 `no such field: "spec.nodename" of v1.Pod: "spec" has no "nodename", did you mean "nodeName"?`,
		"spec.container.image":          `no such field: "spec.container.image" of v1.Pod: "spec" has no "container", did you mean "containers"?`,
		"Spec":                          `no such field: "Spec" of v1.Pod: it has no "Spec", did you mean "spec"?`,
		"spec..nodeName":                `no such field: "spec..nodeName" of v1.Pod: "spec" has no "", `,
		".spec":                         `no such field: ".spec" of v1.Pod: it has no "", only apiVersion, kind, metadata, spec, status`,
		"data":                          `no such field: "data" of v1.Pod: it has no "data", only apiVersion, kind, metadata, spec, status`,
		"metadata.labels.app":           `no such field: "metadata.labels.app" of v1.Pod: "metadata.labels" has no fields`,
		"metadata.creationTimestamp.ns": `no such field: "metadata.creationTimestamp.ns" of v1.Pod: "metadata.creationTimestamp" has no fields`,
		"spec.volumes.volumeSource":     `no such field: "spec.volumes.volumeSource" of v1.Pod: "spec.volumes" has no "volumeSource", `,
	} {
		for _, f := range []Fields{Only(path), Without("metadata.annotations", path)} {
			for _, media := range allMedia {
				_, err := newTyped[*corev1.Pod](media, Options{Kind: podKind, Keep: f})
				require.ErrorIs(t, err, ErrFields)
				require.ErrorContains(t, err, want)
			}
		}
	}
	_, err := newTyped[*unstructured.Unstructured](MediaJSON, Options{Kind: widgetKind, Keep: Only("spec.", "anything")})
	require.ErrorIs(t, err, ErrFields)
	_, err = newTyped[*metav1.PartialObjectMetadata](MediaJSON, Options{Kind: podKind, Keep: Only("spec.nodeName")})
	require.ErrorIs(t, err, ErrFields)
	for _, path := range []string{"spec.volumes.hostPath.path", "spec.containers.livenessProbe.httpGet", "status.conditions.type", "metadata.managedFields.fieldsV1", "spec.containers.resources.limits"} {
		_, err := newTyped[*corev1.Pod](MediaProtobuf, Options{Kind: podKind, Keep: Only(path)})
		require.NoError(t, err)
	}
}

func TestFieldsAreValues(t *testing.T) {
	require.Equal(t, Only("spec", "metadata.labels"), Only("metadata.labels", "spec.nodeName,spec", "", "spec"))
	require.NotEqual(t, Only("spec.a"), Only("spec.a", "spec.ab"))
	require.NotEqual(t, Only("spec"), Without("spec"))
	require.True(t, Fields{}.IsZero())
	require.False(t, Without().IsZero())
	require.False(t, Only().IsZero())
	for _, c := range []struct {
		f       Fields
		text    string
		managed bool // part of it
		all     bool // all of it
		whole   bool
	}{
		{Fields{}, "all fields", true, true, true},
		{Without(), "all fields", true, true, true},
		{Only(), "only the identity", false, false, false},
		{Only("spec.nodeName", "metadata.managedFields.time"), "only metadata.managedFields.time,spec.nodeName", true, false, false},
		{Only("metadata"), "only metadata", true, true, false},
		{Only("metadata.managedFields"), "only metadata.managedFields", true, true, false},
		{Without("metadata"), "without metadata", false, false, false},
		{Without("metadata.managed"), "without metadata.managed", true, true, false},
		{Without("metadata.managedFields.time"), "without metadata.managedFields.time", true, false, false},
		{WithoutManagedFields, "without metadata.managedFields", false, false, true},
	} {
		require.Equal(t, c.text, c.f.String())
		require.Equal(t, c.managed, c.f.Keeps("metadata.managedFields"), "%s", c.f)
		require.Equal(t, c.all, c.f.KeepsAll("metadata.managedFields"), "%s", c.f)
		require.Equal(t, c.whole, c.f.Whole(), "%s", c.f)
		require.True(t, c.f.Keeps("metadata.uid"))
		require.True(t, c.f.KeepsAll("metadata.uid"), "%s", c.f)
	}
}

func BenchmarkProjectedPod(b *testing.B) {
	pod := objects.Pod(1, 7, objects.Options{})
	for _, media := range allMedia {
		body := encodeAs(b, media, podKind, pod)
		for _, f := range []Fields{{}, WithoutManagedFields, Only("metadata.labels", "spec.nodeName", "status.phase")} {
			d := podDecoder(b, media, Options{Keep: f})
			b.Run(media[len("application/"):]+"/"+f.String(), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := d.Object(body); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
