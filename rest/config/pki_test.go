package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority is a certificate authority for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Unix(0, 0),
		NotAfter:              time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert: cert, key: key, pem: pemText("CERTIFICATE", der)}
}

// issue returns a certificate and key for a common name, valid for the loopback
// address and the given host names. A zero end means the year 2100.
func (a *authority) issue(t testing.TB, name string, end time.Time, hosts ...string) (certPEM, keyPEM []byte) {
	t.Helper()
	if end.IsZero() {
		end = a.cert.NotAfter
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     end,
		DNSNames:     hosts,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(hosts) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pemText("CERTIFICATE", der), pemText("PRIVATE KEY", keyDER)
}

func pemText(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// serveTLS starts a server with a certificate of this authority. Like the API server,
// it requests client certificates without requiring them.
func (a *authority) serveTLS(t testing.TB, h http.HandlerFunc, hosts ...string) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = a.serverTLS(t, hosts...)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // some handshakes are meant to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (a *authority) serverTLS(t testing.TB, hosts ...string) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t, "server", time.Time{}, hosts...))
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
}

func writeFile(t testing.TB, path string, data []byte) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// fetch sends a GET for path and returns the status and the body.
func fetch(t testing.TB, c *Config, path string) (int, string, error) {
	t.Helper()
	client, base, err := c.HTTPClient()
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	return fetchWith(t, client, base.String()+path)
}

func fetchWith(t testing.TB, client *http.Client, url string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var body [64 << 10]byte
	n := 0
	for n < len(body) {
		m, err := resp.Body.Read(body[n:])
		n += m
		if err != nil {
			break
		}
	}
	return resp.StatusCode, string(body[:n]), nil
}
