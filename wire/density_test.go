package wire

import (
	"bytes"
	"fmt"
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
)

// everyReader returns the ways to read objects of a kind.
func everyReader(t testing.TB, media string, kind object.GVK) map[string]Decoder[object.Object] {
	opts := Options{Scheme: scheme.New(), Kind: kind}
	readers := map[string]Decoder[object.Object]{"packed": newUnpacking[object.Object](t, media, opts, NewPool())}
	for name, change := range map[string]func(*Options){
		"alone":     func(*Options) {},
		"sharing":   func(o *Options) { o.Pool = NewPool() },
		"reference": func(o *Options) { o.Reference = true },
	} {
		opts := opts
		change(&opts)
		readers[name] = decoder[object.Object](t, media, opts)
	}
	return readers
}

// dense are bodies of about size bytes whose elements take far more memory than they have bytes.
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
	// Another element behind a field that comes later, which the table leaves to the reference.
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

// A list of empty elements is refused before it is made, if it would be far larger than its bytes.
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

// It is so wherever an object comes.
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

// An object without a Go type is counted as well.
func TestW02_UntypedValuesAreCounted(t *testing.T) {
	deep := strings.Repeat(`{"":`, 900) + "{}" + strings.Repeat("}", 900)
	for name, raw := range map[string][]byte{
		MediaJSON: []byte(widgetText("a", "["+strings.Repeat(deep+",", 200)+`{}],"x":[`+strings.Repeat("0,", 1<<16)+"0]")),
		MediaCBOR: []byte("\xa4" + strings.ReplaceAll(cborPod, "\x61a", "\x61b") + "\x64spec\x9f" + strings.Repeat("\xa1\x60\xa1\x60\xa1\x60\xa1\x60\xf6", 1<<14) + "\xff"),
	} {
		kind := widgetKind
		if name == MediaCBOR {
			kind = podKind
		}
		for _, opts := range []Options{{Kind: kind}, {Kind: kind, Reference: true}} {
			_, err := decoder[*unstructured.Unstructured](t, name, opts).Object(raw)
			if name == MediaJSON { // six bytes for a map: as dense as JSON can be
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrTooDense)
			}
		}
	}
}

// An object that just passes takes a stated multiple in all: what it becomes, once more if its
// table gives up, and five times for the lists that the reference grows.
func TestW02_WhatPassesTakesAStatedMultiple(t *testing.T) {
	kind := object.GVK{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	for _, odd := range []bool{false, true} {
		// Each claim has a name that makes it as dense as it may be.
		claim := nest(0x22, nest(0x0a, []byte("\x0a\x01b"), nil), nil)
		spec := bytes.Repeat(claim, 1<<17)
		if odd {
			spec = append(append(spec, 0x2a, 1, 'a'), claim...)
		}
		body := protobufBody(t, kind, nest(0x12, spec, nest(0x0a, []byte("\x0a\x01a"), nil)))
		n := allocated(func() {
			_, err := decoder[*appsv1.StatefulSet](t, MediaProtobuf, Options{Kind: kind}).Object(body)
			require.NoError(t, err)
		})
		t.Logf("odd: %v, %d bytes for each byte", odd, n/uint64(len(body)))
		require.Less(t, n, uint64(budget.Memory+budget.MemoryPerByte*len(body)))
	}
}

// Without the field that is dense, such an object is read.
func TestW02_FewerFieldsMakeAnObjectPass(t *testing.T) {
	body := []byte(podText(`"containers":[` + strings.Repeat("{},", 1<<14) + `{}],"nodeName":"n"`))
	got, err := podDecoder(t, MediaJSON, Options{Keep: Only("spec.nodeName")}).Object(body)
	require.NoError(t, err)
	require.Equal(t, "n", got.Spec.NodeName)
}

// What servers accept is read, however many small elements it has.
func TestManySmallElementsAreRead(t *testing.T) {
	const many = 1000 // as many as the CBOR codec of apimachinery v0.35 reads
	meta := metav1.ObjectMeta{Name: "a"}
	configMap := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{}}
	endpoints := &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{}}} //nolint:staticcheck // some still have them
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
	// Without the codec's limit: as much as etcd takes.
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

// So are custom resources.
func TestManySmallUntypedElementsAreRead(t *testing.T) {
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
