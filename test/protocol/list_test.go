package protocol

import (
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestListOrderAndSelectors(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("b", "a.b", "a-b", "a")
		for query, want := range map[string]string{
			"":                                 "a a-b a.b b",
			"?labelSelector=app%3Db":           "b",
			"?labelSelector=app%21%3Db":        "a a-b a.b",
			"?labelSelector=app+in+(a,b)":      "a b",
			"?labelSelector=!app":              "",
			"?fieldSelector=metadata.name%3Da": "a",
			"?fieldSelector=metadata.name%21%3Da,status.phase%3DPending": "a-b a.b b",
			"?fieldSelector=spec.nodeName%3D":                            "a a-b a.b b",
			"?fieldSelector=spec.restartPolicy%3DNever":                  "",
		} {
			require.Equal(s.t, want, s.list("pods"+query).names(), "%s", query)
		}
		l := s.list("pods")
		require.Equal(s.t, "PodList", l.Kind)
		require.Equal(s.t, "v1", l.APIVersion)
		require.Empty(s.t, l.Items[0].Kind, "items of built-in lists do not carry their kind")
	})
}

// The supported field selectors are those of the real server.
func TestFieldSelectors(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		s.merge("pods/a/status", `{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`)
		s.must("POST", "batch/v1/jobs", `{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)
		s.must("POST", "events", `{"metadata":{"name":"e"},"involvedObject":{"namespace":"`+s.ns+`","kind":"Pod","name":"a"},"reason":"R","type":"Normal","reportingComponent":"r"}`)
		events := "/apis/events.k8s.io/v1/namespaces/" + s.ns + "/events"
		s.must("POST", events, `{"metadata":{"name":"n"},"eventTime":"2020-01-01T00:00:00.000000Z","action":"a","reason":"R","type":"Normal",
			"reportingController":"example.com/c","reportingInstance":"i","regarding":{"kind":"Pod","name":"b","namespace":"`+s.ns+`"}}`)
		for _, tc := range []struct{ path, selector, want string }{
			{"pods", "status.podIP=10.0.0.1", "a"},
			{"pods", "status.podIPs=10.0.0.1", ""},
			{"pods", "status.podIPs=", "a"},
			{"batch/v1/jobs", "status.successful=0", "j"},
			{"batch/v1/jobs", "status.successful=1", ""},
			{"events", "source=r", "e"},
			{"events", "involvedObject.name=a", "e"},
			{events, "regarding.name=b,regarding.kind=Pod", "n"},
			{events, "reportingController=example.com/c,type=Normal", "n"},
		} {
			require.Equal(s.t, tc.want, s.list(tc.path+"?fieldSelector="+url.QueryEscape(tc.selector)).names(), "%s %s", tc.path, tc.selector)
		}
	})
}

func TestListPagesShowOneState(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a", "b", "c", "d", "e")
		first := s.list("pods?limit=2")
		require.Equal(s.t, "a b", first.names())
		require.EqualValues(s.t, 3, *first.Metadata.RemainingItemCount)

		s.pods("bb")
		s.must("DELETE", "pods/e", "")
		second := s.list("pods?limit=2&continue=" + url.QueryEscape(first.Metadata.Continue))
		require.Equal(s.t, "c d", second.names())
		require.Equal(s.t, first.Metadata.ResourceVersion, second.Metadata.ResourceVersion)
		require.EqualValues(s.t, 1, *second.Metadata.RemainingItemCount)
		third := s.list("pods?limit=2&continue=" + url.QueryEscape(second.Metadata.Continue))
		require.Equal(s.t, "e", third.names())
		require.Empty(s.t, third.Metadata.Continue)
		require.Nil(s.t, third.Metadata.RemainingItemCount)

		selected := s.list("pods?limit=1&labelSelector=app")
		require.NotEmpty(s.t, selected.Metadata.Continue)
		require.Nil(s.t, selected.Metadata.RemainingItemCount, "unknown with a selector")
		exact := s.list("pods?limit=4")
		require.Empty(s.t, s.list("pods?limit=5").Metadata.Continue)
		require.NotEmpty(s.t, exact.Metadata.Continue)
	})
}

func TestListVersions(t *testing.T) {
	forEach(t, func(s *session) {
		then := s.pods("a")
		now := s.pods("b")
		s.list("pods?resourceVersion=" + now) // waits until the watch cache has both
		for query, want := range map[string]string{
			"resourceVersion=" + then: "a b",
			"resourceVersion=" + then + "&resourceVersionMatch=NotOlderThan":         "a b",
			"resourceVersion=" + then + "&resourceVersionMatch=Exact":                "a",
			"resourceVersion=" + then + "&limit=5":                                   "a",
			"resourceVersion=" + then + "&limit=5&resourceVersionMatch=NotOlderThan": "a b",
			"resourceVersion=0&limit=1":                                              "a b",
			"resourceVersion=" + now:                                                 "a b",
			"limit=1":                                                                "a",
		} {
			require.Equal(s.t, want, s.list("pods?"+query).names(), "%s", query)
		}
		exact := s.list("pods?resourceVersionMatch=Exact&resourceVersion=" + then)
		require.Equal(s.t, then, exact.Metadata.ResourceVersion)
		got, err := strconv.ParseUint(s.list("pods").Metadata.ResourceVersion, 10, 64)
		require.NoError(s.t, err)
		least, err := strconv.ParseUint(now, 10, 64)
		require.NoError(s.t, err)
		require.GreaterOrEqual(s.t, got, least)
	})
}

func TestListOfTheFuture(t *testing.T) {
	forEach(t, func(s *session) {
		code, raw := s.do("GET", "pods?resourceVersion=100000000", "")
		status := parse[item](s.t, raw)
		require.Equal(s.t, 504, code)
		require.Equal(s.t, metav1.StatusReasonTimeout, status.Reason)
		require.Equal(s.t, metav1.CauseTypeResourceVersionTooLarge, status.Details.Causes[0].Type)
		require.EqualValues(s.t, 1, status.Details.RetryAfterSeconds)
	})
}

func TestListOfCustomResource(t *testing.T) {
	forEach(t, func(s *session) {
		s.must("POST", "example.com/v1/widgets", widget("w"))
		l := s.list("example.com/v1/widgets")
		require.Equal(s.t, "WidgetList", l.Kind)
		require.Equal(s.t, "Widget", l.Items[0].Kind, "custom items carry their kind")
		code, raw := s.do("GET", "example.com/v1/widgets", "")
		require.Equal(s.t, 200, code)
		require.Regexp(s.t, `^{"apiVersion":"example.com/v1","items":\[.*\],"kind":"WidgetList","metadata":{.*}}\n$`, string(raw),
			"the metadata comes after the items")
	})
}

func widget(name string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":{"size":1},"status":{"seen":1}}`
}
