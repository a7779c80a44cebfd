package serving

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener for in-memory connections.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// On HTTP/2, headers may have many frames. Endless headers hit the timeout for idle
// connections.
func TestHeadersThatNeverEndOnHTTP2(t *testing.T) {
	for name, trickle := range map[string]bool{"nothing more": false, "a frame now and then": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				s, err := New(Options{Name: "x", Listener: l, TLS: &TLS{}, Handler: http.NotFoundHandler()})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				near, far := net.Pipe()
				l.conns <- far
				conn := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
				require.NoError(t, conn.Handshake())
				began, closed := time.Now(), make(chan time.Time, 1)
				go func() {
					_, _ = io.Copy(io.Discard, conn)
					closed <- time.Now()
				}()
				write := func(text string) error {
					_, err := io.WriteString(conn, text)
					return err
				}
				require.NoError(t, write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
				require.NoError(t, write("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))                         // SETTINGS
				require.NoError(t, write("\x00\x00\x06\x01\x01\x00\x00\x00\x01"+"\x82\x87\x84\x41\x01x")) // HEADERS without END_HEADERS
				for len(closed) == 0 && time.Since(began) < 2*idlePatience {
					time.Sleep(5 * time.Second)
					if trickle {
						_ = write("\x00\x00\x00\x09\x00\x00\x00\x00\x01") // CONTINUATION
					}
				}
				require.Len(t, closed, 1, "it was not broken off")
				require.LessOrEqual(t, (<-closed).Sub(began), idlePatience+2*time.Second)
				conn.Close()
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}
