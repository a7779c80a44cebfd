package wire

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

func versioned(name, uid, rv string) *corev1.Pod {
	p := pod(name)
	p.UID, p.ResourceVersion = types.UID(uid), rv
	return p
}

// having returns a function that knows these objects.
func having(objects ...*corev1.Pod) typedKnown[*corev1.Pod] {
	return func(key object.Key) (*corev1.Pod, bool) {
		for _, o := range objects {
			if object.KeyOf(o) == key {
				return o, true
			}
		}
		return nil, false
	}
}

// An object known in the same version is returned, and no other.
func TestKnownItemsAreReturned(t *testing.T) {
	have := []*corev1.Pod{versioned("same", "1", "7"), versioned("newer", "2", "6"), versioned("another", "3", "7"), versioned("unversioned", "4", "")}
	sent := &corev1.PodList{Items: []corev1.Pod{
		*versioned("same", "1", "7"), *versioned("newer", "2", "7"), *versioned("another", "4", "7"), *versioned("new", "5", "7"), *versioned("unversioned", "4", "")}}
	for _, media := range allMedia {
		body := encodeAs(t, media, podListKind, sent)
		var meta metav1.ListMeta
		var items []*corev1.Pod
		for item, err := range podDecoder(t, media, Options{}).List(bytes.NewReader(body), &meta, having(have...)) {
			require.NoError(t, err)
			items = append(items, item)
		}
		require.Len(t, items, len(sent.Items))
		require.Same(t, have[0], items[0], media)
		knownPackedItemsAreGivenBack(t, media, body, have)
		for i := 1; i < len(items); i++ {
			require.Equal(t, &sent.Items[i], items[i], media)
			require.False(t, slices.Contains(have, items[i]), "%s item %d", media, i)
		}
	}
}

// The initial events of a streaming list are ADDED events.
func TestKnownObjectsOfAddedEventsAreReturned(t *testing.T) {
	have := versioned("a", "1", "7")
	for _, media := range allMedia {
		var body []byte
		types := []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}
		for _, typ := range types {
			body = append(body, frameOf(t, media, typ, podKind, versioned("a", "1", "7"))...)
		}
		body = append(body, frameOf(t, media, "ADDED", podKind, versioned("a", "1", "8"))...)
		var got []*corev1.Pod
		for ev, err := range podDecoder(t, media, Options{}).Watch(bytes.NewReader(body), having(have)) {
			require.NoError(t, err)
			require.False(t, ev.Decoded.IsZero())
			got = append(got, ev.Object)
		}
		require.Len(t, got, 5)
		for i, o := range got {
			require.Equal(t, i == 0, o == have, "%s event %d", media, i)
		}
	}
}

// The content of a known object is not read.
func TestKnownItemsAreNotDecoded(t *testing.T) {
	have := versioned("a", "1", "7")
	meta, err := have.ObjectMeta.Marshal()
	require.NoError(t, err)
	item := append(lengthPrefixed(1, meta), lengthPrefixed(2, []byte("no pod's spec"))...)
	body := listAround(t, item)
	_, _, err = readList(podDecoder(t, MediaProtobuf, Options{}), bytes.NewReader(body))
	require.ErrorIs(t, err, ErrSyntax)
	for got, err := range podDecoder(t, MediaProtobuf, Options{}).List(bytes.NewReader(body), new(metav1.ListMeta), having(have)) {
		require.NoError(t, err)
		require.Same(t, have, got)
	}
}

// lengthPrefixed returns a length-delimited field.
func lengthPrefixed(number byte, content []byte) []byte {
	if len(content) > 127 {
		panic("too long for this test")
	}
	return append([]byte{number<<3 | frame.WireBytes, byte(len(content))}, content...)
}

// listAround returns the body of a list of Pods with one item.
func listAround(t *testing.T, item []byte) []byte {
	t.Helper()
	body := encodeAs(t, MediaProtobuf, podListKind, &corev1.PodList{})
	empty := string(lengthPrefixed(2, lengthPrefixed(1, []byte("\x0a\x00\x12\x00\x1a\x00"))))
	before, after, found := strings.Cut(string(body), empty)
	require.True(t, found)
	list := append(lengthPrefixed(1, nil), lengthPrefixed(2, item)...)
	return []byte(before + string(lengthPrefixed(2, list)) + after)
}

