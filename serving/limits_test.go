package serving_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/serving"
)

// serve runs a server until body returns. If a connection stays open, its goroutine
// fails the bubble.
func serve(t *testing.T, h http.HandlerFunc, body func(t *testing.T, p pipe, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := make(pipe)
		s, err := serving.New(serving.Options{Name: "test", Listener: p, Handler: h, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait() // until it serves and has logged that
		body(t, p, &log)
		cancel()
		require.NoError(t, <-ended)
	})
}

// broken returns how long the server takes to close a connection after the client sent
// this.
func broken(t *testing.T, conn net.Conn, sent string) time.Duration {
	t.Helper()
	began := time.Now()
	_, err := io.WriteString(conn, sent)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, conn)
	require.NoError(t, err)
	return time.Since(began)
}

func TestSlowConnectionIsClosed(t *testing.T) {
	reads := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	ignores := func(http.ResponseWriter, *http.Request) {}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		sent    string
		want    time.Duration
	}{
		"no header":                    {reads, "", 10 * time.Second},
		"half a header":                {reads, "GET / HT", 10 * time.Second},
		"half a body":                  {reads, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", 30 * time.Second},
		"half a body that nobody asks": {ignores, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", 30 * time.Second},
		"half a chunked body":          {ignores, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf", 30 * time.Second},
		"no second request":            {reads, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 90 * time.Second},
		"no request after a body":      {reads, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", 90 * time.Second},
		"a long header":                {reads, "GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("a", 60<<10), 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, c.handler, func(t *testing.T, p pipe, _ *bytes.Buffer) {
				conn := p.dial()
				defer conn.Close()
				require.InDelta(t, c.want, broken(t, conn, c.sent), float64(time.Second))
			})
		})
	}
}

func TestTheContextOfASlowHandlerOutlivesTheDeadlineOfItsBody(t *testing.T) {
	serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		select {
		case <-r.Context().Done():
			t.Error("the client waits, and was taken for gone")
		case <-time.After(time.Minute):
		}
	}, func(t *testing.T, p pipe, _ *bytes.Buffer) {
		conn := p.dial()
		defer conn.Close()
		_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

func TestUnreadAnswerIsAborted(t *testing.T) {
	var began, failed time.Time
	serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			failed = time.Now()
		}
	}, func(t *testing.T, p pipe, _ *bytes.Buffer) {
		conn := p.dial()
		defer conn.Close()
		began = time.Now()
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		require.NoError(t, err)
		time.Sleep(time.Hour)
	})
	require.Equal(t, 2*time.Minute, failed.Sub(began))
}

func TestHeadersAreLimited(t *testing.T) {
	serve(t, hello, func(t *testing.T, p pipe, _ *bytes.Buffer) {
		conn := p.dial()
		defer conn.Close()
		go func() {
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nA: "+strings.Repeat("a", 100<<10)+"\r\n\r\n")
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
	})
}

func TestAPanicIsLoggedWithItsStack(t *testing.T) {
	serve(t, func(http.ResponseWriter, *http.Request) { panic("boom") }, func(t *testing.T, p pipe, log *bytes.Buffer) {
		conn := p.dial()
		defer conn.Close()
		require.Zero(t, broken(t, conn, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.Contains(t, log.String(), `msg="a handler panicked" server=test path=/x panic=boom stack=`)
		require.Contains(t, log.String(), "TestAPanicIsLoggedWithItsStack.func1")
	})
}
