package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/internal/reading"
)

// TLS configures HTTPS. The zero value uses a self-signed certificate that is generated at startup. The
// connection is then encrypted, but only clients that trust Server.SelfSigned can verify the server.
type TLS struct {
	// CertFile and KeyFile are reloaded when they change. Set both or neither.
	CertFile, KeyFile string

	// ClientCAFile, if set, restricts access to clients with a certificate signed by one of its CAs. It is
	// reloaded when it changes.
	ClientCAFile string

	// MinVersion is the minimum TLS version, such as tls.VersionTLS13. The default, and the lowest allowed,
	// is TLS 1.2.
	MinVersion uint16

	// CipherSuites are the cipher suites permitted with TLS 1.2, chosen from tls.CipherSuites. Nil means Go's
	// defaults. TLS 1.3 cipher suites cannot be configured.
	CipherSuites []uint16

	// DisableHTTP2 restricts the server to HTTP/1.1.
	DisableHTTP2 bool
}

// check returns an error if the options are invalid.
func (t *TLS) check() error {
	if (t.CertFile == "") != (t.KeyFile == "") {
		return errors.New("TLS: CertFile and KeyFile belong together: set both, or neither for a certificate generated at startup")
	}
	if t.MinVersion > tls.VersionTLS13 {
		return fmt.Errorf("TLS: MinVersion is %#04x, which is unknown: use tls.VersionTLS12 or tls.VersionTLS13", t.MinVersion)
	}
	for _, suite := range t.CipherSuites {
		if !slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.ID == suite }) {
			return fmt.Errorf("TLS: the cipher suite %s is unknown or insecure: choose from tls.CipherSuites", tls.CipherSuiteName(suite))
		}
	}
	// RFC 7540, section 9.2.2.
	required := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	if t.CipherSuites != nil && !t.DisableHTTP2 && t.MinVersion < tls.VersionTLS13 &&
		!slices.ContainsFunc(required, func(id uint16) bool { return slices.Contains(t.CipherSuites, id) }) {
		return errors.New("TLS: CipherSuites lacks a cipher suite required by HTTP/2: add tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or its ECDSA form, or set DisableHTTP2")
	}
	return nil
}

// protocols returns the HTTP versions the server supports.
func (t *TLS) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(!t.DisableHTTP2)
	return p
}

// served returns the certificate currently presented by c.
func served(c *tls.Config) (*x509.Certificate, error) {
	if c.GetCertificate == nil {
		return x509.ParseCertificate(c.Certificates[0].Certificate[0])
	}
	cert, err := c.GetCertificate(nil)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(cert.Certificate[0])
}

// checkCertificate returns an error if the certificate presented by c has expired or is not valid yet.
func checkCertificate(c *tls.Config, now time.Time) error {
	leaf, err := served(c)
	switch {
	case err != nil:
		return err
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate has expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// config builds the TLS configuration for net/http.
func (t *TLS) config(log *slog.Logger) (*tls.Config, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: max(t.MinVersion, tls.VersionTLS12), CipherSuites: slices.Clone(t.CipherSuites)}
	if t.CertFile == "" {
		cert, err := selfSigned(time.Now())
		if err != nil {
			return nil, fmt.Errorf("TLS: generate a certificate: %w", err)
		}
		log.Info("serving with a self-signed certificate: set CertFile and KeyFile for one that clients can verify")
		c.Certificates = []tls.Certificate{*cert}
	} else {
		pair, err := follow(log, func(files [][]byte) (*tls.Certificate, error) {
			cert, err := tls.X509KeyPair(files[0], files[1])
			return &cert, err
		}, reading.File{What: "certificate", Path: t.CertFile}, reading.File{What: "key", Path: t.KeyFile})
		if err != nil {
			return nil, fmt.Errorf("TLS: %w: is the secret mounted there?", err)
		}
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get(), nil }
	}
	if t.ClientCAFile == "" {
		return c, nil
	}
	authorities, err := follow(log, func(files [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(files[0]) {
			return nil, errors.New("no PEM certificate found")
		}
		return pool, nil
	}, reading.File{What: "client authorities", Path: t.ClientCAFile})
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = authorities.get()
	c.NextProtos = []string{"h2", "http/1.1"} // net/http sets them on c only, not on its clones
	if t.DisableHTTP2 {
		c.NextProtos = c.NextProtos[1:]
	}
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.Clone()
		now.ClientCAs = authorities.get()
		return now, nil
	}
	return c, nil
}

// selfSigned generates a certificate for this host and the loopback addresses.
func selfSigned(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: host},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{host, "localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
