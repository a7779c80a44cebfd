package apiservertest_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
)

const (
	proto     = "application/vnd.kubernetes.protobuf"
	metaJSON  = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metaLists = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

func TestListOrderScopeAndSelectors(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	r.create(pod("b", "x", "app", "web"), pod("a", "y"), pod("a-b", "z", "app", "db"))
	require.Equal(t, []string{"z", "y", "x"}, r.list("/api/v1/pods").names(), "etcd's order: '-' comes before '/'")
	require.Equal(t, []string{"y"}, r.list("/api/v1/namespaces/a/pods").names())
	require.Equal(t, []string{"x"}, r.list("/api/v1/pods?labelSelector=app%3Dweb").names())
	require.Equal(t, []string{"y"}, r.list("/api/v1/pods?fieldSelector=metadata.name%3Dy").names())
	require.Len(t, r.list("/api/v1/pods?fieldSelector=status.phase%3DPending").Items, 3)
	require.Equal(t, r.RV(), r.list("/api/v1/pods").Metadata.ResourceVersion)
	status := r.status("GET", "/api/v1/pods?fieldSelector=spec.nothing%3D1", "")
	require.Equal(t, "field label not supported: spec.nothing", status.Message)
	require.Equal(t, metav1.StatusReasonBadRequest, status.Reason)
}

func TestListPagesOneState(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	for i := range 5 {
		r.create(pod("default", fmt.Sprintf("p%d", i)))
	}
	first := r.list("/api/v1/pods?limit=2")
	require.Equal(t, []string{"p0", "p1"}, first.names())
	require.EqualValues(t, 3, *first.Metadata.RemainingItemCount)

	r.create(pod("default", "p2a"))
	require.NoError(t, r.Delete(pods, keyOf("default", "p4")))
	second := r.list("/api/v1/pods?limit=2&continue=" + first.Metadata.Continue)
	require.Equal(t, []string{"p2", "p3"}, second.names())
	require.Equal(t, first.Metadata.ResourceVersion, second.Metadata.ResourceVersion)
	third := r.list("/api/v1/pods?limit=2&continue=" + second.Metadata.Continue)
	require.Equal(t, []string{"p4"}, third.names())
	require.Empty(t, third.Metadata.Continue)

	r.Compact()
	gone := r.status("GET", "/api/v1/pods?limit=2&continue="+first.Metadata.Continue, "")
	require.Equal(t, metav1.StatusReasonExpired, gone.Reason)
	require.EqualValues(t, 410, gone.Code)
	rest := r.list("/api/v1/pods?continue=" + gone.Continue)
	require.Equal(t, []string{"p2", "p2a", "p3"}, rest.names())
}

func TestListResourceVersions(t *testing.T) {
	r := newRig(t, apiservertest.Options{FreshnessWait: 10 * time.Millisecond})
	r.create(pod("default", "a"))
	then := r.RV()
	r.create(pod("default", "b"))
	require.Equal(t, []string{"a"}, r.list("/api/v1/pods?resourceVersionMatch=Exact&resourceVersion="+then).names())
	require.Equal(t, []string{"a", "b"}, r.list("/api/v1/pods?resourceVersion="+then).names())
	require.Equal(t, []string{"a"}, r.list("/api/v1/pods?limit=5&resourceVersion="+then).names(), "with a limit it is exact")
	require.Len(t, r.list("/api/v1/pods?limit=1&resourceVersion=0").Items, 2, "the watch cache does not page")

	future := r.status("GET", "/api/v1/pods?resourceVersion=100000", "")
	require.EqualValues(t, 504, future.Code)
	require.Equal(t, metav1.CauseTypeResourceVersionTooLarge, future.Details.Causes[0].Type)
	r.Compact()
	old := r.status("GET", "/api/v1/pods?resourceVersionMatch=Exact&resourceVersion="+then, "")
	require.EqualValues(t, 410, old.Code)
	invalid := r.status("GET", "/api/v1/pods?resourceVersionMatch=Exact", "")
	require.Equal(t, metav1.StatusReasonInvalid, invalid.Reason)
}

func TestWatchFromVersion(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	r.create(pod("default", "a"))
	start := r.RV()
	r.create(pod("default", "b"))
	w := r.watch("/api/v1/pods?watch=1&resourceVersion=" + start)
	require.Equal(t, "ADDED b@102", w.next())
	require.NoError(t, r.Delete(pods, keyOf("default", "a")))
	require.Equal(t, "DELETED a@103", w.next())

	synthetic := r.watch("/api/v1/pods?watch=1")
	require.Equal(t, "ADDED b@102", synthetic.next())
	r.create(pod("default", "c"))
	require.Equal(t, "ADDED c@104", synthetic.next())

	r.Compact()
	r.create(pod("default", "d"))
	require.Equal(t, "ADDED c@104", w.next(), "an open watch survives a compaction")
	require.Equal(t, "ADDED d@105", w.next())
	expired, err := r.watch("/api/v1/pods?watch=1&resourceVersion=" + start).rest()
	require.NoError(t, err)
	require.Equal(t, []string{"ERROR 410 Expired: too old resource version: 101 (104)"}, expired)
}

func TestHistoryIsBounded(t *testing.T) {
	inBubble(t, apiservertest.Options{History: 5}, func(t *testing.T, r *rig) {
		for i := range 12 {
			r.create(pod("default", fmt.Sprintf("p%02d", i)))
		}
		told := map[int]string{}
		for rv := 100; rv < 112; rv++ {
			events, err := r.watch(fmt.Sprintf("/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=%d", rv)).rest()
			require.NoError(t, err)
			told[rv] = events[0]
			if told[rv] == fmt.Sprintf("ADDED p%02d@%d", rv-100, rv+1) {
				require.Len(t, events, 112-rv, "all that follow %d", rv)
			}
		}
		require.Equal(t, "ERROR 410 Expired: too old resource version: 104 (105)", told[104])
		require.Equal(t, "ADDED p05@106", told[105])
		require.Equal(t, "ADDED p11@112", told[111])
	})
}

// A history of any length is complete from its floor on, however often it was trimmed.
func TestHistoryIsWholeFromItsFloor(t *testing.T) {
	for _, history := range []int{1, 700} {
		inBubble(t, apiservertest.Options{History: history}, func(t *testing.T, r *rig) {
			p := pod("default", "a")
			for n := range 9_000 {
				p.Labels = map[string]string{"n": fmt.Sprint(n)}
				_, err := r.Put(p)
				require.NoError(t, err)
				if n%997 != 0 {
					continue
				}
				newest := 101 + n
				from := max(101, newest-history)
				w := r.watch(fmt.Sprintf(podList+"?watch=1&resourceVersion=%d", from))
				for rv := from + 1; rv <= newest; rv++ {
					require.Equal(t, fmt.Sprintf("MODIFIED a@%d", rv), w.next())
				}
				if oldest := newest - 2*history; oldest > 100 {
					events, err := r.watch(fmt.Sprintf(podList+"?watch=1&resourceVersion=%d", oldest)).rest()
					require.NoError(t, err)
					require.Contains(t, events[0], "410 Expired")
				}
				w.body.Close()
			}
		})
	}
}

func TestWatchCrossesSelector(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	w := r.watch("/api/v1/pods?watch=1&labelSelector=app%3Dweb&resourceVersion=" + r.RV())
	r.create(pod("default", "a"))
	for _, app := range []string{"web", "web2", "web"} {
		_, err := r.Put(pod("default", "a", "app", app))
		require.NoError(t, err)
	}
	_, err := r.Put(pod("default", "a", "app", "web", "more", "1"))
	require.NoError(t, err)
	require.Equal(t, "ADDED a@102", w.next())
	require.Equal(t, "DELETED a@103", w.next())
	require.Equal(t, "ADDED a@104", w.next())
	require.Equal(t, "MODIFIED a@105", w.next())
}

func TestStreamingList(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	r.create(pod("default", "a"), pod("default", "b"))
	const query = "/api/v1/pods?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
	w := r.watch(query)
	require.Equal(t, "ADDED a@101", w.next())
	require.Equal(t, "ADDED b@102", w.next())
	require.Equal(t, "BOOKMARK @102 end", w.next())
	r.create(pod("default", "c"))
	require.Equal(t, "ADDED c@103", w.next())

	time.AfterFunc(10*time.Millisecond, func() { r.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}) })
	future := r.watch(query + "&resourceVersion=104")
	require.Equal(t, "ADDED a@101", future.next())
	require.Equal(t, "ADDED b@102", future.next())
	require.Equal(t, "ADDED c@103", future.next())
	require.Equal(t, "BOOKMARK @104 end", future.next(), "it waits for the version")

	status := r.status("GET", "/api/v1/pods?watch=1&sendInitialEvents=true", "")
	require.EqualValues(t, 422, status.Code)

	old := newRig(t, apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused})
	require.EqualValues(t, 422, old.status("GET", query, "").Code)
	inBubble(t, apiservertest.Options{StreamingLists: apiservertest.StreamingListsIgnored}, func(t *testing.T, r *rig) {
		r.create(pod("default", "a"))
		events, err := r.watch(query + "&timeoutSeconds=1").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"ADDED a@101"}, events)
	})
}

