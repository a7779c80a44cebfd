package protocol

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// unwrap decodes a protobuf body into an object and returns its kind.
func (s *session) unwrap(body []byte, into interface{ Unmarshal([]byte) error }) string {
	s.t.Helper()
	require.Greater(s.t, len(body), 4)
	require.Equal(s.t, "k8s\x00", string(body[:4]))
	var unknown runtime.Unknown
	require.NoError(s.t, unknown.Unmarshal(body[4:]))
	require.NoError(s.t, into.Unmarshal(unknown.Raw))
	return unknown.APIVersion + " " + unknown.Kind
}

// fetch sends a GET and also returns the content type.
func (s *session) fetch(path, accept string) (int, string, []byte) {
	s.t.Helper()
	resp, err := s.open(s.t.Context(), "GET", s.path(path), "", "Accept", accept)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, resp.Header.Get("Content-Type"), raw
}

func TestProtobuf(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a", "b")
		_, contentType, raw := s.fetch("pods", proto)
		require.Equal(s.t, proto, contentType)
		var pods corev1.PodList
		require.Equal(s.t, "v1 PodList", s.unwrap(raw, &pods))
		require.Len(s.t, pods.Items, 2)
		require.Equal(s.t, "b", pods.Items[1].Name)
		require.NotEmpty(s.t, pods.ResourceVersion)

		var pod corev1.Pod
		_, _, raw = s.fetch("pods/a", proto)
		require.Equal(s.t, "v1 Pod", s.unwrap(raw, &pod))
		require.Equal(s.t, "i", pod.Spec.Containers[0].Image)

		code, contentType, raw := s.fetch("pods/none", proto)
		require.Equal(s.t, 404, code)
		require.Equal(s.t, proto, contentType)
		var status metav1.Status
		require.Equal(s.t, "v1 Status", s.unwrap(raw, &status))
		require.Equal(s.t, `pods "none" not found`, status.Message)

		body, err := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "v"}}).Marshal()
		require.NoError(s.t, err)
		wrapped, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: body}).Marshal()
		require.NoError(s.t, err)
		made := s.must("POST", "configmaps", "k8s\x00"+string(wrapped), "Content-Type", proto)
		require.Equal(s.t, "v", made.Data["k"])
	})
}

// A server that cannot leave out managed fields ignores the parameter.
func TestDropParameterIsHarmless(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		for _, media := range []string{"application/json", proto} {
			for _, path := range []string{"pods/a", "pods"} {
				code, contentType, _ := s.fetch(path, media+";drop=metadata.managedFields")
				require.Equal(s.t, 200, code)
				require.Equal(s.t, media, contentType)
			}
		}
	})
}

func TestProtobufWatch(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		resp, err := s.open(s.t.Context(), "GET", s.path(streaming+"&allowWatchBookmarks=true"), "", "Accept", proto)
		require.NoError(s.t, err)
		defer resp.Body.Close()
		require.Equal(s.t, proto+";stream=watch", resp.Header.Get("Content-Type"))
		kind, object := s.frame(resp)
		var pod corev1.Pod
		require.Equal(s.t, "v1 Pod", s.unwrap(object, &pod))
		require.Equal(s.t, "ADDED a", kind+" "+pod.Name)
		kind, object = s.frame(resp)
		pod = corev1.Pod{}
		require.Equal(s.t, "v1 Pod", s.unwrap(object, &pod))
		require.Equal(s.t, "BOOKMARK", kind)
		require.Equal(s.t, "true", pod.Annotations[metav1.InitialEventsAnnotationKey])
	})
}

func TestProtobufMetadataWatch(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		resp, err := s.open(s.t.Context(), "GET", s.path(streaming+"&allowWatchBookmarks=true"), "", "Accept", proto+metaOnly)
		require.NoError(s.t, err)
		defer resp.Body.Close()
		require.Equal(s.t, proto+";stream=watch", resp.Header.Get("Content-Type"))
		for _, want := range []string{"ADDED a", "BOOKMARK "} {
			kind, object := s.frame(resp)
			var meta metav1.PartialObjectMetadata
			require.Equal(s.t, "meta.k8s.io/v1 PartialObjectMetadata", s.unwrap(object, &meta))
			require.Equal(s.t, want, kind+" "+meta.Name)
		}
	})
}

