package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	c := &Config{Host: s.URL + "/prefix/", TLS: TLSConfig{CAData: ca.pem}}
	status, body, err := fetch(t, c, "/api")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	parts := strings.Split(body, "|")
	require.Equal(t, "HTTP/2.0", parts[0])
	require.Equal(t, "/prefix/api", parts[1])
	require.Regexp(t, `^rest\.test millrace/\S+ \(\w+/\w+\)$`, parts[2])
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
	_, body, err = fetch(t, &Config{Host: s.URL, TLS: TLSConfig{CAData: ca.pem}}, "/")
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1", body)
}

func TestTransportVerifiesTheServer(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	s := ca.serveTLS(t, func(http.ResponseWriter, *http.Request) {}, "api.internal")
	for name, tc := range map[string]struct {
		tls  TLSConfig
		want string
	}{
		"wrong name":      {TLSConfig{CAData: ca.pem}, "tls-server-name"},
		"other name":      {TLSConfig{CAData: ca.pem, ServerName: "api.external"}, "api.internal, not api.external"},
		"right name":      {TLSConfig{CAData: ca.pem, ServerName: "api.internal"}, ""},
		"wrong authority": {TLSConfig{CAData: other.pem, ServerName: "api.internal"}, "check the server's address, the certificate authority"},
		"system's":        {TLSConfig{ServerName: "api.internal"}, "unknown authority"},
		"insecure":        {TLSConfig{Insecure: true}, ""},
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
	_, _, err := fetch(t, &Config{Host: s.URL, TLS: TLSConfig{CAData: ca.pem}}, "/")
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
	client, base, err := (&Config{Host: s.URL, TLS: TLSConfig{CAFile: path}}).httpClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	_, body, err := fetchWith(t, client, base.String())
	require.NoError(t, err)
	require.Equal(t, "hello", body)

	current.Store(after.serverTLS(t))
	client.CloseIdleConnections()
	_, _, err = fetchWith(t, client, base.String())
	require.ErrorContains(t, err, "unknown authority")

	// Half a file: the old one stays in use, and the request fails as before.
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
	c := &Config{Host: s.URL, TLS: TLSConfig{
		CAData:   ca.pem,
		CertFile: writeFile(t, filepath.Join(dir, "tls.crt"), cert),
		KeyFile:  writeFile(t, filepath.Join(dir, "tls.key"), key),
	}}
	client, base, err := c.httpClient()
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

func TestTransportRetriesOnceAfter401(t *testing.T) {
	var seen []string
	wanted := "Bearer one"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, r.Header.Get("Authorization")+" "+string(body))
		if r.Header.Get("Authorization") != wanted {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	path := writeFile(t, filepath.Join(t.TempDir(), "token"), []byte("one\n"))
	client, _, err := (&Config{Host: s.URL, BearerTokenFile: path}).httpClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	post := func(body io.Reader) int {
		t.Helper()
		seen = nil
		resp, err := client.Post(s.URL, "text/plain", body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}

	require.Equal(t, 200, post(strings.NewReader("x")))
	require.Equal(t, []string{"Bearer one x"}, seen)

	wanted = "Bearer two"
	require.Equal(t, 401, post(strings.NewReader("x")))
	require.Equal(t, []string{"Bearer one x"}, seen, "there is no other token: the request must not be repeated")

	writeFile(t, path, []byte("two\n"))
	require.Equal(t, 200, post(strings.NewReader("x")))
	require.Equal(t, []string{"Bearer one x", "Bearer two x"}, seen)

	wanted = "Bearer three"
	writeFile(t, path, []byte("three\n"))
	require.Equal(t, 401, post(io.MultiReader(strings.NewReader("x"))), "a body that cannot be had again must not be repeated")
	require.Equal(t, []string{"Bearer two x"}, seen)
	require.Equal(t, 200, post(strings.NewReader("x")), "the next request must use the new token")
	require.Equal(t, []string{"Bearer three x"}, seen)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer own")
	seen = nil
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []string{"Bearer own "}, seen, "the caller's own header is left alone")
}

func TestTransportRotatesUnderLoad(t *testing.T) {
	ca := newAuthority(t, "ca")
	var wanted atomic.Value
	wanted.Store("Bearer 0")
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != wanted.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	dir := t.TempDir()
	token, caFile := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	replace := func(path string, data string) {
		writeFile(t, path+".new", []byte(data))
		require.NoError(t, os.Rename(path+".new", path))
	}
	replace(token, "0")
	replace(caFile, string(ca.pem))
	client, base, err := (&Config{Host: s.URL, BearerTokenFile: token, TLS: TLSConfig{CAFile: caFile}}).httpClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	for round := 1; round <= 10; round++ {
		next := strconv.Itoa(round)
		replace(token, next)
		replace(caFile, string(ca.pem)+"# "+next+"\n")
		wanted.Store("Bearer " + next)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				resp, err := client.Get(base.String())
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				_ = resp.Body.Close() // nothing is read from it
				if resp.StatusCode != http.StatusOK {
					t.Errorf("round %d: got status %d, want 200", round, resp.StatusCode)
				}
			})
		}
		wg.Wait()
	}
}

