//go:build unix

package config

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/source"
)

// silence replaces a file by one that can be opened but whose reads hang. It returns a
// function that waits for a read and returns the file that takes the content.
func silence(t *testing.T, path string) (reading func() *os.File) {
	t.Helper()
	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	return func() *os.File {
		answer, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = answer.Close() })
		return answer
	}
}

func TestHangingTokenFileDelaysNoRequest(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer two" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	path := writeFile(t, filepath.Join(t.TempDir(), "token"), []byte("one"))
	client, base, err := (&Config{Host: s.URL, BearerTokenFile: path}).HTTPClient()
	require.NoError(t, err)
	reading := silence(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
		if err == nil {
			_, err = client.Do(req)
		}
		ended <- err
	}()
	answer := reading()
	cancel()
	err = <-ended
	stuck, ok := errors.AsType[*source.StuckError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "bearer token in "+path, stuck.What)
	require.ErrorIs(t, err, errRefused)
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, os.Remove(path)) // the old file is still being read
	writeFile(t, path, []byte("two"))
	_, err = answer.WriteString("two")
	require.NoError(t, err)
	require.NoError(t, answer.Close())
	status, _, err := fetchWith(t, client, base.String())
	require.NoError(t, err)
	require.Equal(t, 200, status)
}

func TestHangingCertificateFileDelaysNoRequest(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := ca.serveTLS(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	path := writeFile(t, filepath.Join(t.TempDir(), "ca.crt"), ca.pem)
	client, base, err := (&Config{Host: s.URL, TLS: TLS{CAFile: path}}).HTTPClient()
	require.NoError(t, err)
	reading := silence(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
		if err == nil {
			var resp *http.Response
			if resp, err = client.Do(req); err == nil {
				err = resp.Body.Close()
			}
		}
		ended <- err
	}()
	reading()
	cancel()
	require.NoError(t, <-ended, "the answer that the server gave")
	client.CloseIdleConnections()
}