// CBOR is available for whole objects and metadata, built-in and custom kinds, in lists, gets and
// watches.
func TestCBOR(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a", "b")
		s.must("POST", "example.com/v1/widgets", widget("w"))
		type item struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Spec              any `json:"spec"`
			Status            any `json:"status"`
		}
		for path, want := range map[string]struct{ accept, list, item string }{
			"pods":                    {"", "v1 PodList", " "},
			"example.com/v1/widgets":  {"", "example.com/v1 WidgetList", "example.com/v1 Widget"},
			"pods?":                   {metaLists, "meta.k8s.io/v1 PartialObjectMetadataList", "meta.k8s.io/v1 PartialObjectMetadata"},
			"example.com/v1/widgets?": {metaLists, "meta.k8s.io/v1 PartialObjectMetadataList", "meta.k8s.io/v1 PartialObjectMetadata"},
		} {
			_, contentType, raw := s.fetch(path, cborMedia+want.accept)
			require.Equal(s.t, cborMedia, contentType)
			require.Equal(s.t, "\xd9\xd9\xf7", string(raw[:3]))
			var list map[string]any
			require.NoError(s.t, direct.Unmarshal(raw, &list))
			require.Equal(s.t, want.list, fmt.Sprint(list["apiVersion"], " ", list["kind"]))
			require.NotEmpty(s.t, list["metadata"].(map[string]any)["resourceVersion"])
			first := list["items"].([]any)[0].(map[string]any)
			is, _ := first["apiVersion"].(string)
			kind, _ := first["kind"].(string)
			require.Equal(s.t, want.item, is+" "+kind)
			require.Equal(s.t, want.accept == "", first["spec"] != nil)
		}
		_, contentType, raw := s.fetch("pods/a", cborMedia)
		require.Equal(s.t, cborMedia, contentType)
		var pod item
		require.NoError(s.t, direct.Unmarshal(raw, &pod))
		require.Equal(s.t, "v1 Pod a", pod.APIVersion+" "+pod.Kind+" "+pod.Name)

		code, contentType, raw := s.fetch("pods/none", cborMedia)
		require.Equal(s.t, 404, code)
		require.Equal(s.t, cborMedia, contentType)
		var status metav1.Status
		require.NoError(s.t, direct.Unmarshal(raw, &status))
		require.Equal(s.t, `v1 Status pods "none" not found`, status.APIVersion+" "+status.Kind+" "+status.Message)

		resp, err := s.open(s.t.Context(), "GET", s.path(streaming+"&allowWatchBookmarks=true"), "", "Accept", cborMedia)
		require.NoError(s.t, err)
		defer resp.Body.Close()
		require.Equal(s.t, cborMedia+"-seq", resp.Header.Get("Content-Type"))
		frames := cbor.NewFramer().NewFrameReader(resp.Body)
		for _, want := range []string{"ADDED a", "ADDED b", "BOOKMARK "} {
			frame := make([]byte, 64<<10)
			n, err := frames.Read(frame)
			require.NoError(s.t, err)
			var event struct {
				Type   string `json:"type"`
				Object item   `json:"object"`
			}
			require.NoError(s.t, direct.Unmarshal(frame[:n], &event))
			require.Equal(s.t, want, event.Type+" "+event.Object.Name)
			require.Equal(s.t, "v1 Pod", event.Object.APIVersion+" "+event.Object.Kind)
		}
	})
}

// frame reads one event of a protobuf watch.
func (s *session) frame(resp *http.Response) (string, []byte) {
	s.t.Helper()
	var length [4]byte
	_, err := io.ReadFull(resp.Body, length[:])
	require.NoError(s.t, err)
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err = io.ReadFull(resp.Body, frame)
	require.NoError(s.t, err)
	var event metav1.WatchEvent
	require.NoError(s.t, event.Unmarshal(frame))
	return event.Type, event.Object.Raw
}

func TestMetadataOnly(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		s.must("POST", "example.com/v1/widgets", widget("w"))
		for _, path := range []string{"pods", "example.com/v1/widgets"} {
			l := s.list(path, "Accept", "application/json"+metaLists)
			require.Equal(s.t, "meta.k8s.io/v1 PartialObjectMetadataList", l.APIVersion+" "+l.Kind)
			require.Equal(s.t, "meta.k8s.io/v1 PartialObjectMetadata", l.Items[0].APIVersion+" "+l.Items[0].Kind)
			require.Nil(s.t, l.Items[0].Spec)

			var meta metav1.PartialObjectMetadataList
			_, contentType, raw := s.fetch(path, proto+metaLists+",application/json"+metaLists)
			require.Equal(s.t, proto, contentType)
			require.Equal(s.t, "meta.k8s.io/v1 PartialObjectMetadataList", s.unwrap(raw, &meta))
			require.Len(s.t, meta.Items, 1)

			w := s.watch(path+"?watch=1&allowWatchBookmarks=1", "Accept", "application/json"+metaOnly)
			for _, want := range []string{"ADDED", "BOOKMARK"} {
				e := w.next()
				require.Equal(s.t, want, e.Type)
				require.Equal(s.t, "meta.k8s.io/v1 PartialObjectMetadata", e.Object.APIVersion+" "+e.Object.Kind)
				require.Nil(s.t, e.Object.Spec)
			}
		}
	})
}

func TestNegotiation(t *testing.T) {
	forEach(t, func(s *session) {
		s.must("POST", "example.com/v1/widgets", widget("w"))
		for _, tc := range []struct{ path, accept, want string }{
			{"pods", "", "application/json"},
			{"pods", "*/*", "application/json"},
			{"pods", "image/png,application/json;q=0.5", "application/json"},
			{"pods", proto + ",application/json", proto},
			{"pods", proto + ";q=0.1,application/json", "application/json"},
			{"pods", "application/json;as=Unknown;g=meta.k8s.io;v=v1,application/json", "application/json"},
			{"example.com/v1/widgets", proto + ",application/json", "application/json"},
			{"example.com/v1/widgets/w", proto + ",*/*", "application/json"},
			{"pods", cborMedia + "," + proto + ",application/json", cborMedia},
			{"pods", "*/*," + cborMedia, cborMedia},
			{"example.com/v1/widgets/w", proto + "," + cborMedia, cborMedia},
		} {
			code, got, _ := s.fetch(tc.path, tc.accept)
			require.Equal(s.t, 200, code, "%s %s", tc.path, tc.accept)
			require.Equal(s.t, tc.want, got, "%s %s", tc.path, tc.accept)
		}
	})
}
