package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTransportSpeaksHTTP2AndNamesItself(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join([]string{r.Proto, r.URL.Path, r.UserAgent(), r.Header.Get("Accept-Encoding"), r.Header.Get("Authorization")}, "|"))
	})
	c := &Config{Host: s.URL + "/prefix/", TLS: TLS{CAData: ca.pem}}
	status, body, err := fetch(t, c, "/api")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	parts := strings.Split(body, "|")
	require.Equal(t, "HTTP/2.0", parts[0])
	require.Equal(t, "/prefix/api", parts[1])
	require.Regexp(t, `^config\.test millrace/\S+ \(\w+/\w+\)$`, parts[2])
	require.Empty(t, parts[3], "gzip was not asked for")
	require.Empty(t, parts[4])

	c.UserAgent, c.AcceptGzip, c.Username, c.Password = "mine/1", true, "me", "pass"
	_, body, err = fetch(t, c, "/api")
	require.NoError(t, err)
	require.Equal(t, "HTTP/2.0|/prefix/api|mine/1|gzip|Basic bWU6cGFzcw==", body)
}

func TestTransportFallsBackToHTTP1(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }
	plain := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(plain.Close)
	_, body, err := fetch(t, &Config{Host: strings.TrimPrefix(plain.URL, "http://")}, "/")
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1", body)

	ca := newAuthority(t, "ca")
	s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	s.TLS = ca.serverTLS(t)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, body, err = fetch(t, &Config{Host: s.URL, TLS: TLS{CAData: ca.pem}}, "/")
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1", body)
}

func TestTransportVerifiesTheServer(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	s := ca.serveTLS(t, func(http.ResponseWriter, *http.Request) {}, "api.internal")
	for name, tc := range map[string]struct {
		tls  TLS
		want string
	}{
		"wrong name":      {TLS{CAData: ca.pem}, "tls-server-name"},
		"other name":      {TLS{CAData: ca.pem, ServerName: "api.external"}, "api.internal, not api.external"},
		"right name":      {TLS{CAData: ca.pem, ServerName: "api.internal"}, ""},
		"wrong authority": {TLS{CAData: other.pem, ServerName: "api.internal"}, "check the server's address, the certificate authority"},
		"system's":        {TLS{ServerName: "api.internal"}, "unknown authority"},
		"insecure":        {TLS{Insecure: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := fetch(t, &Config{Host: s.URL, TLS: tc.tls}, "/")
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			_, ok := errors.AsType[*tls.CertificateVerificationError](err)
			require.True(t, ok)
		})
	}
}

func TestTransportRefusesOldTLS(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = ca.serverTLS(t)
	s.TLS.MinVersion, s.TLS.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, _, err := fetch(t, &Config{Host: s.URL, TLS: TLS{CAData: ca.pem}}, "/")
	require.ErrorContains(t, err, "protocol version")
}

func TestTransportFollowsTheAuthorityFile(t *testing.T) {
	before, after := newAuthority(t, "before"), newAuthority(t, "after")
	hello := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") }
	path := writeFile(t, filepath.Join(t.TempDir(), "ca.crt"), before.pem)
	s := httptest.NewUnstartedServer(http.HandlerFunc(hello))
	var current atomic.Pointer[tls.Config]
	current.Store(before.serverTLS(t))
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.Load(), nil }}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	client, base, err := (&Config{Host: s.URL, TLS: TLS{CAFile: path}}).HTTPClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	_, body, err := fetchWith(t, client, base.String())
	require.NoError(t, err)
	require.Equal(t, "hello", body)

	current.Store(after.serverTLS(t))
	client.CloseIdleConnections()
	_, _, err = fetchWith(t, client, base.String())
	require.ErrorContains(t, err, "unknown authority")

	// Half a file: the old content stays in use, and the request fails as before.
	writeFile(t, path, after.pem[:40])
	_, _, err = fetchWith(t, client, base.String())
	require.ErrorContains(t, err, "unknown authority")

	writeFile(t, path, after.pem)
	_, body, err = fetchWith(t, client, base.String())
	require.NoError(t, err, "the changed file was not read when the certificate was refused")
	require.Equal(t, "hello", body)
}

