package serving_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/serving"
)

// A foreign host name that points at the loopback interface is rejected there.
func TestForeignNameIsNotLocal(t *testing.T) {
	s, err := serving.New(serving.Options{Name: "debug", Address: "127.0.0.1:0", Handler: serving.Local(hello)})
	require.NoError(t, err)
	require.NoError(t, s.Listen())
	at := s.Addr().String()
	_, port, err := net.SplitHostPort(at)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for host, want := range map[string]int{
		at: 200, "localhost": 200, "localhost:" + port: 200, "LocalHost.:" + port: 200, "127.8.9.1": 200,
		"[::1]:" + port: 200, "[::1]": 200, "[::ffff:127.0.0.1]:1": 200,
		"10.0.0.1": 200, "[fd00::1]:" + port: 200, // as a proxy on this machine passes on
		"evil.example": 403, "evil.example:" + port: 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:" + port: 403,
		"0.0.0.0:" + port: 403, "[::]:" + port: 403, "127.1": 403, "[localhost]:x:" + port: 403, "@127.0.0.1": 400,
	} {
		code, body := ask(t, at, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		require.Equal(t, want, code, "%q: %s", host, body)
		if want == 403 {
			require.Equal(t, fmt.Sprintf("This is for programs on this machine, and the request asked for the host %q, which a web page elsewhere may have given this address. Ask for http://%s instead.\n", host, at), body)
		}
	}
	code, _ := ask(t, at, "GET / HTTP/1.0\r\n\r\n")
	require.Equal(t, 200, code, "a browser names a host")
	cancel()
	require.NoError(t, <-ended)
}

// ask sends a raw request.
func ask(t *testing.T, at, request string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, request)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// At other interfaces and in memory, all names are accepted.
func TestOtherInterfacesAcceptAllNames(t *testing.T) {
	for _, at := range []net.Addr{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, &net.UnixAddr{Name: "/run/x"}, nil} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, at)
		w := httptest.NewRecorder()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.example/", nil)
		require.NoError(t, err)
		serving.Local(hello).ServeHTTP(w, r)
		require.Equal(t, "hello", w.Body.String())
	}
}
