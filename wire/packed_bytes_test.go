package wire

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

const keptAnnotation = "kept"

// unpacking is a decoder that packs objects as received and opens them. The objects and their heads
// must equal those of a plain decoder.
type unpacking[T object.Object] struct{ packing Decoder }

func newUnpacking[T object.Object](t testing.TB, media string, opts Options, pool *Pool) typedDecoder[T] {
	t.Helper()
	p := NewPacker(pool)
	p.KeepAnnotations([]string{keptAnnotation})
	packing, err := p.Decoder(media, new(typedAs[T](opts)))
	require.NoError(t, err)
	return unpacking[T]{packing}
}

func (u unpacking[T]) open(head object.Head, err error) (none T, _ error) {
	packed, err := packedOf(head, err)
	if err != nil || packed == nil {
		return none, err
	}
	o, err := packed.Open()
	if err != nil {
		return none, fmt.Errorf("open: %w", err)
	}
	heads := [2][]any{}
	for i, h := range []object.Head{o, packed} {
		heads[i] = []any{object.KeyOf(h), h.GetUID(), h.GetResourceVersion(), h.GetLabels(), h.GetOwnerReferences(), h.GetGeneration(), h.GetDeletionTimestamp()}
		value, ok := object.Annotation(h, keptAnnotation)
		heads[i] = append(heads[i], value, ok)
	}
	if !equality.Semantic.DeepEqual(heads[0], heads[1]) {
		return none, fmt.Errorf("the head of %v is %v", heads[0], heads[1])
	}
	return o.(T), nil
}

// WithFilter implements Decoder.
func (u unpacking[T]) WithFilter(wanted func(object.Head) bool) typedDecoder[T] {
	return unpacking[T]{u.packing.WithFilter(wanted)}
}

// Selected implements Decoder.
func (u unpacking[T]) Selected(told func(string)) typedDecoder[T] {
	return unpacking[T]{u.packing.OnSelector(told)}
}

func (u unpacking[T]) Object(body []byte) (T, error) { return u.open(u.packing.Object(body)) }

func (u unpacking[T]) List(body io.Reader, meta *metav1.ListMeta, known typedKnown[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for packed, err := range u.packing.List(body, meta, nil) {
			if !yield(u.open(packed, err)) {
				return
			}
		}
	}
}

func (u unpacking[T]) Watch(body io.Reader, known typedKnown[T]) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		for e, err := range u.packing.Watch(body, nil) {
			opened := Event[T]{Type: e.Type, Bytes: e.Bytes, Received: e.Received, Decoded: e.Decoded}
			if opened.Object, err = u.open(e.Object, err); !yield(opened, err) {
				return
			}
		}
	}
}

// BenchmarkPacking packs a list of 10,000 Pods. One operation is the whole list. ns/object and
// cpu-ns/object are for one Pod; the latter counts all processors, including the garbage collector.
// The variant "by way of objects" is for sources that cannot pack.
func BenchmarkPacking(b *testing.B) {
	const n = 10_000
	for _, media := range bothMedia {
		for name, o := range map[string]objects.Options{"siblings": {}, "hostile": {Hostile: true}} {
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for i := range n {
				list.Items = append(list.Items, *objects.Pod(1, i, o))
			}
			sortByKey(list.Items)
			body := encodeAs(b, media, podListKind, list)
			opts := Options{Kind: podKind, Pool: NewPool(), Keep: WithoutManagedFields}
			b.Run(media+"/"+name+"/straight", func(b *testing.B) {
				benchPacking(b, body, n, func(p *Packer, yield func(*Packed)) {
					d, err := p.Decoder(media, new(typedAs[*corev1.Pod](opts)))
					require.NoError(b, err)
					var meta metav1.ListMeta
					for packed, err := range d.List(bytes.NewReader(body), &meta, nil) {
						require.NoError(b, err)
						yield(packed.(*Packed))
					}
				})
			})
			b.Run(media+"/"+name+"/by way of objects", func(b *testing.B) {
				benchPacking(b, body, n, func(p *Packer, yield func(*Packed)) {
					var meta metav1.ListMeta
					for pod, err := range podDecoder(b, media, opts).List(bytes.NewReader(body), &meta, nil) {
						require.NoError(b, err)
						packed, err := p.Pack(pod)
						require.NoError(b, err)
						yield(packed)
					}
				})
			})
		}
	}
}