func TestTransportFollowsTheClientCertificate(t *testing.T) {
	ca := newAuthority(t, "ca")
	accepted := "alice"
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		if name != accepted {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, name)
	})
	dir := t.TempDir()
	cert, key := ca.issue(t, "alice", time.Time{})
	c := &Config{Host: s.URL, TLS: TLS{
		CAData:   ca.pem,
		CertFile: writeFile(t, filepath.Join(dir, "tls.crt"), cert),
		KeyFile:  writeFile(t, filepath.Join(dir, "tls.key"), key),
	}}
	client, base, err := c.HTTPClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	status, body, err := fetchWith(t, client, base.String())
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, "alice", body)

	accepted = "bob"
	status, body, err = fetchWith(t, client, base.String())
	require.NoError(t, err)
	require.Equal(t, 401, status)
	require.Equal(t, "alice", body)

	cert, key = ca.issue(t, "bob", time.Time{})
	writeFile(t, c.TLS.CertFile, cert)
	writeFile(t, c.TLS.KeyFile, key)
	status, body, err = fetchWith(t, client, base.String())
	require.NoError(t, err)
	require.Equal(t, 200, status, "the new certificate was not used after a 401")
	require.Equal(t, "bob", body)
}

// A request is sent again even if another one noticed the new certificate first.
func TestEachRequestUsesTheNewClientCertificate(t *testing.T) {
	ca := newAuthority(t, "ca")
	var accepted atomic.Value
	accepted.Store("alice")
	arrived, refuse := make(chan struct{}), make(chan struct{})
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		if r.URL.Path == "/slow" && name == "alice" {
			close(arrived)
			<-refuse
		}
		if name != accepted.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	dir := t.TempDir()
	cert, key := ca.issue(t, "alice", time.Time{})
	c := &Config{Host: s.URL, TLS: TLS{
		CAData:   ca.pem,
		CertFile: writeFile(t, filepath.Join(dir, "tls.crt"), cert),
		KeyFile:  writeFile(t, filepath.Join(dir, "tls.key"), key),
	}}
	client, base, err := c.HTTPClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	slow := make(chan int)
	go func() {
		status, _, _ := fetchWith(t, client, base.String()+"/slow")
		slow <- status
	}()
	<-arrived
	cert, key = ca.issue(t, "bob", time.Time{})
	writeFile(t, c.TLS.CertFile, cert)
	writeFile(t, c.TLS.KeyFile, key)
	accepted.Store("bob")
	status, _, err := fetchWith(t, client, base.String())
	require.NoError(t, err)
	require.Equal(t, 200, status)
	close(refuse)
	require.Equal(t, 200, <-slow)
}

func TestTransportUsesTheProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.String()+" "+r.Header.Get("Proxy-Authorization"))
	}))
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	u.User = url.UserPassword("me", "pass")
	_, body, err := fetch(t, &Config{Host: "http://api.invalid", ProxyURL: u.String()}, "/x")
	require.NoError(t, err)
	require.Equal(t, "http://api.invalid/x Basic bWU6cGFzcw==", body)

	for _, scheme := range []string{"http", "https", "socks5"} {
		_, err := parseProxyURL(scheme + "://proxy:1080")
		require.NoError(t, err)
	}
	_, _, err = (&Config{Host: "http://api.invalid", ProxyURL: "ftp://me:pa55word@proxy"}).HTTPClient()
	require.ErrorContains(t, err, "socks5://host:port")
	require.NotContains(t, err.Error(), "pa55word")
}

func TestTransportTunnelsThroughTheProxy(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.Header.Get("Authorization"))
	})
	asked, tunnel := tunnels(t)
	proxy := httptest.NewServer(tunnel)
	t.Cleanup(proxy.Close)
	_, body, err := fetch(t, &Config{Host: s.URL, ProxyURL: proxy.URL, BearerToken: "t0ken", TLS: TLS{CAData: ca.pem}}, "/")
	require.NoError(t, err)
	require.Equal(t, "HTTP/2.0 Bearer t0ken", body)
	require.Equal(t, http.MethodConnect, asked.Load().Method)
	require.Empty(t, asked.Load().Header.Get("Authorization"), "the proxy must not see the token")
}

