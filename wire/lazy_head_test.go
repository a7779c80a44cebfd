package wire

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// heads records everything that it is asked for, and accepts every second object of an owner.
type heads struct {
	mu    sync.Mutex
	asked []string
}

func (h *heads) wants(o object.Head) bool {
	owner := types.UID("")
	if owners := o.GetOwnerReferences(); len(owners) > 0 {
		owner = owners[0].UID
	}
	annotations := maps.Clone(o.GetAnnotations())
	all := fmt.Sprint(object.VersionOf(o), o.GetGeneration(), o.GetDeletionTimestamp(), o.GetLabels(), annotations, owner, len(o.GetOwnerReferences()))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, all)
	return len(owner+o.GetUID())%2 == 0
}

// seen returns the questions, sorted because several goroutines may have asked.
func (h *heads) seen() []string { return slices.Sorted(slices.Values(h.asked)) }

// chosenPods returns various Pods.
func chosenPods(n int) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}}
	for i := range n {
		p := objects.Pod(1, i, objects.Options{Hostile: i%9 == 0})
		p.UID += types.UID("ab"[:1+i%2])
		switch i % 5 {
		case 1:
			p.Labels, p.OwnerReferences = nil, nil
		case 2:
			p.DeletionTimestamp = &metav1.Time{Time: p.CreationTimestamp.Time}
		case 3:
			p.Annotations = map[string]string{"escaped": "a \"quote\" \n <b>", "": "empty"}
		case 4:
			p.UID = "" // known only after decoding
		}
		list.Items = append(list.Items, *p)
	}
	return list
}

// Filtering before decoding gives the same result as filtering afterwards, with equal heads, in
// every encoding, whole and packed, and with any selection of fields.
func TestFilterEqualsFilteringAfterDecoding(t *testing.T) {
	list := chosenPods(60)
	for _, media := range allMedia {
		body := encodeAs(t, media, podListKind, list)
		var stream []byte
		for i := range list.Items {
			stream = append(stream, frameOf(t, media, []string{"ADDED", "MODIFIED", "DELETED"}[i%3], podKind, &list.Items[i])...)
			stream = append(stream, frameOf(t, media, "BOOKMARK", podKind, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(i)}})...)
		}
		for _, keep := range []Fields{{}, Only("spec.nodeName")} {
			opts := Options{Kind: podKind, Keep: keep}
			d := decoderOfType[*corev1.Pod](t, media, opts)
			choosesAsAfterwards(t, media, body, stream, plainOf(d), podDecoder(t, media, Options{}))
			packed, err := NewPacker(nil).Decoder(media, new(typedAs[*corev1.Pod](opts)))
			require.NoError(t, err)
			choosesAsAfterwards(t, media, body, stream, packed, podDecoder(t, media, Options{}))
		}
	}
}

func choosesAsAfterwards(t *testing.T, media string, body, stream []byte, d Decoder, whole typedDecoder[*corev1.Pod]) {
	t.Helper()
	var before, after heads
	var want, got []object.Version
	for o, err := range whole.List(bytes.NewReader(body), new(metav1.ListMeta), nil) {
		require.NoError(t, err)
		if after.wants(o) {
			want = append(want, object.VersionOf(o))
		}
	}
	for o, err := range d.WithFilter(before.wants).List(bytes.NewReader(body), new(metav1.ListMeta), nil) {
		require.NoError(t, err)
		got = append(got, object.VersionOf(o))
	}
	require.Equal(t, want, got, media)
	require.Equal(t, after.seen(), before.seen(), media)
	require.NotEmpty(t, got)
	require.Less(t, len(got), len(before.asked))

	var told, heard []string
	before, after = heads{}, heads{}
	for e, err := range whole.Watch(bytes.NewReader(stream), nil) {
		require.NoError(t, err)
		told = append(told, fmt.Sprint(e.Type, object.VersionOf(e.Object), e.Type != "BOOKMARK" && !after.wants(e.Object)))
	}
	for e, err := range d.WithFilter(before.wants).Watch(bytes.NewReader(stream), nil) {
		require.NoError(t, err)
		require.NotZero(t, e.Bytes)
		require.False(t, e.Decoded.IsZero())
		if e.Passed != nil {
			heard = append(heard, fmt.Sprint(e.Type, *e.Passed, true))
			continue
		}
		heard = append(heard, fmt.Sprint(e.Type, object.VersionOf(e.Object), false))
	}
	require.Equal(t, told, heard, media)
	require.Equal(t, after.seen(), before.seen(), media)
}

