package config

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfigFilesMustBeUsable(t *testing.T) {
	ca := newAuthority(t, "ca")
	cert, key := ca.issue(t, "x", time.Time{})
	_, otherKey := ca.issue(t, "y", time.Time{})
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		config Config
		want   string
	}{
		"no authority file": {Config{TLS: TLS{CAFile: filepath.Join(dir, "none")}}, "certificate authority: open " + dir},
		"authority is key":  {Config{TLS: TLS{CAData: key}}, "no certificate in the inline data"},
		"foreign key":       {Config{TLS: TLS{CertData: cert, KeyData: otherKey}}, "does not match"},
		"garbled key":       {Config{TLS: TLS{CertData: cert, KeyData: []byte("marked-secret")}}, "client certificate in the inline data"},
		"no token file":     {Config{BearerTokenFile: filepath.Join(dir, "token")}, "bearer token: open " + dir},
		"empty token file":  {Config{BearerTokenFile: writeFile(t, filepath.Join(dir, "empty"), []byte("\n"))}, "is empty"},
		"two-line token":    {Config{BearerTokenFile: writeFile(t, filepath.Join(dir, "two"), []byte("marked-secret\nb"))}, "more than one line"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.config.Host = "https://127.0.0.1:1"
			_, _, err := tc.config.HTTPClient()
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "marked-secret")
		})
	}
}

func TestTokenFileIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		path := writeFile(t, filepath.Join(t.TempDir(), "token"), []byte("one\n"))
		source, err := newCredentialSource(&Config{BearerTokenFile: path, BearerToken: "old", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		get := func() string {
			t.Helper()
			cred, err := source.get(t.Context())
			require.NoError(t, err)
			return cred.authorization
		}
		require.Equal(t, "Bearer one", get(), "the file goes before the inline token")
		writeFile(t, path, []byte("two"))
		time.Sleep(reloadInterval - 1)
		require.Equal(t, "Bearer one", get())
		time.Sleep(time.Nanosecond)
		require.Equal(t, "Bearer two", get())

		require.NoError(t, os.Remove(path))
		time.Sleep(reloadInterval)
		require.Equal(t, "Bearer two", get(), "the token stays in use while the file is gone")
		require.Contains(t, log.String(), path)
		require.NotContains(t, log.String(), "two")

		writeFile(t, path, []byte("three"))
		cred, err := source.renew(t.Context(), credential{authorization: "Bearer two"})
		require.NoError(t, err)
		require.Equal(t, "Bearer three", cred.authorization)
		writeFile(t, path, []byte("four"))
		cred, err = source.renew(t.Context(), credential{authorization: "Bearer two"})
		require.NoError(t, err)
		require.Equal(t, "Bearer three", cred.authorization, "the refused token had been replaced already")
	})
}

// An endless file is rejected without filling the memory.
func TestFilesAreBounded(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("needs /dev/zero")
	}
	for _, c := range []Config{{Host: "x", BearerTokenFile: "/dev/zero"}, {Host: "x", TLS: TLS{CAFile: "/dev/zero"}}} {
		_, _, err := c.HTTPClient()
		require.ErrorContains(t, err, "/dev/zero is larger than")
	}
	_, err := LoadWith(LoadOptions{Kubeconfig: "/dev/zero"})
	require.ErrorContains(t, err, "/dev/zero is larger than")
}