// A proxy reached by TLS is a different server, but net/http would use the server's
// settings for it.
func TestTransportVerifiesTheProxyByItsOwnName(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.TLS.ServerName+" "+r.TLS.PeerCertificates[0].Subject.CommonName)
	}, "kubernetes")
	cert, key := ca.issue(t, "jane", time.Time{})
	c := &Config{Host: s.URL, TLS: TLS{CAData: ca.pem, CertData: cert, KeyData: key, ServerName: "kubernetes"}}
	asked, tunnel := tunnels(t)
	c.ProxyURL = ca.serveTLS(t, tunnel).URL
	_, body, err := fetch(t, c, "/")
	require.NoError(t, err)
	require.Equal(t, "HTTP/2.0 kubernetes jane", body)
	require.Equal(t, http.MethodConnect, asked.Load().Method)
	require.Empty(t, asked.Load().TLS.PeerCertificates, "the proxy must not see the certificate")

	asked.Store(nil)
	c.ProxyURL = newAuthority(t, "other").serveTLS(t, tunnel).URL
	_, _, err = fetch(t, c, "/")
	require.ErrorContains(t, err, "certificate signed by unknown authority: check the proxy")
	require.Nil(t, asked.Load())
}

// Each proxy is verified by its own name, and so is the server if there is no proxy.
func TestTheProxyMayChange(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.TLS.ServerName+" "+r.TLS.PeerCertificates[0].Subject.CommonName)
	}, "kubernetes")
	cert, key := ca.issue(t, "jane", time.Time{})
	asked, tunnel := tunnels(t)
	plain := httptest.NewServer(tunnel)
	t.Cleanup(plain.Close)
	first, second := ca.serveTLS(t, tunnel), ca.serveTLS(t, tunnel, "localhost")
	var via *url.URL
	client, base, err := (&Config{
		Host: s.URL, TLS: TLS{CAData: ca.pem, CertData: cert, KeyData: key, ServerName: "kubernetes"},
		Proxy: func(*http.Request) (*url.URL, error) { return via, nil },
	}).HTTPClient()
	require.NoError(t, err)
	for _, proxy := range []string{"", first.URL, "", strings.Replace(second.URL, "127.0.0.1", "localhost", 1), plain.URL} {
		client.CloseIdleConnections()
		asked.Store(nil)
		via = nil
		if proxy != "" {
			via, err = url.Parse(proxy)
			require.NoError(t, err)
		}
		_, body, err := fetchWith(t, client, base.String())
		require.NoError(t, err, proxy)
		require.Equal(t, "HTTP/2.0 kubernetes jane", body)
		tunnelled := asked.Load()
		require.Equal(t, proxy != "", tunnelled != nil, proxy)
		if tunnelled != nil && tunnelled.TLS != nil {
			require.Empty(t, tunnelled.TLS.PeerCertificates, "the proxy must not see the certificate")
		}
	}
	client.CloseIdleConnections()
}

func TestProxyThatHangsInTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, err := fetch(t, &Config{Host: "https://api.invalid", ProxyURL: "https://proxy.invalid", Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			return near, nil
		}}, "/")
		require.ErrorContains(t, err, "the TLS handshake took longer than 10s: check the proxy")
	})
}

// tunnels returns the handler of a proxy and the last request that it received.
func tunnels(t *testing.T) (*atomic.Pointer[http.Request], http.HandlerFunc) {
	asked := new(atomic.Pointer[http.Request])
	return asked, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r)
		far, err := net.Dial("tcp", r.Host)
		if err != nil {
			t.Error(err)
			return
		}
		near, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, err = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		}
		if err != nil {
			t.Error(err)
			return
		}
		var wg sync.WaitGroup
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from) // ends when either side closes
			_ = to.Close()
		}
		wg.Go(func() { pipe(far, near) })
		wg.Go(func() { pipe(near, far) })
		wg.Wait()
	}
}

func TestTransportIsWrappedOnceAndSeesHeaders(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	wraps, header := 0, ""
	c := &Config{Host: s.URL, BearerToken: "t0ken", WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		wraps++
		return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			header = r.Header.Get("Authorization")
			return next.RoundTrip(r)
		})
	}}
	status, _, err := fetch(t, c, "/")
	require.NoError(t, err)
	require.Equal(t, 404, status)
	require.Equal(t, 1, wraps)
	require.Equal(t, "Bearer t0ken", header)
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransportTimesOutOnSilence(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	_, _, err := fetch(t, &Config{Host: s.URL, Timeout: time.Millisecond}, "/")
	require.ErrorContains(t, err, "timeout awaiting response headers")
}