func benchPacking(b *testing.B, body []byte, n int, list func(*Packer, func(*Packed))) {
	kept := make([]*Packed, n)
	before := cpuTime(b)
	eachOf(b, n, body, func() {
		at := 0
		list(NewPacker(nil), func(packed *Packed) {
			kept[at] = packed
			at++
		})
	})
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N*n), "cpu-ns/object")
}

// Objects of every kind, as an API server writes them, are packed without decoding. Opening one
// gives exactly the result of a decoder (C01).
func TestC01_EveryKindIsPackedWithoutDecoding(t *testing.T) {
	t.Parallel()
	all := scheme.New()
	f := newFiller(all)
	for i, a := range apiTypes(all) {
		if !a.isObject() || !among(i) {
			continue
		}
		for n, how := range []fullness{full, half, sparse} {
			o := f.object(a.typ, how, int64(1000*i+n)).(object.Object)
			o.SetUID("uid")
			o.SetResourceVersion("7")
			o.SetAnnotations(map[string]string{"a": "b", keptAnnotation: `{"c":"d"}`, "z": ""})
			o.SetLabels(map[string]string{"b": "1", "a": ""})
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "A", Name: "n", UID: "u", APIVersion: "v1", Controller: new(n > 0), BlockOwnerDeletion: new(false)}})
			for _, media := range mediaOf(all, a.kind) {
				raw := encodeAs(t, media, a.kind, o)
				packedAsItComes[object.Object](t, media, raw, Options{Scheme: all, Kind: a.kind})
				packedAsItComes[object.Object](t, media, raw, Options{Scheme: all, Kind: a.kind, Keep: WithoutManagedFields})
				packedAsItComes[*metav1.PartialObjectMetadata](t, media, raw, Options{Kind: a.kind})
				packedAsItComes[*metav1.PartialObjectMetadata](t, media, raw, Options{Kind: a.kind, Keep: Only("metadata.labels")})
				if media == MediaJSON {
					packedAsItComes[*unstructured.Unstructured](t, media, raw, Options{Kind: a.kind})
					packedAsItComes[*unstructured.Unstructured](t, media, raw, Options{Kind: a.kind, Keep: Without("spec", "metadata.managedFields")})
				}
			}
		}
	}
}

func packedAsItComes[T object.Object](t *testing.T, media string, raw []byte, opts Options) {
	t.Helper()
	about := opts.Kind.String() + " in " + media
	want, err := decoderOfType[T](t, media, opts).Object(raw)
	require.NoError(t, err, about)
	p := NewPacker(nil)
	p.KeepAnnotations([]string{keptAnnotation})
	d, err := p.Decoder(media, new(typedAs[T](opts)))
	require.NoError(t, err)
	raw = bytes.Clone(raw)
	var ok bool
	var packed object.Head
	r := d.(*decoder).newObjectDecoder(nil, false)
	switch d := d.(*decoder).encoding.(type) {
	case *protobufEncoding:
		if d.table == nil {
			return
		}
		e, err := protobuf.Open(media, raw)
		require.NoError(t, err)
		packed, _, ok = r.pack(frame.Item{Raw: e.Raw}, true)
	case *jsonEncoding:
		if d.form != formUnstructured && d.typeInfo == nil {
			return
		}
		i, err := d.scan(frame.FromBytes(raw)).Value()
		require.NoError(t, err)
		packed, _, ok = r.pack(i, true)
	}
	require.True(t, ok, "%s was not packed as it came: %.2000s", about, raw)
	copy(raw, bytes.Repeat([]byte{0xff}, len(raw))) // the packed object must not need it any more
	require.Equal(t, want.GetName(), packed.GetName())
	got, err := packed.(*Packed).Open()
	require.NoError(t, err)
	requireSame(t, want, got, about)
	require.Equal(t, want.GetLabels(), packed.GetLabels())
	require.Equal(t, want.GetOwnerReferences(), packed.GetOwnerReferences())
	require.Equal(t, want.GetGeneration(), packed.GetGeneration())
	require.Equal(t, want.GetDeletionTimestamp(), packed.GetDeletionTimestamp())
	archivedAsItCame(t, packed.(*Packed), want, about)
	value, ok := object.Annotation(packed, keptAnnotation)
	wantValue, wanted := want.GetAnnotations()[keptAnnotation]
	require.Equal(t, wanted, ok)
	require.Equal(t, wantValue, value)
}

