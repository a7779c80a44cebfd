package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWatchFromVersion(t *testing.T) {
	forEach(t, func(s *session) {
		start := s.pods("a")
		s.pods("b")
		w := s.watch("pods?watch=1&resourceVersion=" + start)
		require.Equal(s.t, "ADDED b", w.told(1))
		changed := s.merge("pods/a", `{"metadata":{"labels":{"x":"y"}}}`)
		e := w.next()
		require.Equal(s.t, "MODIFIED", e.Type)
		require.Equal(s.t, "Pod", e.Object.Kind, "objects of events carry their kind")
		require.Equal(s.t, changed.Metadata.ResourceVersion, e.Object.Metadata.ResourceVersion)
		s.merge("pods/a", `{"metadata":{"labels":{"x":"y"}}}`) // without a change, so there is no event
		s.pods("c")
		require.Equal(s.t, "ADDED c", w.told(1))
	})
}

func TestWatchOfDeletion(t *testing.T) {
	forEach(t, func(s *session) {
		start := s.pods("a")
		w := s.watch("pods?watch=1&resourceVersion=" + start)
		s.must("DELETE", "pods/a", "")
		marked, gone := w.next(), w.next()
		require.Equal(s.t, "MODIFIED", marked.Type, "a pod is first marked")
		require.NotNil(s.t, marked.Object.Metadata.DeletionTimestamp)
		require.Equal(s.t, "DELETED", gone.Type)
		require.Greater(s.t, gone.Object.Metadata.ResourceVersion, marked.Object.Metadata.ResourceVersion)

		made := s.must("POST", "configmaps", `{"metadata":{"name":"c"},"data":{"k":"v"}}`)
		cm := s.watch("configmaps?watch=1&resourceVersion=" + made.Metadata.ResourceVersion)
		s.must("DELETE", "configmaps/c", "")
		e := cm.next()
		require.Equal(s.t, "DELETED", e.Type)
		require.Equal(s.t, map[string]string{"k": "v"}, e.Object.Data, "the last state")
		require.NotEqual(s.t, made.Metadata.ResourceVersion, e.Object.Metadata.ResourceVersion, "at the deletion's version")
	})
}

func TestWatchBeginsWithObjects(t *testing.T) {
	forEach(t, func(s *session) {
		rv := s.pods("b", "a")
		s.list("pods?resourceVersion=" + rv) // the watch cache has both
		for _, query := range []string{"watch=1", "watch=true&resourceVersion=0", "watch&resourceVersion="} {
			w := s.watch("pods?" + query)
			require.Equal(s.t, "ADDED a, ADDED b", w.told(2), "%q", query)
		}
		require.Equal(s.t, "ADDED b", s.watch("pods?watch=1&labelSelector=app%3Db").told(1))
	})
}

func TestWatchCrossesSelectors(t *testing.T) {
	forEach(t, func(s *session) {
		start := s.pods("a")
		byLabel := s.watch("pods?watch=1&labelSelector=in%3Dyes&resourceVersion=" + start)
		byField := s.watch("pods?watch=1&fieldSelector=status.phase%3DRunning&resourceVersion=" + start)
		in := s.merge("pods/a", `{"metadata":{"labels":{"in":"yes"}}}`)
		s.merge("pods/a", `{"metadata":{"annotations":{"k":"v"}}}`)
		out := s.merge("pods/a", `{"metadata":{"labels":{"in":"no"}}}`)
		require.NotEqual(s.t, in.Metadata.ResourceVersion, out.Metadata.ResourceVersion)
		require.Equal(s.t, "ADDED a, MODIFIED a", byLabel.told(2))
		left := byLabel.next()
		require.Equal(s.t, "DELETED", left.Type)
		require.Equal(s.t, out.Metadata.ResourceVersion, left.Object.Metadata.ResourceVersion, "the version of the change")
		require.Equal(s.t, "yes", left.Object.Metadata.Labels["in"], "the state before it")

		s.merge("pods/a/status", `{"status":{"phase":"Running"}}`)
		s.merge("pods/a/status", `{"status":{"phase":"Failed"}}`)
		require.Equal(s.t, "ADDED a, DELETED a", byField.told(2))
	})
}

