package protocol

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/test/apiserver"
	"github.com/millrace-dev/millrace/test/envtest"
)

// TestExpired compacts the history and restarts the server, so it has servers
// of its own.
func TestExpired(t *testing.T) {
	t.Run("simulated", func(t *testing.T) {
		t.Parallel()
		srv := apiserver.New(apiserver.Options{})
		defer srv.Close()
		endpoint, err := srv.Listen(apiserver.ListenOptions{TLS: true})
		require.NoError(t, err)
		s := &target{name: "simulated", url: endpoint.URL, client: trusting(endpoint.CA)}
		testExpired(&session{target: s, t: t, ns: "default"}, func() {
			srv.Compact()
			srv.Restart()
		})
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		srv := envtest.Start(t, envtest.Options{})
		s := &target{name: "real", url: srv.URL, admin: srv.AdminToken, client: trusting(srv.CA)}
		testExpired(&session{target: s, t: t, ns: "default"}, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			_, err := srv.Compact(ctx)
			require.NoError(t, err)
			srv.Kill()
			require.NoError(t, srv.Restart(ctx))
		})
	})
}

func testExpired(s *session, expire func()) {
	old := s.pods("a", "b", "c")
	first := s.list("pods?limit=1")
	open := s.watch("pods?watch=1&resourceVersion=" + old)
	s.merge("pods/a", `{"metadata":{"labels":{"x":"y"}}}`)
	s.pods("bb")
	require.Equal(s.t, "MODIFIED a, ADDED bb", open.told(2))
	expire()
	for open.lines.Scan() {
		s.t.Errorf("after the restart: %s", open.lines.Bytes())
	}

	events := s.watch("pods?watch=1&resourceVersion=" + old).rest()
	require.Len(s.t, events, 1)
	require.Equal(s.t, "ERROR", events[0].Type)
	require.Equal(s.t, 410, events[0].Object.Code)
	require.Equal(s.t, metav1.StatusReasonExpired, events[0].Object.Reason)
	require.Regexp(s.t, `^too old resource version: \d+ \(\d+\)$`, events[0].Object.Message)

	code, raw := s.do("GET", "pods?resourceVersionMatch=Exact&resourceVersion="+old, "")
	require.Equal(s.t, 410, code)
	require.Equal(s.t, "410 Expired The resourceVersion for the provided list is too old.", summary(parse[item](s.t, raw), ""))

	_, raw = s.do("GET", "pods?limit=1&continue="+url.QueryEscape(first.Metadata.Continue), "")
	status := parse[metav1.Status](s.t, raw)
	require.EqualValues(s.t, 410, status.Code)
	require.Equal(s.t, metav1.StatusReasonExpired, status.Reason)
	require.NotEmpty(s.t, status.Continue)
	rest := s.list("pods?limit=2&continue=" + url.QueryEscape(status.Continue))
	require.Equal(s.t, "b bb", rest.names(), "the rest of the present state")
	require.Equal(s.t, "c", s.list("pods?limit=2&continue="+url.QueryEscape(rest.Metadata.Continue)).names())
}