func TestTransportReplacesConnectionsOnlyWhenFilesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := newAuthority(t, "before"), newAuthority(t, "after")
		path := writeFile(t, filepath.Join(t.TempDir(), "ca.crt"), before.pem)
		n := newNetwork(&Config{Host: "https://127.0.0.1:1", TLS: TLS{CAFile: path}})
		first, err := n.transport(t.Context())
		require.NoError(t, err)
		time.Sleep(reloadInterval)
		same, err := n.transport(t.Context())
		require.NoError(t, err)
		require.Same(t, first, same)

		writeFile(t, path, after.pem)
		time.Sleep(reloadInterval - 1)
		same, err = n.transport(t.Context())
		require.NoError(t, err)
		require.Same(t, first, same, "the file is not read with every request")
		time.Sleep(time.Nanosecond)
		second, err := n.transport(t.Context())
		require.NoError(t, err)
		require.NotSame(t, first, second)
		pool := x509.NewCertPool()
		pool.AddCert(after.cert)
		require.True(t, pool.Equal(second.TLSClientConfig.RootCAs))
	})
}

// The RoundTripper of WrapTransport may use other connections than the one it wraps.
func TestConnectionsOfAWrapperAreClosed(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"own":  func(http.RoundTripper) http.RoundTripper { return &http.Transport{} },
		"none": nil,
		"without the method": func(next http.RoundTripper) http.RoundTripper {
			return struct{ http.RoundTripper }{next}
		},
	} {
		t.Run(name, func(t *testing.T) {
			opened.Store(0)
			client, base, err := (&Config{Host: s.URL, WrapTransport: wrap}).HTTPClient()
			require.NoError(t, err)
			for range 2 {
				_, body, err := fetchWith(t, client, base.String())
				require.NoError(t, err)
				require.Equal(t, "hello", body)
				client.CloseIdleConnections()
			}
			require.EqualValues(t, 2, opened.Load())
		})
	}
}

// BenchmarkTransportStream reads a body of 64 MiB over TLS and HTTP/2 on the
// loopback interface, written in pieces of 32 KiB.
func BenchmarkTransportStream(b *testing.B) {
	const size, piece = 64 << 20, 32 << 10
	ca := newAuthority(b, "ca")
	s := ca.serveTLS(b, func(w http.ResponseWriter, r *http.Request) {
		buf := make([]byte, piece)
		for range size / piece {
			if _, err := w.Write(buf); err != nil {
				return
			}
		}
	})
	client, base, err := (&Config{Host: s.URL, TLS: TLS{CAData: ca.pem}}).HTTPClient()
	require.NoError(b, err)
	b.Cleanup(client.CloseIdleConnections)
	b.SetBytes(size)
	buf := make([]byte, piece)
	for b.Loop() {
		resp, err := client.Get(base.String())
		require.NoError(b, err)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buf)
		require.NoError(b, err)
		require.EqualValues(b, size, n)
		require.NoError(b, resp.Body.Close())
	}
}

func TestTransportAsksTheProxyFunction(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.String()+" "+r.Header.Get("Proxy-Authorization"))
	}))
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	u.User = url.UserPassword("me", "pass-marked")
	choose := func(r *http.Request) (*url.URL, error) {
		switch r.URL.Path {
		case "/panics":
			panic("oh")
		case "/fails":
			return nil, errors.New("no proxy today")
		}
		return u, nil
	}
	c := &Config{Host: "http://api.invalid", Proxy: choose}
	_, body, err := fetch(t, c, "/x")
	require.NoError(t, err)
	require.Equal(t, "http://api.invalid/x Basic bWU6cGFzcy1tYXJrZWQ=", body)
	require.NotContains(t, c.Conceal(body+" pass-marked", &http.Request{URL: u}), "marked")
	require.NotContains(t, fmt.Sprintf("%+v", *c), "marked")
	_, _, err = fetch(t, c, "/fails")
	require.ErrorContains(t, err, "no proxy today")
	_, _, err = fetch(t, c, "/panics")
	require.ErrorContains(t, err, "Config.Proxy panicked: oh")
	_, _, err = (&Config{Host: "x", Proxy: choose, ProxyURL: "http://p"}).HTTPClient()
	require.ErrorContains(t, err, "both Proxy and ProxyURL are set")
}