func TestTransportImpersonates(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(s.Close)
	_, _, err := fetch(t, &Config{Host: s.URL, Impersonate: Impersonation{
		UserName: "jane", UID: "7", Groups: []string{"a", "b"},
		Extra: map[string][]string{"scopes": {"x", "y"}, "acme.com/pro%ject": {"p"}},
	}}, "/")
	require.NoError(t, err)
	require.Equal(t, []string{"jane"}, got.Values("Impersonate-User"))
	require.Equal(t, []string{"7"}, got.Values("Impersonate-Uid"))
	require.Equal(t, []string{"a", "b"}, got.Values("Impersonate-Group"))
	require.Equal(t, []string{"x", "y"}, got.Values("Impersonate-Extra-Scopes"))
	require.Equal(t, []string{"p"}, got.Values("Impersonate-Extra-Acme.com%2fpro%25ject"))
}

func TestTransportKeepsCredentialsFromOtherServers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect to another server was followed")
	}))
	t.Cleanup(other.Close)
	var paths []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path+" "+r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/?code=marked-secret", http.StatusFound)
		case "/within":
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	c := &Config{Host: s.URL, BearerToken: "t0ken"}
	_, _, err := fetch(t, c, "/away")
	require.ErrorContains(t, err, s.URL+" redirects to "+other.URL+", which is not followed")
	require.NotContains(t, err.Error(), "marked-secret")

	paths = nil
	status, _, err := fetch(t, c, "/within")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, []string{"/within Bearer t0ken", "/here Bearer t0ken"}, paths)

	_, _, err = fetch(t, c, "/loop")
	require.ErrorContains(t, err, "10 redirects")

	client, _, err := c.httpClient()
	require.NoError(t, err)
	_, _, err = fetchWith(t, client, other.URL)
	require.ErrorContains(t, err, "refused")
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
	_, _, err = (&Config{Host: "http://api.invalid", ProxyURL: "ftp://me:pa55word@proxy"}).httpClient()
	require.ErrorContains(t, err, "socks5://host:port")
	require.NotContains(t, err.Error(), "pa55word")
}

func TestTransportTunnelsThroughTheProxy(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.Header.Get("Authorization"))
	})
	var asked atomic.Pointer[http.Request]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	}))
	t.Cleanup(proxy.Close)
	_, body, err := fetch(t, &Config{Host: s.URL, ProxyURL: proxy.URL, BearerToken: "t0ken", TLS: TLSConfig{CAData: ca.pem}}, "/")
	require.NoError(t, err)
	require.Equal(t, "HTTP/2.0 Bearer t0ken", body)
	require.Equal(t, http.MethodConnect, asked.Load().Method)
	require.Empty(t, asked.Load().Header.Get("Authorization"), "the proxy must not see the token")
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