// Unusual input is left to the decoder: if a name appears twice, the last one counts there.
func TestHeadIsReadOnlyIfUnambiguous(t *testing.T) {
	name, uid := lengthPrefixed(1, []byte("a")), lengthPrefixed(5, []byte("u"))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for what, c := range map[string]struct {
		raw []byte
		ok  bool
	}{
		"plain":                 {lengthPrefixed(1, join(name, uid)), true},
		"other order":           {join(lengthPrefixed(3, nil), lengthPrefixed(1, join(uid, name))), true},
		"unknown fields":        {join(lengthPrefixed(1, join(name, lengthPrefixed(12, nil), []byte{7<<3 | frame.WireVarint, 5})), []byte{9<<3 | frame.WireVarint, 1}), true},
		"two names":             {lengthPrefixed(1, join(name, uid, lengthPrefixed(1, []byte("b")))), false},
		"two empty UIDs":        {lengthPrefixed(1, join(name, lengthPrefixed(5, nil), lengthPrefixed(5, nil))), false},
		"metadata twice":        {join(lengthPrefixed(1, join(name, uid)), lengthPrefixed(1, nil)), false},
		"metadata is a number":  {[]byte{1<<3 | frame.WireVarint, 1}, false},
		"name is a number":      {lengthPrefixed(1, []byte{1<<3 | frame.WireVarint, 1}), false},
		"metadata is cut":       {[]byte{1<<3 | frame.WireBytes, 9, 1}, false},
		"a field behind is cut": {join(lengthPrefixed(1, name), []byte{2<<3 | frame.WireBytes, 9, 1}), false},
		"name by an alias":      {lengthPrefixed(1, join(name, binary.AppendUvarint(nil, (1<<32+1)<<3|frame.WireBytes), []byte{1, 'b'})), false},
		"no metadata":           {lengthPrefixed(2, nil), true},
	} {
		h, ok := protobuf.IdentityOf(c.raw)
		require.Equal(t, c.ok, ok, what)
		if ok && what != "no metadata" {
			require.Equal(t, "a", h.Name, what)
		}
	}
}

// For any bytes, a head that is read equals the reference's result (W01), if the reference accepts
// the bytes.
func FuzzProtoHead(f *testing.F) {
	for i := range 3 {
		raw, err := objects.Pod(1, i, objects.Options{}).Marshal()
		require.NoError(f, err)
		f.Add(raw)
	}
	alias := append(binary.AppendUvarint([]byte("\x0a\x01a"), (1<<32+1)<<3|frame.WireBytes), 1, 'b')
	f.Add(append([]byte{0x0a, byte(len(alias))}, alias...))
	f.Add([]byte("\x0a\x04\x0a\x00\x0a\x00"))
	f.Add([]byte("\x0a\x05\x0a\x01a\x1a\x00\x0a\x03\x0a\x01b"))
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, raw []byte) {
		withinBudget(t, raw, func() { protobuf.IdentityOf(raw) })
		kept.Nothing(t)
		h, ok := protobuf.IdentityOf(raw)
		var want metav1.PartialObjectMetadata
		if err := want.Unmarshal(raw); !ok || err != nil {
			return
		}
		require.Equal(t, want.Namespace, h.Namespace)
		require.Equal(t, want.Name, h.Name)
		require.Equal(t, string(want.UID), h.UID)
		require.Equal(t, want.ResourceVersion, h.RV)
	})
}

// BenchmarkKnown reads a list of 1,000 known Pods. One operation is the whole list, and ns/object
// the time for one Pod.
func BenchmarkKnown(b *testing.B) {
	const n = 1000
	body := benchList(b, MediaProtobuf, n)
	d := podDecoder(b, MediaProtobuf, Options{})
	have := make(map[object.Key]*corev1.Pod, n)
	for p, err := range d.List(bytes.NewReader(body), new(metav1.ListMeta), nil) {
		require.NoError(b, err)
		have[object.KeyOf(p)] = p
	}
	known := func(key object.Key) (*corev1.Pod, bool) { p, ok := have[key]; return p, ok }
	eachOf(b, n, body, func() {
		for _, err := range d.List(bytes.NewReader(body), new(metav1.ListMeta), known) {
			require.NoError(b, err)
		}
	})
}

func BenchmarkProtoHead(b *testing.B) {
	raw, err := objects.Pod(1, 7, objects.Options{}).Marshal()
	require.NoError(b, err)
	for b.Loop() {
		if _, ok := protobuf.IdentityOf(raw); !ok {
			b.Fatal("no head")
		}
	}
}
