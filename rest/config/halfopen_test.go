package config

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/redial"
)

// silentConn stops delivering the peer's data once it is cut, like a connection whose
// peer has lost power.
type silentConn struct {
	net.Conn
	cut    *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (c *silentConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.cut.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *silentConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// memoryListener accepts the far ends of pipes.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func TestTransportFindsHalfOpenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "ca")
		listener := &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
		s := &httptest.Server{
			Listener:    listener,
			EnableHTTP2: true,
			TLS:         ca.serverTLS(t),
			Config: &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(200)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})},
		}
		s.StartTLS()
		defer s.Close()
		var cut atomic.Bool
		client, base, err := (&Config{
			Host: "https://127.0.0.1:1",
			TLS:  TLS{CAData: ca.pem},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				listener.conns <- far
				return &silentConn{Conn: near, cut: &cut, closed: make(chan struct{})}, nil
			},
		}).HTTPClient()
		require.NoError(t, err)
		resp, err := client.Get(base.String())
		require.NoError(t, err)
		defer resp.Body.Close()

		// Answered pings keep a silent watch alive.
		ended := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(resp.Body)
			ended <- err
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Empty(t, ended)

		cut.Store(true)
		start := time.Now()
		require.Error(t, <-ended)
		require.LessOrEqual(t, time.Since(start), pingAfter+pingTimeout)
		client.CloseIdleConnections()
	})
}

// A marked request gets a connection of its own, which is closed after it.
func TestAMarkedRequestUsesANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "ca")
		listener := &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
		var dialed, open atomic.Int32
		s := &httptest.Server{
			Listener: listener, EnableHTTP2: true, TLS: ca.serverTLS(t),
			Config: &http.Server{
				ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
				Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }),
			},
		}
		s.StartTLS()
		defer s.Close()
		client, base, err := (&Config{
			Host: "https://127.0.0.1:1", TLS: TLS{CAData: ca.pem},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				listener.conns <- far
				dialed.Add(1)
				open.Add(1)
				return &closing{near, sync.OnceFunc(func() { open.Add(-1) })}, nil
			},
		}).HTTPClient()
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		for n, ctx := range []context.Context{t.Context(), t.Context(), redial.Mark(t.Context()), t.Context()} {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, "HTTP/2.0", string(text))
			synctest.Wait()
			require.EqualValues(t, 1+n/2, dialed.Load())
			require.EqualValues(t, 1, open.Load())
		}
	})
}

// closing is a connection that calls closed when it is closed.
type closing struct {
	net.Conn
	closed func()
}

func (c *closing) Close() error {
	c.closed()
	return c.Conn.Close()
}
