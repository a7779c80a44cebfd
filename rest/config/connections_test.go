package config

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A watch would otherwise continue as the former user. Shorter requests end before.
func TestConnectionsOfAReplacedCertificateAreClosed(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	for name, tc := range map[string]struct {
		plugin bool
		user   string // in the certificate afterwards
		want   error  // of a watch opened before
	}{
		"files":                  {false, "bob", errCertificateReplaced},
		"an exec plugin":         {true, "bob", errCertificateReplaced},
		"the authorities change": {false, "alice", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
				s := &httptest.Server{Listener: listener, EnableHTTP2: true, TLS: ca.serverTLS(t), Config: &http.Server{
					ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
						_ = http.NewResponseController(w).Flush()
						if r.URL.Path == "/watch" {
							<-r.Context().Done()
							return
						}
						time.Sleep(reloadInterval + headTimeout - 1)
					})}}
				s.StartTLS()
				t.Cleanup(s.Close)
				c := &Config{Host: "https://127.0.0.1:1", Dial: func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					listener.conns <- far
					return near, nil
				}}
				dir := t.TempDir()
				c.TLS.CAFile = writeFile(t, filepath.Join(dir, "ca.crt"), ca.pem)
				cert, key := ca.issue(t, "alice", time.Time{})
				var fromExec *tls.Certificate
				show := func() {
					if tc.plugin {
						pair, err := tls.X509KeyPair(cert, key)
						require.NoError(t, err)
						fromExec = &pair
						return
					}
					c.TLS.CertFile, c.TLS.KeyFile = writeFile(t, filepath.Join(dir, "tls.crt"), cert), writeFile(t, filepath.Join(dir, "tls.key"), key)
				}
				show()
				n := newNetwork(c)
				if tc.plugin {
					n.execCertificate = func() *tls.Certificate { return fromExec }
				}
				client := &http.Client{Transport: n}
				get := func(path string) (user string, ended chan error) {
					resp, err := client.Get(c.Host + path)
					require.NoError(t, err)
					t.Cleanup(func() { resp.Body.Close() })
					text := make([]byte, 16)
					k, err := resp.Body.Read(text)
					require.NoError(t, err)
					ended = make(chan error, 1)
					go func() {
						_, err := io.ReadAll(resp.Body)
						ended <- err
					}()
					return string(text[:k]), ended
				}
				user, former := get("/watch")
				require.Equal(t, "alice", user)
				_, short := get("/slow")

				if tc.user == "alice" {
					writeFile(t, c.TLS.CAFile, append(ca.pem, other.pem...))
				} else {
					cert, key = ca.issue(t, tc.user, time.Time{})
					show()
				}
				time.Sleep(reloadInterval)
				user, now := get("/watch")
				require.Equal(t, tc.user, user)
				time.Sleep(headTimeout - 1)
				synctest.Wait()
				require.NoError(t, <-short)
				require.Empty(t, former)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if tc.want != nil {
					require.Len(t, former, 1)
					require.ErrorIs(t, <-former, tc.want)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Empty(t, former)
				require.Empty(t, now)
			})
		})
	}
}