// silentConn stops delivering what the peer sends once it is cut, as a
// connection does whose peer has lost its power.
type silentConn struct {
	net.Conn
	cut    *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (c *silentConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.cut.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *silentConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// memoryListener hands out the far ends of pipes.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func TestTransportFindsHalfOpenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "ca")
		listener := &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
		s := &httptest.Server{
			Listener:    listener,
			EnableHTTP2: true,
			TLS:         ca.serverTLS(t),
			Config: &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(200)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})},
		}
		s.StartTLS()
		defer s.Close()
		var cut atomic.Bool
		client, base, err := (&Config{
			Host: "https://127.0.0.1:1",
			TLS:  TLSConfig{CAData: ca.pem},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				listener.conns <- far
				return &silentConn{Conn: near, cut: &cut, closed: make(chan struct{})}, nil
			},
		}).httpClient()
		require.NoError(t, err)
		resp, err := client.Get(base.String())
		require.NoError(t, err)
		defer resp.Body.Close()

		// Answered pings keep a silent watch alive.
		ended := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(resp.Body)
			ended <- err
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Empty(t, ended)

		cut.Store(true)
		start := time.Now()
		require.Error(t, <-ended)
		require.LessOrEqual(t, time.Since(start), pingAfter+pingTimeout)
		client.CloseIdleConnections()
	})
}

func TestTransportSaysWhatToDo(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, _, err := fetch(t, &Config{Host: gone.URL}, "/")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "check that the API server "+gone.URL+" is running")
	_, _, err = fetch(t, &Config{Host: "https://api.invalid", ProxyURL: gone.URL}, "/")
	require.ErrorContains(t, err, "check the proxy")
	_, _, err = fetch(t, &Config{Host: strings.Replace(plain.URL, "http:", "https:", 1)}, "/")
	require.ErrorContains(t, err, "use http://")
	_, _, err = (&Config{Host: "x", WrapTransport: func(http.RoundTripper) http.RoundTripper { return nil }}).httpClient()
	require.ErrorContains(t, err, "returned nil")
}

func TestTransportTimesOutOnSilence(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	_, _, err := fetch(t, &Config{Host: s.URL, Timeout: time.Millisecond}, "/")
	require.ErrorContains(t, err, "timeout awaiting response headers")
}

func TestConfigFilesMustBeUsable(t *testing.T) {
	ca := newAuthority(t, "ca")
	cert, key := ca.issue(t, "x", time.Time{})
	_, otherKey := ca.issue(t, "y", time.Time{})
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		config Config
		want   string
	}{
		"no authority file": {Config{TLS: TLSConfig{CAFile: filepath.Join(dir, "none")}}, "certificate authority: open " + dir},
		"authority is key":  {Config{TLS: TLSConfig{CAData: key}}, "no certificate in the inline data"},
		"foreign key":       {Config{TLS: TLSConfig{CertData: cert, KeyData: otherKey}}, "does not match"},
		"garbled key":       {Config{TLS: TLSConfig{CertData: cert, KeyData: []byte("marked-secret")}}, "client certificate in the inline data"},
		"no token file":     {Config{BearerTokenFile: filepath.Join(dir, "token")}, "bearer token: open " + dir},
		"empty token file":  {Config{BearerTokenFile: writeFile(t, filepath.Join(dir, "empty"), []byte("\n"))}, "is empty"},
		"two-line token":    {Config{BearerTokenFile: writeFile(t, filepath.Join(dir, "two"), []byte("marked-secret\nb"))}, "more than one line"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.config.Host = "https://127.0.0.1:1"
			_, _, err := tc.config.httpClient()
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
		time.Sleep(1)
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

func TestTransportReplacesConnectionsOnlyWhenFilesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := newAuthority(t, "before"), newAuthority(t, "after")
		path := writeFile(t, filepath.Join(t.TempDir(), "ca.crt"), before.pem)
		n := &network{config: &Config{Host: "https://127.0.0.1:1", TLS: TLSConfig{CAFile: path}}, log: slog.New(slog.DiscardHandler)}
		first, err := n.transport()
		require.NoError(t, err)
		time.Sleep(reloadInterval)
		same, err := n.transport()
		require.NoError(t, err)
		require.Same(t, first, same)

		writeFile(t, path, after.pem)
		time.Sleep(reloadInterval - 1)
		same, err = n.transport()
		require.NoError(t, err)
		require.Same(t, first, same, "the file is not read with every request")
		time.Sleep(1)
		second, err := n.transport()
		require.NoError(t, err)
		require.NotSame(t, first, second)
		pool := x509.NewCertPool()
		pool.AddCert(after.cert)
		require.True(t, pool.Equal(second.TLSClientConfig.RootCAs))
	})
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
	client, base, err := (&Config{Host: s.URL, TLS: TLSConfig{CAData: ca.pem}}).httpClient()
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
