package wire

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/internal/objects"
)

// benchList returns a list of realistic Pods in the order of their keys, as a server sends it.
func benchList(b *testing.B, media string, n int) []byte {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i := range n {
		list.Items = append(list.Items, *objects.Pod(1, i, objects.Options{}))
	}
	sortByKey(list.Items)
	return encodeAs(b, media, corev1.SchemeGroupVersion.WithKind("PodList"), list)
}

// sortByKey sorts Pods by key, as in a server's list.
func sortByKey(pods []corev1.Pod) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// eachWay runs a benchmark for each encoding and decoder.
func eachWay(b *testing.B, run func(b *testing.B, media string, opts Options)) {
	ways := []struct {
		name string
		opts Options
	}{{"reference", Options{Reference: true}}, {"alone", Options{}}, {"sharing", Options{Pool: NewPool()}}}
	for _, media := range bothMedia {
		for _, way := range ways {
			b.Run(media+"/"+way.name, func(b *testing.B) { run(b, media, way.opts) })
		}
	}
	b.Run(MediaCBOR, func(b *testing.B) { run(b, MediaCBOR, Options{}) })
}

// eachOf runs a benchmark whose operation reads a whole body of n objects; a part of one would be
// counted as the whole. In addition to the standard metrics it reports the time per object,
// ns/object.
func eachOf(b *testing.B, n int, body []byte, read func()) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		read()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N*n), "ns/object")
}

// BenchmarkList decodes a list of 1,000 Pods. One operation is the whole list, and ns/object the
// time for one Pod. The objects of the last list are kept, as in a cache, because only parts in use
// are shared.
func BenchmarkList(b *testing.B) {
	eachWay(b, func(b *testing.B, media string, opts Options) {
		const n = 1000
		body := benchList(b, media, n)
		d := podDecoder(b, media, opts)
		kept := make([]*corev1.Pod, n)
		eachOf(b, n, body, func() {
			var meta metav1.ListMeta
			at := 0
			for pod, err := range d.List(bytes.NewReader(body), &meta, nil) {
				require.NoError(b, err)
				kept[at] = pod
				at++
			}
		})
	})
}

// BenchmarkWatch decodes a stream of 1,000 events. One operation is the whole stream, and ns/object
// the time for one event. The stream repeats, but versions of one object do not share parts, so
// each event costs as much as a change.
func BenchmarkWatch(b *testing.B) {
	eachWay(b, func(b *testing.B, media string, opts Options) {
		const n = 1000
		var body []byte
		for i := range n {
			body = append(body, frameOf(b, media, "MODIFIED", podKind, objects.Pod(1, i, objects.Options{}))...)
		}
		d := podDecoder(b, media, opts)
		kept := make([]*corev1.Pod, n)
		eachOf(b, n, body, func() {
			at := 0
			for event, err := range d.Watch(bytes.NewReader(body), nil) {
				require.NoError(b, err)
				kept[at] = event.Object
				at++
			}
		})
	})
}

// BenchmarkUntyped decodes a list of 1,000 custom resources without a Go type. One operation is the
// whole list, and ns/object the time for one of them.
func BenchmarkUntyped(b *testing.B) {
	const n = 1000
	kind := objects.WidgetVersion().WithKind(objects.WidgetKind)
	widgets := make([]any, n)
	for i := range widgets {
		widgets[i] = objects.Widget(1, i, objects.Options{})
	}
	body := indentedList(b, kind, "", widgets)
	for _, f := range []Fields{{}, WithoutManagedFields, Only("metadata.labels", "status")} {
		b.Run(f.String(), func(b *testing.B) {
			d := decoderOfType[*unstructured.Unstructured](b, MediaJSON, Options{Kind: kind, Keep: f, Pool: NewPool()})
			kept := make([]*unstructured.Unstructured, n)
			eachOf(b, n, body, func() {
				var meta metav1.ListMeta
				at := 0
				for widget, err := range d.List(bytes.NewReader(body), &meta, nil) {
					require.NoError(b, err)
					kept[at] = widget
					at++
				}
			})
		})
	}
}
