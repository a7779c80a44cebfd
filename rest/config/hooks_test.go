package config

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// net/http dials in its own goroutine: a panic there would end the process, and after a
// Goexit, the request would wait forever.
func TestDialerMayPanicExitOrReturnNothing(t *testing.T) {
	for name, c := range map[string]struct {
		dial func(context.Context, string, string) (net.Conn, error)
		want string
	}{
		"panics": {func(context.Context, string, string) (net.Conn, error) { panic("oh") }, "Config.Dial panicked: oh"},
		"exits":  {func(context.Context, string, string) (net.Conn, error) { runtime.Goexit(); return nil, nil }, "Config.Dial called runtime.Goexit"},
		"lies":   {func(context.Context, string, string) (net.Conn, error) { return nil, nil }, "Config.Dial returned no connection, and no error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				client, base, err := (&Config{Host: "http://far", Dial: c.dial}).HTTPClient()
				require.NoError(t, err)
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
				require.NoError(t, err)
				_, err = client.Do(req)
				require.ErrorContains(t, err, c.want)
			})
		})
	}
}

func TestWrappedTransportMayPanicOrReturnNothing(t *testing.T) {
	for name, c := range map[string]struct {
		trip roundTrip
		want string
	}{
		"panics":         {func(*http.Request) (*http.Response, error) { panic("oh") }, "Config.WrapTransport panicked: oh"},
		"nothing":        {func(*http.Request) (*http.Response, error) { return nil, nil }, "RoundTripper of Config.WrapTransport returned no response, and no error"},
		"without a body": {func(r *http.Request) (*http.Response, error) { return &http.Response{StatusCode: 401, Request: r}, nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &Config{Host: "http://far", WrapTransport: func(http.RoundTripper) http.RoundTripper { return c.trip }}
			code, _, err := fetch(t, cfg, "/")
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, 401, code)
				return
			}
			require.ErrorContains(t, err, c.want)
			_, panicked := errors.AsType[*failure.PanicError](err)
			require.Equal(t, name == "panics", panicked)
		})
	}
}

// endless is a body that starts and then hangs.
type endless struct{ closed chan struct{} }

func (e endless) Read([]byte) (int, error) { <-e.closed; return 0, io.ErrClosedPipe }
func (e endless) Close() error             { close(e.closed); return nil }

// A proxy may send a 401 and then nothing more.
func TestWaitForTheRestOfARefusalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trip := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Authorization") == "Bearer new" {
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
			}
			return &http.Response{StatusCode: 401, Body: endless{make(chan struct{})}, Request: r}, nil
		})
		base := httptest.NewRequest(http.MethodGet, "http://far", nil).URL
		cfg := &Config{}
		auth := newAuthTransport(cfg, base, &oldAndNew{}, trip, &network{config: cfg, log: cfg.logger()})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://far/x", nil)
		require.NoError(t, err)
		resp, err := auth.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

// oldAndNew is a source with another credential after the first is refused.
type oldAndNew struct{}

func (oldAndNew) get(context.Context) (credential, error) {
	return credential{authorization: "Bearer old"}, nil
}
func (oldAndNew) renew(context.Context, credential) (credential, error) {
	return credential{authorization: "Bearer new"}, nil
}
