package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

// memory is a listener with in-memory connections.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}
func (m *memory) Close() error   { m.once.Do(func() { close(m.closed) }); return nil }
func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (m *memory) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	m.conns <- server
	return client, nil
}

// The demonstration is a complete program: its page shows a controller that fails now and then, a
// handler that lags, and objects.
func TestDemoCanBeInspected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
		var stdout, stderr debugtest.Transcript
		s := around(&stdout, &stderr)
		s.program = "./bin/informer-debug"
		s.listenPage = func() (net.Listener, error) { return page, nil }
		ended := make(chan int, 1)
		go func() { ended <- run(t.Context(), []string{"demo", "--duration", "1m", "--rate", "10"}, s) }()
		transport := &http.Transport{DialContext: page.dial}
		client := debug.Attach("http://127.0.0.1:1", &http.Client{Transport: transport})
		behind, failed := time.Duration(0), uint64(0)
		for range 52 { // a fault comes at 55 s
			time.Sleep(time.Second)
			status, err := client.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, "demo", status.Process.Program)
			for _, h := range status.Informers[0].Handlers {
				behind = max(behind, h.Behind)
			}
			failed = status.Controllers[0].Errors
		}
		require.Greater(t, behind, time.Second)
		require.NotZero(t, failed)
		objects, err := client.Objects(t.Context(), debug.Which{Informer: "pods"}, debug.Page{})
		require.NoError(t, err)
		why, err := client.Why(t.Context(), "pods", "", object.Key{Namespace: objects.Heads[0].Namespace, Name: objects.Heads[0].Name})
		require.NoError(t, err)
		require.Regexp(t, "janitor|auditor", why.Reasons[0].Text)
		require.Equal(t, exit.CodeOK, <-ended, stderr.String())
		transport.CloseIdleConnections()
		require.Contains(t, stderr.String(), "page          http://127.0.0.1:1/debug/millrace/")
		require.Contains(t, stderr.String(), "try           ./bin/informer-debug top --attach http://127.0.0.1:1")
	})
}