func TestProtobuf(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	r.create(pod("default", "a"), pod("default", "b"))
	code, raw, header := r.do("GET", "/api/v1/pods", "", "Accept", proto)
	require.Equal(t, 200, code)
	require.Equal(t, proto, header.Get("Content-Type"))
	var podList corev1.PodList
	unknown := decodeProto(t, raw, &podList)
	require.Equal(t, runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, unknown.TypeMeta)
	require.Len(t, podList.Items, 2)
	require.Equal(t, "b", podList.Items[1].Name)
	require.Equal(t, r.RV(), podList.ResourceVersion)

	resp := r.open("GET", "/api/v1/pods?watch=1", "", "Accept", proto)
	require.Equal(t, proto+";stream=watch", resp.Header.Get("Content-Type"))
	for _, name := range []string{"a", "b"} {
		kind, object := readFrame(t, resp.Body)
		var p corev1.Pod
		require.Equal(t, "Pod", decodeProto(t, object, &p).Kind)
		require.Equal(t, "ADDED "+name, kind+" "+p.Name)
		require.Equal(t, "nginx", p.Spec.Containers[0].Image)
	}
	code, raw, header = r.do("GET", "/api/v1/namespaces/default/pods/none", "", "Accept", proto)
	require.Equal(t, 404, code)
	var status metav1.Status
	require.Equal(t, "Status", decodeProto(t, raw, &status).Kind)
	require.Equal(t, `pods "none" not found`, status.Message)
	require.Equal(t, proto, header.Get("Content-Type"))
}