// Only the head of an unwanted object is read, and the filter also sees known objects. An object
// that cannot be decoded is an error even if it is unwanted.
func TestUnwantedObjectsAreNotDecoded(t *testing.T) {
	have := versioned("a", "1", "7")
	meta, err := have.ObjectMeta.Marshal()
	require.NoError(t, err)
	garbled := append(lengthPrefixed(1, meta), lengthPrefixed(2, []byte("no pod's spec"))...)
	none := func(object.Head) bool { return false }
	for o, err := range podDecoder(t, MediaProtobuf, Options{}).WithFilter(none).List(bytes.NewReader(listAround(t, garbled)), new(metav1.ListMeta), having(have)) {
		t.Errorf("%v, %v", o, err)
	}
	for media, body := range map[string][]byte{
		MediaJSON:     []byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","labels":7}}]}`),
		MediaProtobuf: listAround(t, lengthPrefixed(1, []byte("no metadata"))),
	} {
		_, _, err := readList(podDecoder(t, media, Options{}).WithFilter(none), bytes.NewReader(body))
		var malformed *Error
		require.ErrorAs(t, err, &malformed, media)
	}
	_, err = readWatch(podDecoder(t, MediaJSON, Options{}).WithFilter(none), bytes.NewReader(
		[]byte(`{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"1","resourceVersion":"1"}}}`)))
	require.ErrorIs(t, err, ErrKind)
	var malformed *Error
	require.ErrorAs(t, err, &malformed, "a reflector counts it as unreadable")
	require.Equal(t, "frame 0", malformed.Where)
	require.Equal(t, "a", malformed.Key.Name)
}

// If the head of an unwanted object is unusual, so that the object is decoded for the filter, and a field that is not
// kept cannot be decoded, the object is rejected rather than yielded.
func TestAnObjectThatCannotBeFilteredIsRejected(t *testing.T) {
	mine := func(o object.Head) bool { return o.GetLabels()["app"] == "mine" }
	d := podDecoder(t, MediaJSON, Options{Keep: Without("spec.nodeName")}).WithFilter(mine)
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"1","labels":{%s}},"spec":{"nodeName":5}}`
	for labels, rejected := range map[string]bool{`"app":"other","z":"1"`: false, `"z":"1","app":"other"`: true} {
		o := fmt.Sprintf(pod, labels)
		for o, err := range d.List(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","items":[`+o+`]}`), new(metav1.ListMeta), nil) {
			require.Nil(t, o)
			require.True(t, rejected, labels)
			require.Error(t, err)
		}
		_, err := readWatch(d, strings.NewReader(`{"type":"ADDED","object":`+o+`}`))
		require.Equal(t, rejected, err != nil, labels)
	}
}

// BenchmarkForeign skips 1,000 objects that are unwanted by UID or label, or decodes them first.
// One operation is one object.
func BenchmarkForeign(b *testing.B) {
	const n = 1000
	for _, media := range allMedia {
		var stream []byte
		for i := range n {
			stream = append(stream, frameOf(b, media, "MODIFIED", podKind, objects.Pod(1, i, objects.Options{}))...)
		}
		list := benchList(b, media, n)
		d := podDecoder(b, media, Options{})
		for _, way := range []struct {
			name string
			typedDecoder[*corev1.Pod]
		}{
			{"decoded", d},
			{"by uid", d.WithFilter(func(o object.Head) bool { return o.GetUID() == "" })},
			{"by label", d.WithFilter(func(o object.Head) bool { return o.GetLabels()["app"] == "none" })},
		} {
			foreign(b, media+"/list/"+way.name, n, func() {
				for _, err := range way.List(bytes.NewReader(list), new(metav1.ListMeta), nil) {
					require.NoError(b, err)
				}
			})
			foreign(b, media+"/watch/"+way.name, n, func() {
				for _, err := range way.Watch(bytes.NewReader(stream), nil) {
					require.NoError(b, err)
				}
			})
		}
	}
}

// foreign runs a benchmark in which one call of read is n operations. It also reports processor
// time, because wall time is unreliable on a busy machine.
func foreign(b *testing.B, name string, n int, read func()) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		before := cpuTime(b)
		for i := 0; b.Loop(); i++ {
			if i%n == 0 {
				read()
			}
		}
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	})
}

// A bookmark costs a decoder with a filter no more than any other decoder.
func TestBookmarkCostsTheSameWithAFilter(t *testing.T) {
	for _, media := range bothMedia {
		body := bytes.Repeat(frameOf(t, media, "BOOKMARK", podKind, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}}), 300)
		d, err := NewDecoder(media, typedAs[*corev1.Pod](Options{Kind: podKind}))
		require.NoError(t, err)
		cost := func(d Decoder) float64 {
			return testing.AllocsPerRun(5, func() {
				for range d.Watch(bytes.NewReader(body), nil) {
				}
			})
		}
		require.Less(t, cost(d.WithFilter(func(object.Head) bool { return true })), cost(d)*1.2, media)
	}
}

// A watch keeps its maps for the next object, but not those of an unusually large object.
func TestALargeHeadIsReleased(t *testing.T) {
	for n, kept := range map[int]bool{maxReusedPairs: true, maxReusedPairs + 1: false} {
		var h lazyHead
		for i := range n {
			pair := head.Label{Key: fmt.Sprint(i), Value: "v"}
			h.head.Labels, h.head.Annotations = append(h.head.Labels, pair), append(h.head.Annotations, pair)
		}
		asMap(&h.labels, h.head.Labels)
		asMap(&h.annotations, h.head.Annotations)
		require.Len(t, h.labels, n)
		h.reset()
		require.Equal(t, kept, h.labels != nil)
		require.Equal(t, kept, h.annotations != nil)
		require.Empty(t, h.labels)
		require.Empty(t, h.annotations)
	}
}
