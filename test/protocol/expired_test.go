package protocol

import (
	"context"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/envtest"
)

// forEachForgetful runs a test against its own servers, which forget their history on request: the
// simulated one, a real one with its watch cache, which is restarted for it, and a real one
// without.
func forEachForgetful(t *testing.T, test func(s *session, forget func())) {
	t.Run("simulated", func(t *testing.T) {
		t.Parallel()
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Listen(apiservertest.ListenOptions{TLS: true})
		require.NoError(t, err)
		s := newSession(t, &target{url: endpoint.URL, client: trusting(endpoint.CA)})
		test(s, srv.Compact)
	})
	for name, flags := range map[string][]string{"real": nil, "real without watch cache": {"--watch-cache=false"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := envtest.Start(t, envtest.Options{Flags: flags})
			s := newSession(t, &target{url: srv.URL, admin: srv.AdminToken, client: trusting(srv.CA)})
			test(s, func() {
				_, err := srv.Compact(context.Background())
				require.NoError(t, err)
				if flags == nil {
					s.client.CloseIdleConnections()
					require.NoError(t, srv.Restart(context.Background()))
				}
			})
		})
	}
}

func TestExpired(t *testing.T) {
	forEachForgetful(t, func(s *session, forget func()) {
		then := s.pods("a", "b", "c", "d")
		page := s.list("pods?limit=2")
		s.must("DELETE", "pods/d", "")
		s.must("DELETE", "pods/a", "")
		s.pods("e")
		forget()

		for _, query := range []string{"?resourceVersionMatch=Exact&resourceVersion=" + then, "?limit=1&resourceVersion=" + then} {
			code, raw := s.do("GET", "pods"+query, "")
			require.Equal(s.t, 410, code, "%s: %s", query, raw)
			status := parse[item](s.t, raw)
			require.Equal(s.t, metav1.StatusReasonExpired, status.Reason)
			require.Equal(s.t, "Failure", status.Status)
		}
		require.Equal(s.t, "b c e", s.list("pods?resourceVersionMatch=NotOlderThan&resourceVersion="+then).names())

		code, raw := s.do("GET", "pods?limit=2&continue="+url.QueryEscape(page.Metadata.Continue), "")
		require.Equal(s.t, 410, code, "%s", raw)
		refused := parse[list](s.t, raw)
		require.Equal(s.t, "Status", refused.Kind)
		require.NotEmpty(s.t, refused.Metadata.Continue, "a token for the rest of the present state")
		rest := s.list("pods?limit=2&continue=" + url.QueryEscape(refused.Metadata.Continue))
		require.Equal(s.t, "c e", rest.names(), "what was created meanwhile shows, what was deleted does not")
		require.Empty(s.t, rest.Metadata.Continue)

		for _, query := range []string{"", "&allowWatchBookmarks=true", "&labelSelector=app"} {
			events := s.watch("pods?watch=1&timeoutSeconds=10&resourceVersion=" + then + query).rest()
			require.Len(s.t, events, 1, "an ERROR event ends the watch")
			require.Equal(s.t, "ERROR", events[0].Type)
			require.Equal(s.t, "Status", events[0].Object.Kind)
			require.Equal(s.t, 410, events[0].Object.Code)
			require.Equal(s.t, metav1.StatusReasonExpired, events[0].Object.Reason)
		}
		resp, err := s.open(s.t.Context(), "GET", s.path("pods?watch=1&resourceVersion="+then), "", "Accept", proto)
		require.NoError(s.t, err)
		defer resp.Body.Close()
		kind, object := s.frame(resp)
		require.Equal(s.t, "ERROR", kind)
		var status metav1.Status
		require.Equal(s.t, "v1 Status", s.unwrap(object, &status))
		require.EqualValues(s.t, 410, status.Code)

		live := s.watch("pods?watch=1&resourceVersion=" + s.list("pods").Metadata.ResourceVersion)
		s.pods("f")
		require.Equal(s.t, "ADDED f", live.told(1))
	})
}