// archivedAsItCame requires that a packed object survives being archived.
func archivedAsItCame[T object.Object](t *testing.T, packed *Packed, want T, about string) {
	t.Helper()
	raw, err := new(Archive).Append(nil, packed)
	require.NoError(t, err)
	p := NewPacker(nil)
	p.KeepAnnotations([]string{keptAnnotation})
	all, err := p.Extract(raw, 1, reflect.TypeOf(want))
	require.NoError(t, err, about)
	got, err := all[0].Open()
	require.NoError(t, err)
	requireSame(t, want, got, about)
}

// knownPackedItemsAreGivenBack requires that the decoder returns the known object for the first
// item, and for no other.
func knownPackedItemsAreGivenBack(t *testing.T, media string, body []byte, have []*corev1.Pod) {
	t.Helper()
	p := NewPacker(nil)
	known := make(map[object.Key]*Packed)
	for _, o := range have {
		packed, err := p.Pack(o)
		require.NoError(t, err)
		known[object.KeyOf(o)] = packed
	}
	d, err := p.Decoder(media, new(typedAs[*corev1.Pod](Options{Kind: podKind})))
	require.NoError(t, err)
	var meta metav1.ListMeta
	n := 0
	for packed, err := range d.List(bytes.NewReader(body), &meta, func(key object.Key) (object.Head, bool) {
		packed, ok := known[key]
		return packed, ok
	}) {
		require.NoError(t, err)
		require.Equal(t, n == 0, packed == known[object.KeyOf(packed)], "%s item %d", media, n)
		n++
	}
}

// FuzzPacked decodes bytes as an object, once with a decoder and once with one that packs them as
// received, with and without some fields. Both must give the same error, or the same object after
// opening. A number selects kind, encoding and fields.
func FuzzPacked(f *testing.F) {
	all := scheme.New()
	fields := []Fields{{}, WithoutManagedFields, Only("metadata.labels", "metadata.ownerReferences.uid"), Without("metadata.labels", "metadata.annotations")}
	var pairs []func(body []byte) (whole, packed object.Object, wholeErr, packedErr error)
	for i, kind := range fuzzKinds {
		opts := fuzzOptions
		opts.Scheme, opts.Kind, opts.Keep = all, kind, fields[i%len(fields)]
		for _, media := range bothMedia {
			pairs = append(pairs, bothWays[object.Object](f, media, opts), bothWays[*metav1.PartialObjectMetadata](f, media, opts))
			f.Add(uint8(len(pairs)-2), seedObject(f, media, i, kind))
			f.Add(uint8(len(pairs)-1), seedObject(f, media, i, kind))
		}
		pairs = append(pairs, bothWays[*unstructured.Unstructured](f, MediaJSON, opts))
		f.Add(uint8(len(pairs)-1), seedObject(f, MediaJSON, i, kind))
	}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		kept.Nothing(t)
		whole, packed, wholeErr, packedErr := pairs[int(which)%len(pairs)](body)
		requireSame(t, wholeErr, packedErr, "error")
		if wholeErr == nil {
			requireAlike(t, whole, packed, "object")
		}
	})
}

// bothWays returns a function that reads an object in both ways.
func bothWays[T object.Object](f *testing.F, media string, opts Options) func(body []byte) (whole, packed object.Object, wholeErr, packedErr error) {
	f.Helper()
	decoder, opener := decoderOfType[T](f, media, opts), newUnpacking[T](f, media, opts, nil)
	return func(body []byte) (whole, packed object.Object, wholeErr, packedErr error) {
		whole, wholeErr = decoder.Object(bytes.Clone(body))
		packed, packedErr = opener.Object(bytes.Clone(body))
		return whole, packed, wholeErr, packedErr
	}
}
