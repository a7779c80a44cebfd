package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

var (
	kindPod    = corev1.SchemeGroupVersion.WithKind("Pod")
	kindWidget = object.GVK{Group: "example.com", Version: "v1", Kind: "Widget"}
)

// staticMapper is a kindMapper without a server.
type staticMapper map[object.GVK]discovery.Mapping

func (s staticMapper) MappingForKind(_ context.Context, gvk object.GVK) (discovery.Mapping, error) {
	m, ok := s[gvk]
	if !ok {
		return discovery.Mapping{}, fmt.Errorf("the server does not serve %s", gvk)
	}
	return m, nil
}

func mappings() staticMapper {
	s := staticMapper{}
	add := func(kind object.GVK, resource string, namespaced bool) {
		s[kind] = discovery.Mapping{Kind: kind, Resource: kind.GroupVersion().WithResource(resource), Namespaced: namespaced}
	}
	add(kindPod, "pods", true)
	add(corev1.SchemeGroupVersion.WithKind("Node"), "nodes", false)
	add(appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments", true)
	add(kindWidget, "widgets", true)
	return s
}

func testScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, autoscalingv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	return scheme
}

// serve returns a client of a loopback server with handler h.
func serve(t testing.TB, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return clientOf(t, &config.Config{Host: server.URL, UserAgent: "rest-test/1"})
}

func clientOf(t testing.TB, cfg *config.Config) *Client {
	t.Helper()
	c, err := NewClient(cfg, testScheme(t))
	require.NoError(t, err)
	c.mapper = mappings()
	return c
}

// encode encodes an object with its kind, like the API server.
func encode(t testing.TB, media string, kind object.GVK, obj runtime.Object) []byte {
	t.Helper()
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(kind)
	var s runtime.Serializer = jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, nil, nil, jsonserializer.SerializerOptions{})
	switch media {
	case wire.MediaProtobuf:
		s = protobuf.NewSerializer(nil, nil)
	case wire.MediaCBOR:
		s = cbor.NewSerializer(nil, nil)
	}
	var buf bytes.Buffer
	require.NoError(t, s.Encode(obj, &buf))
	return buf.Bytes()
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "7", UID: "u-1"},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
	}
}

func podList(names ...string) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}}
	for _, name := range names {
		list.Items = append(list.Items, *pod(name))
	}
	return list
}

func writeFrame(t testing.TB, w io.Writer, media, typ string, kind object.GVK, obj runtime.Object) {
	t.Helper()
	object := encode(t, media, kind, obj)
	if media == wire.MediaJSON {
		_, err := fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", typ, object)
		require.NoError(t, err)
		return
	}
	ev := &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: object}}
	raw, err := ev.Marshal()
	require.NoError(t, err)
	_, err = w.Write(append([]byte{byte(len(raw) >> 24), byte(len(raw) >> 16), byte(len(raw) >> 8), byte(len(raw))}, raw...))
	require.NoError(t, err)
}

func itemNames[H object.Head](t testing.TB, l source.List[H]) []string {
	t.Helper()
	var got []string
	for item, err := range l.Items {
		require.NoError(t, err)
		got = append(got, item.GetName())
	}
	return got
}

func TestListTypedInBothEncodings(t *testing.T) {
	for _, media := range []string{wire.MediaJSON, wire.MediaProtobuf} {
		t.Run(media, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if got, want := r.URL.Path, "/api/v1/namespaces/default/pods"; got != want {
					t.Errorf("path: got %s, want %s", got, want)
				}
				if got, want := r.Header.Get("Accept"), wire.MediaProtobuf+","+wire.MediaJSON; got != want {
					t.Errorf("accept: got %s, want %s", got, want)
				}
				if got, want := r.Header.Get("User-Agent"), "rest-test/1"; got != want {
					t.Errorf("user agent: got %s, want %s", got, want)
				}
				w.Header().Set("Content-Type", media)
				w.Write(encode(t, media, corev1.SchemeGroupVersion.WithKind("PodList"), podList("a", "b")))
			})
			l := ResourceFor[*corev1.Pod](c).Namespace("default").List(t.Context(), metav1.ListOptions{})
			var got []*corev1.Pod
			for p, err := range l.Items {
				require.NoError(t, err)
				got = append(got, p)
			}
			require.Equal(t, []*corev1.Pod{pod("a"), pod("b")}, got)
			require.Equal(t, "100", l.Meta.ResourceVersion)
		})
	}
}

func TestWatchTypedInBothEncodings(t *testing.T) {
	for _, media := range []string{wire.MediaJSON, wire.MediaProtobuf} {
		t.Run(media, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("watch") != "true" {
					t.Errorf("query %q does not ask for a watch", r.URL.RawQuery)
				}
				w.Header().Set("Content-Type", media+";stream=watch")
				writeFrame(t, w, media, "ADDED", kindPod, pod("a"))
				writeFrame(t, w, media, "BOOKMARK", kindPod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}})
				writeFrame(t, w, media, "DELETED", kindPod, pod("a"))
			})
			events, err := ResourceFor[*corev1.Pod](c).Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			var got []string
			for ev, err := range events {
				require.NoError(t, err)
				got = append(got, string(ev.Type)+" "+ev.Object.Name+" "+ev.Object.ResourceVersion)
				require.Positive(t, ev.Bytes)
				require.False(t, ev.Decoded.Before(ev.Received))
			}
			require.Equal(t, []string{"ADDED a 7", "BOOKMARK  9", "DELETED a 7"}, got)
		})
	}
}

func TestListUnstructured(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.URL.Path, "/apis/example.com/v1/widgets"; got != want {
			t.Errorf("path: got %s, want %s", got, want)
		}
		if got, want := r.Header.Get("Accept"), wire.MediaJSON; got != want {
			t.Errorf("accept: got %s, want %s", got, want)
		}
		w.Header().Set("Content-Type", wire.MediaJSON)
		io.WriteString(w, `{"items":[{"metadata":{"name":"w"},"spec":{"size":9007199254740993}}],"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"5"}}`)
	})
	l := ResourceForKind[*unstructured.Unstructured](c, kindWidget).List(t.Context(), metav1.ListOptions{})
	for w, err := range l.Items {
		require.NoError(t, err)
		size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size")
		require.Equal(t, int64(9007199254740993), size)
		require.Equal(t, kindWidget, w.GroupVersionKind())
	}
	require.Equal(t, "5", l.Meta.ResourceVersion)
}
