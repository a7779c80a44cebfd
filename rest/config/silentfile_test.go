package config

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/reading"
)

// silent is a reader of files that waits for the test to provide their content.
type silent chan string

func (s silent) read(string) ([]byte, error) { return []byte(<-s), nil }

func TestLastTokenIsUsedWhileTheFileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newTokenFile(&Config{BearerTokenFile: "/far/token", BearerToken: "old", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		answer := make(silent)
		f.file = reading.New(f.log, []reading.File{{What: "bearer token", Path: f.path}}, answer.read, f.take)
		start := time.Now()
		for range 3 {
			cred, err := f.get(t.Context())
			require.NoError(t, err)
			require.Equal(t, "Bearer old", cred.authorization)
		}
		require.Equal(t, reading.Patience, time.Since(start), "nobody waits for what is known to be slow")
		require.Contains(t, log.String(), "/far/token")
		_, err := f.renew(t.Context(), credential{authorization: "Bearer old"})
		require.ErrorIs(t, err, reading.ErrSlow)
		require.ErrorContains(t, err, "waiting for bearer token in /far/token for 1s: it does not respond")

		answer <- "new"
		synctest.Wait()
		cred, err := f.get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Bearer new", cred.authorization)
	})
}

// A read that began before the server refused the token may return that token.
func TestRefusedTokenIsNotTakenFromAnOlderRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTokenFile(&Config{BearerTokenFile: "/far/token", BearerToken: "old"})
		answer := make(silent, 2)
		f.file = reading.New(f.log, []reading.File{{What: "bearer token", Path: f.path}}, answer.read, f.take)
		go func() { _, _ = f.get(t.Context()) }()
		synctest.Wait() // it is reading
		var cred credential
		renewed := make(chan error, 1)
		go func() {
			var err error
			cred, err = f.renew(t.Context(), credential{authorization: "Bearer old"})
			renewed <- err
		}()
		synctest.Wait()
		answer <- "old" // the content when the read began
		answer <- "new"
		require.NoError(t, <-renewed)
		require.Equal(t, "Bearer new", cred.authorization)
	})
}

func TestLastCertificatesAreUsedWhileAFileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		before, after := newAuthority(t, "before"), newAuthority(t, "after")
		n := newNetwork(&Config{Host: "https://127.0.0.1:1", TLS: TLS{CAFile: "/far/ca.crt"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		answer := make(silent, 1)
		n.files = reading.New(n.log, n.config.TLS.files(), answer.read, n.take)
		answer <- string(before.pem)
		first, err := n.transport(t.Context())
		require.NoError(t, err)

		time.Sleep(reloadInterval)
		hurried, cancel := context.WithTimeout(t.Context(), reading.Patience/2)
		defer cancel()
		_, err = n.transport(hurried)
		require.EqualError(t, err, "waiting for certificate authority in /far/ca.crt for 500ms: context deadline exceeded")
		start := time.Now()
		for range 3 {
			same, err := n.transport(t.Context())
			require.NoError(t, err)
			require.Same(t, first, same)
			require.False(t, n.reload(t.Context(), first))
			n.CloseIdleConnections()
		}
		require.Equal(t, reading.Patience/2, time.Since(start))
		require.Contains(t, log.String(), "/far/ca.crt")

		answer <- string(after.pem)
		synctest.Wait()
		second, err := n.transport(t.Context())
		require.NoError(t, err)
		pool := x509.NewCertPool()
		pool.AddCert(after.cert)
		require.True(t, pool.Equal(second.TLSClientConfig.RootCAs))
	})
}

// A plugin with ProvideClusterInfo waits for the file of the authority.
func TestPluginIsNotBlamedForAHangingFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakePlugin{output: tokens}
		s := f.source(io.Discard)
		s.config.Exec.ProvideClusterInfo = true
		answer := make(silent, 2)
		const path = "/far/ca.crt"
		s.authority = reading.New(s.log, []reading.File{{What: "certificate authority", Path: path}}, answer.read, s.take)
		_, err := s.get(t.Context())
		require.EqualError(t, err, `exec plugin "fake": waiting for certificate authority in `+path+` for 5m0s: it took longer than 5m0s`)
		require.Zero(t, f.runs)
		answer <- "pem"
		synctest.Wait()
		answer <- "pem" // each run gets it again
		cred, err := s.get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Bearer token-1", cred.authorization)
		require.Equal(t, "pem", string(s.caData))
	})
}