func TestMetadataOnly(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	r.create(pod("default", "a", "app", "web"), widget("w", 1))
	for _, path := range []string{"/api/v1/pods", "/apis/example.com/v1/widgets"} {
		_, raw, _ := r.do("GET", path, "", "Accept", metaLists)
		var l list
		require.NoError(t, json.Unmarshal(raw, &l))
		require.Equal(t, "PartialObjectMetadataList", l.Kind)
		require.Equal(t, "PartialObjectMetadata", l.Items[0].Kind)
		require.NotContains(t, string(raw), "spec")
	}
	require.EqualValues(t, 406, r.status("GET", "/api/v1/pods", "", "Accept", metaJSON).Code)

	resp := r.open("GET", "/apis/example.com/v1/widgets?watch=1", "", "Accept",
		proto+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	_, object := readFrame(t, resp.Body)
	var meta metav1.PartialObjectMetadata
	require.Equal(t, "PartialObjectMetadata", decodeProto(t, object, &meta).Kind)
	require.Equal(t, "w", meta.Name)
}

func TestCustomResourceIsJSONOnly(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	r.create(widget("w", 1))
	code, _, _ := r.do("GET", "/apis/example.com/v1/widgets", "", "Accept", proto)
	require.Equal(t, 406, code)
	code, _, header := r.do("GET", "/apis/example.com/v1/widgets", "", "Accept", proto+",application/json")
	require.Equal(t, 200, code)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	l := r.list("/apis/example.com/v1/widgets")
	require.Equal(t, "WidgetList", l.Kind)
	require.Equal(t, "Widget", l.Items[0].Kind)

	w := r.watch("/apis/example.com/v1/widgets?watch=1&resourceVersion=" + r.RV())
	require.NoError(t, r.RemoveResource(widgets))
	events, err := w.rest()
	require.NoError(t, err)
	require.Equal(t, []string{"DELETED w@102"}, events)
	code, _, _ = r.do("GET", "/apis/example.com/v1/widgets", "")
	require.Equal(t, 404, code)
}

// readFrame reads one event of a protobuf watch.
func readFrame(t *testing.T, body io.Reader) (string, []byte) {
	t.Helper()
	var length [4]byte
	_, err := io.ReadFull(body, length[:])
	require.NoError(t, err)
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err = io.ReadFull(body, frame)
	require.NoError(t, err)
	var event metav1.WatchEvent
	require.NoError(t, event.Unmarshal(frame))
	return event.Type, event.Object.Raw
}

func decodeProto(t *testing.T, body []byte, into interface{ Unmarshal([]byte) error }) runtime.Unknown {
	t.Helper()
	require.Equal(t, "k8s\x00", string(body[:4]))
	var unknown runtime.Unknown
	require.NoError(t, unknown.Unmarshal(body[4:]))
	require.NoError(t, into.Unmarshal(unknown.Raw))
	return unknown
}
