package serving_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/serving"
)

// started runs a server until the returned function is called, which returns how Run
// ended. It returns when the server serves.
func started(t *testing.T, s *serving.Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.Check() == nil }, 10*time.Second, time.Millisecond)
	return func() error { cancel(); return <-ended }
}

func TestAServerMayRunAgain(t *testing.T) {
	s, err := serving.New(serving.Options{Name: "x", Address: "127.0.0.1:0", Handler: hello})
	require.NoError(t, err)
	for range 2 {
		stop := started(t, s)
		resp, err := http.Get("http://" + s.Addr().String())
		require.NoError(t, err)
		resp.Body.Close()
		require.ErrorIs(t, s.Run(t.Context()), serving.ErrRunning)
		require.NoError(t, s.Check(), "the other Run goes on")
		require.NoError(t, stop())
		require.Error(t, s.Check())
	}
	require.NoError(t, s.Listen())
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Nil(t, s.Addr())
}

func TestAServerWithAListenerRunsOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := serving.New(serving.Options{Name: "x", Listener: l, Handler: hello})
	require.NoError(t, err)
	require.NoError(t, started(t, s)())
	require.ErrorContains(t, s.Run(t.Context()), "x server: its Listener was closed when it ran: use Address")
	require.NoError(t, s.Close())
}

func TestAHandlerThatEndsItsGoroutineIsLogged(t *testing.T) {
	serve(t, func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, func(t *testing.T, p pipe, log *bytes.Buffer) {
		conn := p.dial()
		defer conn.Close()
		require.Zero(t, broken(t, conn, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.Contains(t, log.String(), `msg="a handler called runtime.Goexit, as FailNow of a test does" server=test path=/x`)
	})
}

func TestAccessOfNothingIsFoundAtOnce(t *testing.T) {
	defer func() { require.Contains(t, recover(), "serving/again_test.go:") }()
	serving.Access(nil, nil, nil)
}
