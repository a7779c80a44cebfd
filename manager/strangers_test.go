package manager_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
)

// Odd paths and methods on the metrics and probe ports do not reach anything else.
func TestOddRequestsReachNothingElse(t *testing.T) {
	metrics, health := freePort(t), freePort(t)
	m, err := manager.New(&config.Config{Host: "http://127.0.0.1:1"}, manager.Options{Scheme: sharedScheme(), MetricsBindAddress: metrics, HealthProbeBindAddress: health})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	started := make(chan struct{})
	require.NoError(t, m.Add(manager.RunnableFunc(func(context.Context) error { close(started); return nil })))
	go func() { ended <- m.Run(ctx) }()
	<-started
	for _, address := range []string{metrics, health} {
		for _, line := range []string{
			"GET /debug/status", "GET /debug/pprof/", "GET //debug/status", "GET /metrics/../debug/status", "GET /healthz/../debug/status",
			"GET /healthz/%2e%2e/debug/status", "GET /%64ebug/status", "GET /healthz/..;/debug/status", "GET http://localhost/debug/status",
			"CONNECT /debug/status", "CONNECT localhost:80", "OPTIONS *", "TRACE /debug/status", "POST /debug/pprof/profile",
		} {
			code, body := ask(t, address, line)
			require.NotContains(t, body, "goroutine", line)
			require.NotContains(t, body, "State", line)
			require.NotEqual(t, http.StatusInternalServerError, code, line)
			if code == http.StatusOK {
				require.Empty(t, body, line) // net/http itself answers OPTIONS *
			}
		}
	}
	cancel()
	require.NoError(t, <-ended)
}

// ask sends a request exactly as given. It does not follow redirects.
func ask(t *testing.T, address, line string) (code int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, line+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}