const streaming = "pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"

func TestStreamingList(t *testing.T) {
	forEach(t, func(s *session) {
		rv := s.pods("b", "a")
		w := s.watch(streaming + "&allowWatchBookmarks=true")
		require.Equal(s.t, "ADDED a, ADDED b", w.told(2))
		end := w.next()
		require.Equal(s.t, "BOOKMARK", end.Type)
		require.Equal(s.t, "Pod", end.Object.Kind)
		require.Equal(s.t, "true", end.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey])
		require.GreaterOrEqual(s.t, end.Object.Metadata.ResourceVersion, rv)
		s.pods("c")
		require.Equal(s.t, "ADDED c", w.told(1))

		none := s.watch(streaming + "&allowWatchBookmarks=true&labelSelector=no&resourceVersion=" + rv)
		require.Equal(s.t, "BOOKMARK ", none.told(1))

		future := s.watch(streaming + "&allowWatchBookmarks=true&resourceVersion=100000000").rest()
		require.Len(s.t, future, 1)
		require.Equal(s.t, "ERROR", future[0].Type)
		require.Equal(s.t, 504, future[0].Object.Code)

		live := s.watch("pods?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
		s.pods("d")
		require.Equal(s.t, "ADDED d", live.told(1))
	})
}

func TestWatchTimeoutIsAnOrderlyEnd(t *testing.T) {
	forEach(t, func(s *session) {
		rv := s.pods("a")
		// A bookmark before the end is sent if possible, not guaranteed.
		for _, e := range s.watch("pods?watch=1&timeoutSeconds=3&allowWatchBookmarks=true&resourceVersion=" + rv).rest() {
			require.Equal(s.t, "BOOKMARK", e.Type)
			require.GreaterOrEqual(s.t, e.Object.Metadata.ResourceVersion, rv)
			require.Empty(s.t, e.Object.Metadata.Name)
			require.Empty(s.t, e.Object.Metadata.Annotations)
		}
		require.Empty(s.t, s.watch("pods?watch=1&timeoutSeconds=1&resourceVersion="+rv).rest())
	})
}

func TestWatchWithoutVersionIsAStreamingList(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		for _, query := range []string{"", "&resourceVersion=0"} {
			w := s.watch("pods?watch=1&allowWatchBookmarks=true" + query)
			require.Equal(s.t, "ADDED a", w.told(1))
			end := w.next()
			require.Equal(s.t, "BOOKMARK", end.Type)
			require.Equal(s.t, "true", end.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey])
		}
	})
}

func TestWatchOfCustomResource(t *testing.T) {
	forEach(t, func(s *session) {
		made := s.must("POST", "example.com/v1/widgets",
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","finalizers":["example.com/f"]},"spec":{}}`)
		w := s.watch("example.com/v1/widgets?watch=1&resourceVersion=" + made.Metadata.ResourceVersion)
		held := s.must("DELETE", "example.com/v1/widgets/w", "")
		require.NotNil(s.t, held.Metadata.DeletionTimestamp)
		require.EqualValues(s.t, 2, held.Metadata.Generation)
		again := s.must("DELETE", "example.com/v1/widgets/w", "")
		require.Equal(s.t, held.Metadata.ResourceVersion, again.Metadata.ResourceVersion, "marked once")
		freed := s.merge("example.com/v1/widgets/w", `{"metadata":{"finalizers":null}}`)
		require.Empty(s.t, freed.Metadata.Finalizers)
		require.Equal(s.t, held.Metadata.ResourceVersion, freed.Metadata.ResourceVersion)
		require.Equal(s.t, "MODIFIED", w.next().Type)
		gone := w.next()
		require.Equal(s.t, "DELETED", gone.Type)
		require.NotEmpty(s.t, gone.Object.Metadata.Finalizers, "the state as it was stored last")
		code, _ := s.do("GET", "example.com/v1/widgets/w", "")
		require.Equal(s.t, 404, code)
	})
}
