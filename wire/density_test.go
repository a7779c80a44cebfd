package wire

import (
	"bytes"
	"encoding/binary"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// everyReader returns all decoders for objects of a kind.
func everyReader(t testing.TB, media string, kind object.GVK) map[string]typedDecoder[object.Object] {
	opts := Options{Scheme: scheme.New(), Kind: kind}
	readers := map[string]typedDecoder[object.Object]{"packed": newUnpacking[object.Object](t, media, opts, NewPool())}
	for name, change := range map[string]func(*Options){
		"alone":     func(*Options) {},
		"sharing":   func(o *Options) { o.Pool = NewPool() },
		"reference": func(o *Options) { o.Reference = true },
	} {
		opts := opts
		change(&opts)
		readers[name] = decoderOfType[object.Object](t, media, opts)
	}
	return readers
}

// dense returns bodies of about size bytes whose elements take far more memory than bytes.
func dense(t *testing.T, size int) map[string]struct {
	media string
	kind  object.GVK
	body  []byte
} {
	type body = struct {
		media string
		kind  object.GVK
		body  []byte
	}
	statefulSet := object.GVK{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	name := nest(0x0a, []byte("\x0a\x01a"), nil)
	claims, containers := bytes.Repeat([]byte{0x22, 0x00}, size/2), bytes.Repeat([]byte{0x12, 0x00}, size/2)
	// An element after a field with a higher number, which the table leaves to the reference.
	oddClaims := append(bytes.Clone(claims), 0x2a, 1, 'a', 0x22, 0x00)
	oddContainers := append(bytes.Clone(containers), 0x1a, 1, 'a', 0x12, 0x00)
	objects := strings.Repeat("{},", size/3) + "{}"
	spec := func(elements string) []byte { return []byte("\xa4" + cborPod + "\x64spec" + elements) }
	return map[string]body{
		"protobuf claims":         {MediaProtobuf, statefulSet, protobufBody(t, statefulSet, nest(0x12, claims, name))},
		"protobuf odd claims":     {MediaProtobuf, statefulSet, protobufBody(t, statefulSet, nest(0x12, oddClaims, name))},
		"protobuf containers":     {MediaProtobuf, podKind, protobufBody(t, podKind, nest(0x12, containers, name))},
		"protobuf odd containers": {MediaProtobuf, podKind, protobufBody(t, podKind, nest(0x12, oddContainers, name))},
		"json containers":         {MediaJSON, podKind, []byte(podText(`"containers":[` + objects + `]`))},
		"json odd containers":     {MediaJSON, podKind, []byte(podText(`"containers":[` + objects + `],"nodeName":"a","nodeName":"a"`))},
		"json escaped":            {MediaJSON, podKind, []byte(podText(`"cont\u0061iners":[` + objects + `]`))},
		"cbor containers":         {MediaCBOR, podKind, spec("\xa1\x6acontainers\x99\xff\xff" + strings.Repeat("\xa0", 1<<16-1))},
		"cbor endless containers": {MediaCBOR, podKind, spec("\xa1\x6acontainers\x9f" + strings.Repeat("\xa0", size) + "\xff")},
		"cbor pieces of a name":   {MediaCBOR, podKind, spec("\xa1\x7f\x65conta\x65iners\xff\x9f" + strings.Repeat("\xa0", size) + "\xff")},
	}
}

const cborPod = "\x6aapiVersion\x62v1\x64kind\x63Pod\x68metadata\xa1\x64name\x61a"

// A list of empty elements that would be far larger than its bytes is refused before it is
// allocated.
func TestW02_EmptyElementsAreCountedBeforeTheyAreMade(t *testing.T) {
	for name, c := range dense(t, 1<<18) {
		for how, d := range everyReader(t, c.media, c.kind) {
			t.Run(name+", "+how, func(t *testing.T) {
				hostile.Budget{Memory: 1 << 20, MemoryPerByte: 15}.Within(t, len(c.body), func() {
					_, err := d.Object(c.body)
					require.ErrorIs(t, err, ErrTooDense)
				})
			})
		}
	}
}

// Such objects are refused in lists, watches and webhooks as well.
func TestW02_EmptyElementsAreRefusedInListsAndWatches(t *testing.T) {
	dense := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[` + strings.Repeat("{},", 1<<12) + `{}]}}`
	for name, d := range everyReader(t, MediaJSON, podKind) {
		_, _, err := readList(d, strings.NewReader(podListOf(podText("")+","+dense)))
		var bad *Error
		require.ErrorAs(t, err, &bad, name)
		require.Equal(t, "item 1", bad.Where, name)
		require.Equal(t, "b", bad.Key.Name, name)
		require.ErrorIs(t, err, ErrTooDense, name)
		_, err = readWatch(d, strings.NewReader(added(podText(""))+added(dense)))
		require.ErrorIs(t, err, ErrTooDense, name)
	}
	_, err := UnmarshalJSON[*corev1.Pod]([]byte(dense), podKind)
	require.ErrorIs(t, err, ErrTooDense)
}

// Objects without a Go type are counted as well. In JSON an empty map takes six bytes, so it always
// passes; in CBOR it takes two.
func TestW02_UntypedValuesAreCounted(t *testing.T) {
	nameless := strings.Repeat("\xa1\x60", 10) + "\xf6"
	asCBOR := []byte("\xa4" + cborPod + "\x64spec\x9f" + strings.Repeat(nameless, 1000) + "\xff")
	inJSON := podText(`"a":[` + strings.Repeat(strings.Repeat(`{"":`, 10)+"0"+strings.Repeat("}", 10)+",", 1000) + "0]")
	for _, reference := range []bool{false, true} {
		opts := Options{Kind: podKind, Reference: reference}
		_, err := decoderOfType[*unstructured.Unstructured](t, MediaCBOR, opts).Object(asCBOR)
		require.ErrorIs(t, err, ErrTooDense)
		_, err = decoderOfType[*unstructured.Unstructured](t, MediaJSON, opts).Object([]byte(inJSON))
		require.NoError(t, err)
	}
}

// A file of packed objects is untrusted: opening an object checks its density as decoding does.
func TestW02_PackedBytesAreCheckedWhenTheyAreOpened(t *testing.T) {
	with := newBodyDecoders(nil)
	pod := reflect.TypeFor[corev1.Pod]()
	for _, spec := range [][]byte{bytes.Repeat([]byte{0x12, 0x00}, 1<<16), append(bytes.Repeat([]byte{0x12, 0x00}, 1<<16), 0x1a, 1, 'a', 0x12, 0x00)} {
		_, err := newCodec(pod, object.GVK{}, formatProtobuf).read(with, nest(0x12, spec, nil))
		require.ErrorIs(t, err, ErrTooDense)
	}
	for text, want := range map[string]error{
		`"containers":[` + strings.Repeat("{},", 1<<16) + `{}]`: ErrTooDense,
		`"overhead":{"cpu":"1e-999999999"}`:                     ErrQuantity,
	} {
		_, err := newCodec(pod, object.GVK{}, formatJSON).read(with, []byte(podText(text)))
		require.ErrorIs(t, err, want)
	}
}

// Decoding an object that is barely accepted allocates a stated multiple in total: the object, once
// more if its table gives up, and five times for the lists that the reference grows.
func TestW02_AcceptedObjectsTakeAStatedMultiple(t *testing.T) {
	kind := object.GVK{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	for _, odd := range []bool{false, true} {
		// The length of each claim's name makes it as dense as allowed.
		claim := nest(0x22, nest(0x0a, []byte("\x0a\x01b"), nil), nil)
		spec := bytes.Repeat(claim, 1<<17)
		if odd {
			spec = append(append(spec, 0x2a, 1, 'a'), claim...)
		}
		body := protobufBody(t, kind, nest(0x12, spec, nest(0x0a, []byte("\x0a\x01a"), nil)))
		n := allocated(func() {
			_, err := decoderOfType[*appsv1.StatefulSet](t, MediaProtobuf, Options{Kind: kind}).Object(body)
			require.NoError(t, err)
		})
		t.Logf("odd: %v, %d bytes for each byte", odd, n/uint64(len(body)))
		require.Less(t, n, uint64(budget.Memory+budget.MemoryPerByte*len(body)))
	}
}

// If the dense field is not selected, the object is accepted.
func TestW02_FewerFieldsMakeAnObjectPass(t *testing.T) {
	body := []byte(podText(`"containers":[` + strings.Repeat("{},", 1<<14) + `{}],"nodeName":"n"`))
	got, err := podDecoder(t, MediaJSON, Options{Keep: Only("spec.nodeName")}).Object(body)
	require.NoError(t, err)
	require.Equal(t, "n", got.Spec.NodeName)
}

// Objects that servers accept are decoded, however many small elements they have.
func TestManySmallElementsAreRead(t *testing.T) {
	SkipUnderRace(t)
	const many = 1000 // the limit of the CBOR codec of apimachinery v0.35
	meta := metav1.ObjectMeta{Name: "a"}
	configMap := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{}}
	//lint:ignore SA1019 some clusters still have them
	endpoints := &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{}}}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{
		Ingress: make([]networkingv1.NetworkPolicyIngressRule, many), Egress: make([]networkingv1.NetworkPolicyEgressRule, many)}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta}
	limits := &corev1.LimitRange{ObjectMeta: meta}
	p := pod("a")
	p.Spec.Containers = []corev1.Container{{Name: "a"}}
	one := corev1.ResourceList{"cpu": resource.MustParse("1")}
	for n := range many {
		configMap.Data[fmt.Sprint(n)] = ""
		endpoints.Subsets[0].Addresses = append(endpoints.Subsets[0].Addresses, corev1.EndpointAddress{IP: "::1"})
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"::1"}})
		limits.Spec.Limits = append(limits.Spec.Limits, corev1.LimitRangeItem{Type: "Pod", Max: one, Min: one})
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "A"},
			corev1.EnvVar{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "a"}}})
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: "Exists"})
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "A"})
	}
	p.Spec.Containers[0].Env = p.Spec.Containers[0].Env[:many]
	for kind, o := range map[string]object.Object{
		"v1 ConfigMap": configMap, "v1 Endpoints": endpoints, "networking.k8s.io/v1 NetworkPolicy": policy,
		"discovery.k8s.io/v1 EndpointSlice": slice, "v1 LimitRange": limits, "v1 Pod": p,
	} {
		group, version, found := strings.Cut(strings.Fields(kind)[0], "/")
		if !found {
			group, version = "", group
		}
		of := object.GVK{Group: group, Version: version, Kind: strings.Fields(kind)[1]}
		for _, media := range allMedia {
			body := encodeAs(t, media, of, o)
			for how, d := range everyReader(t, media, of) {
				_, err := d.Object(body)
				require.NoError(t, err, "%s, %s, %s", kind, media, how)
			}
		}
	}
	// Without the codec's limit: as many as fit into etcd.
	policy.Spec.Ingress = make([]networkingv1.NetworkPolicyIngressRule, 500_000)
	for _, media := range bothMedia {
		of := networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")
		body := encodeAs(t, media, of, policy)
		for how, d := range everyReader(t, media, of) {
			_, err := d.Object(body)
			require.NoError(t, err, "%s, %s", media, how)
		}
	}
}

// The same holds for custom resources.
func TestManySmallUntypedElementsAreRead(t *testing.T) {
	SkipUnderRace(t)
	for name, element := range map[string]any{
		"numbers": int64(7), "large numbers": int64(1 << 40), "words": "a", "empty maps": map[string]any{}, "empty lists": []any{},
		"maps of one": map[string]any{"a": int64(1)}, "lists of one": []any{int64(1)}, "nothing": nil,
	} {
		var lists []any
		for range 100 {
			var list []any
			for range 1000 {
				list = append(list, element)
			}
			lists = append(lists, list)
		}
		widget := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": lists}
		asCBOR, err := direct.Marshal(widget)
		require.NoError(t, err)
		for media, body := range map[string][]byte{
			MediaJSON: encodeAs(t, MediaJSON, widgetKind, &unstructured.Unstructured{Object: widget}),
			MediaCBOR: asCBOR,
		} {
			for how, d := range everyReader(t, media, widgetKind) {
				got, err := d.Object(body)
				require.NoError(t, err, "%s, %s, %s", name, media, how)
				require.Equal(t, "a", got.GetName())
			}
		}
	}
}

// All decoders agree on which objects are too dense, including objects with shared parts and in
// unusual forms.
func TestW01_DecodersAgreeOnWhatIsTooDense(t *testing.T) {
	SkipUnderRace(t)
	random := rand.New(rand.NewPCG(20261128, 0))
	pools := map[string]*Pool{MediaJSON: NewPool(), MediaProtobuf: NewPool()}
	all, refused := scheme.New(), 0
	kinds := []object.GVK{podKind, {Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "batch", Version: "v1", Kind: "CronJob"}, {Group: "apps", Version: "v1", Kind: "Deployment"}}
	const rounds = 20
	for _, kind := range kinds {
		made, err := all.New(kind)
		require.NoError(t, err)
		goType := reflect.TypeOf(made).Elem()
		for _, media := range []string{MediaJSON, MediaProtobuf} { // in a fixed order, so that each run draws the same
			c := newContest[object.Object](t, media, Options{Scheme: all, Kind: kind}, pools[media])
			for range rounds {
				obj := reflect.New(goType)
				repetitive(random, obj.Elem(), 4)
				o := obj.Interface().(object.Object)
				o.SetName("a")
				body := encodeAs(t, media, kind, o)
				if media == MediaJSON {
					body = withoutEmptyFields(t, body)
				} else if table, err := protobuf.TableOf(goType, nil); err == nil {
					e, err := protobuf.Open(media, body)
					require.NoError(t, err)
					body = protobufBody(t, kind, withoutEmptyMessages(t, table, e.Raw))
				}
				if _, err := c.reference.Object(body); errors.Is(err, ErrTooDense) {
					refused++
				}
				c.objects(t, body, "%v", kind)
				c.lists(t, thrice(t, media, kind, body), "%v", kind)
			}
		}
	}
	require.Greater(t, refused, len(kinds)*len(pools)*rounds/32, "too few are dense")
	require.Less(t, refused, len(kinds)*len(pools)*rounds*9/10, "too few are not")
}

// often names the fields that lead to large structs.
var often = map[string]bool{"Spec": true, "Template": true, "JobTemplate": true, "Containers": true, "EphemeralContainers": true, "VolumeClaimTemplates": true}

// repetitive fills a value with lists of few different elements, most of them empty.
func repetitive(random *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[stdjson.Marshaler]()) || v.Type() == reflect.TypeFor[metav1.TypeMeta]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && (random.IntN(8) == 0 || often[f.Name] && random.IntN(8) > 0) {
				repetitive(random, v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			repetitive(random, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if n := random.IntN(300); depth > 0 && v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			if n > 0 && random.IntN(2) == 0 {
				repetitive(random, v.Index(0), depth-1)
			}
			if n > 1 {
				v.Index(n - 1).Set(v.Index(0))
			}
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String && v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			for i := range random.IntN(12) {
				v.SetMapIndex(reflect.ValueOf(fmt.Sprint(i)).Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
			}
		}
	}
}

// withoutEmptyFields removes the empty fields that Go writes from a JSON object.
func withoutEmptyFields(t *testing.T, body []byte) []byte {
	t.Helper()
	var content any
	require.NoError(t, stdjson.Unmarshal(body, &content))
	var thin func(v any)
	thin = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				thin(element)
			}
		case map[string]any:
			for name, value := range v {
				thin(value)
				if m, ok := value.(map[string]any); value == nil || value == "" || value == 0.0 || ok && len(m) == 0 {
					delete(v, name)
				}
			}
		}
	}
	thin(content)
	raw, err := stdjson.Marshal(content)
	require.NoError(t, err)
	return raw
}

// thrice returns a list of three equal objects: a pool sees their parts, remembers them and finds
// them.
func thrice(t *testing.T, media string, kind object.GVK, body []byte) []byte {
	t.Helper()
	kind.Kind += "List"
	if media == MediaJSON {
		return listOfOne(t, media, kind, fmt.Appendf(nil, "%s,%s,%s", body, body, body))
	}
	e, err := protobuf.Open(media, body)
	require.NoError(t, err)
	return messagesList(t, kind, e.Raw, e.Raw, e.Raw)
}

// withoutEmptyMessages removes empty fields of a message, except elements of lists.
func withoutEmptyMessages(t *testing.T, table *protobuf.Table, msg []byte) (thin []byte) {
	t.Helper()
	before := 0
	for len(msg) > 0 {
		f, rest, err := protobuf.NextField(msg)
		require.NoError(t, err)
		whole := msg[:len(msg)-len(rest)]
		msg = rest
		again := f.Number == before || len(rest) > 0 && rest[0] == whole[0]
		before = f.Number
		below := table.Message(f.Number)
		if f.Wire == frame.WireBytes && below != nil {
			f.Bytes = withoutEmptyMessages(t, below, f.Bytes)
			tag := binary.AppendUvarint(nil, uint64(f.Number<<3|f.Wire))
			whole = append(binary.AppendUvarint(tag, uint64(len(f.Bytes))), f.Bytes...)
		}
		if f.Wire != frame.WireBytes || len(f.Bytes) > 0 || again {
			thin = append(thin, whole...)
		}
	}
	return thin
}

// One-letter names are the densest that a server accepts, and nesting them changes little.
func TestNestedMapsOfOneLetterAreReadFromCBOR(t *testing.T) {
	SkipUnderRace(t)
	for depth := range 8 {
		_, err := decoderOfType[*unstructured.Unstructured](t, MediaCBOR, Options{Kind: widgetKind}).Object(mapsIn(t, depth))
		require.NoError(t, err, "maps %d deep", depth)
	}
}

// mapsIn returns a custom resource with one-letter maps nested to the given depth.
func mapsIn(t *testing.T, depth int) []byte {
	var lists []any
	for range 20 {
		var list []any
		for range 1000 {
			var v any = map[string]any{}
			for range depth {
				v = map[string]any{"a": v}
			}
			list = append(list, v)
		}
		lists = append(lists, list)
	}
	body, err := direct.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": lists})
	require.NoError(t, err)
	return body
}

// A Status instead of an object or a list, and the metadata of a list, are not counted. That is
// safe, because their largest element takes 48 bytes.
func TestW02_AStatusTakesNoMoreThanAnObject(t *testing.T) {
	const many = 1 << 18
	cbor := func(s string) string { return string(byte(0x60+len(s))) + s }
	for media, body := range map[string][]byte{
		MediaJSON:     []byte(`{"apiVersion":"v1","kind":"Status","details":{"causes":[` + strings.Repeat("{},", many) + `{}]}}`),
		MediaProtobuf: protobufBody(t, statusKind, nest(0x2a, bytes.Repeat([]byte{0x22, 0x00}, many), nil)),
		MediaCBOR: []byte("\xa3" + cbor("apiVersion") + cbor("v1") + cbor("kind") + cbor("Status") + cbor("details") + "\xa1" + cbor("causes") +
			"\x9f" + strings.Repeat("\xa0", many) + "\xff"),
	} {
		d := podDecoder(t, media, Options{})
		within := hostile.Budget{Memory: 1 << 20, MemoryPerByte: 6 * MaxMemoryPerByte}
		within.Within(t, len(body), func() { _, _ = d.Object(body) })
		within.Within(t, len(body), func() { _, _, _ = readList(d, bytes.NewReader(body)) })
		within.Within(t, len(body), func() { _, _ = readWatch(d, bytes.NewReader(rawFrame(t, media, "ERROR", body))) })
	}
}

// The selector of a CBOR list is read from untyped metadata, whose memory is counted.
func TestW02_MetadataOfAListIsCounted(t *testing.T) {
	const depth, chains = 50, 1000
	cbor := func(s string) string { return string(byte(0x60+len(s))) + s }
	body := "\xa4" + cbor("apiVersion") + cbor("v1") + cbor("kind") + cbor("PodList") + cbor("items") + "\x80" + cbor("metadata") + "\xa1" + cbor("shardInfo") +
		"\xa1" + cbor("x") + "\x9f" + strings.Repeat(strings.Repeat("\xa1\x60", depth)+"\xf6", chains) + "\xff"
	d := podDecoder(t, MediaCBOR, Options{}).Selected(func(string) { t.Error("there is no selector") })
	hostile.Budget{Memory: 1 << 20, MemoryPerByte: 15}.Within(t, len(body), func() {
		_, _, err := readList(d, strings.NewReader(body))
		require.NoError(t, err)
	})
}
