package serving_test

import (
	"bytes"
	"context"
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
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/serving"
)

// certificate writes a self-signed certificate and its key to a directory.
func certificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write(t, dir, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, dir, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) })

// pipe is an in-memory listener for a bubble.
type pipe chan net.Conn

func (p pipe) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipe) Close() error   { close(p); return nil }
func (p pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p pipe) dial() net.Conn {
	client, server := net.Pipe()
	p <- server
	return client
}

// name does a handshake and returns the name in the server's certificate.
func (p pipe) name(t *testing.T, cfg *tls.Config) (string, error) {
	t.Helper()
	cfg.InsecureSkipVerify = true
	c := tls.Client(p.dial(), cfg)
	defer c.NetConn().Close()
	if err := c.Handshake(); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		return "", err
	}
	if _, err := c.Read(make([]byte, 512)); err != nil { // with TLS 1.3, a rejected client certificate shows here
		return "", err
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestACertificateIsReadAgainWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		certificate(t, dir, "first")
		var logged bytes.Buffer
		p := make(pipe)
		s, err := serving.New(serving.Options{
			Name: "test", Listener: p, Handler: hello, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			TLS: &serving.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		serves := func(want string) {
			t.Helper()
			name, err := p.name(t, &tls.Config{})
			require.NoError(t, err)
			require.Equal(t, want, name)
		}
		serves("first")
		certificate(t, dir, "second")
		serves("first")
		time.Sleep(10 * time.Second)
		serves("second")
		write(t, dir, "tls.crt", []byte("half a certi"))
		time.Sleep(10 * time.Second)
		serves("second")
		time.Sleep(10 * time.Second)
		serves("second")
		certificate(t, dir, "third")
		time.Sleep(10 * time.Second)
		serves("third")
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("still using the last good contents")), "said once")
	})
}

// Check fails if clients cannot get through: before the server runs, when it ends, and
// when its certificate has expired because the files became unreadable.
func TestCheckReportsWhetherClientsCanConnect(t *testing.T) {
	for _, kind := range []string{"made", "files", "none"} {
		synctest.Test(t, func(t *testing.T) {
			opts := serving.Options{Name: kind, Listener: make(pipe), Handler: hello}
			dir := t.TempDir()
			switch kind {
			case "made":
				opts.TLS = &serving.TLS{}
			case "files":
				certificate(t, dir, "first")
				opts.TLS = &serving.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
			}
			s, err := serving.New(opts)
			require.NoError(t, err)
			require.EqualError(t, s.Check(), kind+" server: not serving")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			synctest.Wait()
			require.NoError(t, s.Check())
			if kind == "files" {
				write(t, dir, "tls.crt", []byte("half a certi"))
				time.Sleep(time.Minute)
				require.NoError(t, s.Check(), "the last one is still good")
			}
			if time.Sleep(110 * 365 * 24 * time.Hour); opts.TLS != nil {
				require.ErrorContains(t, s.Check(), kind+" server: the certificate has expired at 2")
			} else {
				require.NoError(t, s.Check())
			}
			cancel()
			require.NoError(t, <-ended)
			require.EqualError(t, s.Check(), kind+" server: not serving")
		})
	}
}

func TestClientMayTrustTheGeneratedCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := make(pipe)
		s, err := serving.New(serving.Options{Name: "test", Listener: p, Handler: hello, TLS: &serving.TLS{}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		handshake := func(trusted []byte, name string) error {
			roots := x509.NewCertPool()
			require.Equal(t, trusted != nil, roots.AppendCertsFromPEM(trusted))
			c := tls.Client(p.dial(), &tls.Config{RootCAs: roots, ServerName: name})
			defer c.NetConn().Close()
			return c.Handshake()
		}
		require.NoError(t, handshake(s.SelfSigned(), "127.0.0.1"))
		require.NoError(t, handshake(s.SelfSigned(), "localhost"))
		require.ErrorAs(t, handshake(s.SelfSigned(), "example.com"), new(x509.HostnameError))
		require.ErrorAs(t, handshake(nil, "127.0.0.1"), new(x509.UnknownAuthorityError))
		cancel()
		require.NoError(t, <-ended)
	})
	dir := t.TempDir()
	certificate(t, dir, "from files")
	s, err := serving.New(serving.Options{Name: "test", Address: ":0", Handler: hello, TLS: &serving.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}})
	require.NoError(t, err)
	require.Nil(t, s.SelfSigned())
}

func TestClientsWithoutARequiredCertificateAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		certificate(t, dir, "ours")
		certificate(t, other, "theirs")
		p := make(pipe)
		s, err := serving.New(serving.Options{
			Name: "test", Listener: p, Handler: hello, TLS: &serving.TLS{ClientCAFile: filepath.Join(dir, "tls.crt")},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		as := func(dir string) error {
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
			require.NoError(t, err)
			_, err = p.name(t, &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }})
			return err
		}
		_, err = p.name(t, &tls.Config{})
		require.Error(t, err)
		require.Error(t, as(other))
		require.NoError(t, as(dir))
		certificate(t, dir, "new")
		require.Error(t, as(dir))
		time.Sleep(10 * time.Second)
		require.NoError(t, as(dir), "the authorities are read again")
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestRequestsInProgressAreAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		want  string
	}{
		"in time":  {5 * time.Second, "HTTP/1.0 200 OK"},
		"too late": {time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := make(pipe)
				s, err := serving.New(serving.Options{Name: "test", Listener: p, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(c.takes)
					require.True(t, c.want == "" || r.Context().Err() == nil)
				})})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				conn := p.dial()
				defer conn.Close()
				_, err = conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
				require.NoError(t, err)
				time.Sleep(time.Second)
				cancel()
				answer := make([]byte, 512)
				n, _ := conn.Read(answer)
				require.Equal(t, c.want, string(answer[:min(n, len(c.want))]))
				require.NoError(t, <-ended)
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestBadOptionsSayWhatToChange(t *testing.T) {
	for want, opts := range map[string]serving.Options{
		"x server: no Handler":                  {Name: "x", Address: ":1"},
		`"8080" is not of the form host:port`:   {Name: "x", Address: "8080", Handler: hello},
		"CertFile and KeyFile belong together":  {Name: "x", Address: ":1", Handler: hello, TLS: &serving.TLS{KeyFile: "x"}},
		"no such file or directory: is the sec": {Name: "x", Address: ":1", Handler: hello, TLS: &serving.TLS{CertFile: "/nowhere/x", KeyFile: "/nowhere/y"}},
		"client authorities: ":                  {Name: "x", Address: ":1", Handler: hello, TLS: &serving.TLS{ClientCAFile: "/nowhere/x"}},
	} {
		_, err := serving.New(opts)
		require.ErrorContains(t, err, want)
	}
}
