package clientgo_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// An address that is not a URL may contain a password.
func TestNoErrorQuotesAnAddress(t *testing.T) {
	told := &api.ExecConfig{Command: "none", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode, ProvideClusterInfo: true}
	for _, host := range []string{"https://me:s3cr3t@host:bad", "https://me:s3cr3t%zz@host", "https://host/?token=s3cr3t", "https://me:s3cr3t@host"} {
		for name, cfg := range map[string]*clientrest.Config{
			"plain": {Host: host},
			"a plugin is told of the server and proxy": {Host: host, Proxy: http.ProxyFromEnvironment, ExecProvider: told},
		} {
			_, err := clientgo.FromConfig(cfg)
			require.ErrorContains(t, err, "the server's address", name)
			require.NotContains(t, err.Error(), "s3cr3t", name)
			_, err = clientgo.NewSharedInformerFactoryForConfig(cfg, 0)
			require.ErrorContains(t, err, "the server's address", name)
			require.NotContains(t, err.Error(), "s3cr3t", name)
		}
	}
}

// client-go wraps the transport that has the connections.
func TestIdleConnectionsAreClosed(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c, err := clientgo.FromConfig(&clientrest.Config{Host: s.URL, BearerToken: "t0ken"})
	require.NoError(t, err)
	for range 2 {
		_, err := c.Raw(t.Context(), "/version")
		require.NoError(t, err)
		c.CloseIdleConnections()
	}
	require.EqualValues(t, 2, opened.Load())
}

// requests counts requests as rest_client_requests_total does.
type requests map[string]int

func (r requests) Increment(_ context.Context, code, method, _ string) { r[code+" "+method]++ }

// Requests are in client-go's metric, although client-go counts them above the transport.
func TestRequestsAreCounted(t *testing.T) {
	counted := requests{}
	before := clientmetrics.RequestResult
	clientmetrics.RequestResult = counted
	t.Cleanup(func() { clientmetrics.RequestResult = before })
	s := httptest.NewServer(http.NotFoundHandler())
	c, err := clientgo.FromConfig(&clientrest.Config{Host: s.URL})
	require.NoError(t, err)
	_, err = c.Raw(t.Context(), "/version")
	require.Error(t, err)
	s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Raw(ctx, "/version")
	require.Error(t, err)
	require.Equal(t, 1, counted["404 GET"], "%v", counted)
	require.NotZero(t, counted["<error> GET"], "%v", counted)
}
