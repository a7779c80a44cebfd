package rest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// shareable is a pod with a part worth sharing.
func shareable(name string) *corev1.Pod {
	p := pod(name)
	p.Labels = map[string]string{"app": "a name that is long enough"}
	return p
}

// podsServer serves lists, watches and gets of pods, with two pages per list.
func podsServer(t *testing.T) *Client {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", wire.MediaProtobuf)
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}}
		switch query := r.URL.Query(); {
		case query.Get("watch") != "":
			for _, name := range []string{"a", "b"} {
				writeFrame(t, w, wire.MediaProtobuf, "ADDED", kindPod, shareable(name))
			}
			return
		case r.URL.Path == "/api/v1/namespaces/default/pods/a":
			w.Write(encode(t, wire.MediaProtobuf, kindPod, shareable("a")))
			return
		case query.Get("continue") == "":
			list.Items, list.Continue = []corev1.Pod{*shareable("x"), *shareable("a")}, "more"
		default:
			list.Items = []corev1.Pod{*shareable("y"), *shareable("b")}
		}
		w.Write(encode(t, wire.MediaProtobuf, corev1.SchemeGroupVersion.WithKind("PodList"), list))
	})
}

// read lists and watches.
func read(t *testing.T, from source.ListerWatcher, known wire.Cached) (listed, watched []*corev1.Pod) {
	t.Helper()
	for p, err := range from.List(t.Context(), source.Request{ListOptions: metav1.ListOptions{Limit: 2}, Known: known}).Items {
		require.NoError(t, err)
		listed = append(listed, p.(*corev1.Pod))
	}
	events, err := from.Watch(t.Context(), source.Request{Known: known})
	require.NoError(t, err)
	for e, err := range events {
		require.NoError(t, err)
		watched = append(watched, e.Object.(*corev1.Pod))
	}
	require.Len(t, listed, 4)
	require.Len(t, watched, 2)
	return listed, watched
}

func TestReusingReturnsKnownObjects(t *testing.T) {
	pods := ResourceFor[*corev1.Pod](podsServer(t))
	have := shareable("b")
	listed, watched := read(t, pods.Source(), func(key object.Key) (object.Head, bool) { return have, key.Name == "b" })
	require.Same(t, have, listed[3], "of the second page")
	require.Same(t, have, watched[1])
	require.NotSame(t, have, watched[0])
	listed, watched = read(t, pods.Source(), nil)
	require.NotSame(t, have, listed[3], "the resource itself is as it was")
	require.NotSame(t, have, watched[1])
}

// Objects of lists and watches share parts; those returned to a caller do not.
func TestSharingIsForListsAndWatches(t *testing.T) {
	pods := ResourceFor[*corev1.Pod](podsServer(t))
	pool := wire.NewPool()
	sharing := pods.Sharing(pool)
	read(t, sharing.Source(), nil) // parts seen only once are not kept
	listed, watched := read(t, sharing.Source(), nil)
	require.NotZero(t, pool.Len())
	for _, p := range append(listed, watched...) {
		listed[0].Labels["app"] = "changed"
		require.Equal(t, "changed", p.Labels["app"])
	}
	got, err := sharing.Get(t.Context(), object.Key{Namespace: "default", Name: "a"}, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, shareable("a"), got)
	listed, watched = read(t, pods.Source(), nil)
	for _, p := range append(listed, watched...) {
		require.Equal(t, shareable(p.Name), p)
	}
	read(t, sharing.Sharing(nil).Source(), nil)
}
