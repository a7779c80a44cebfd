package torture

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// misdeed answers instead of the server, or returns false to pass the request on.
type misdeed func(w http.ResponseWriter, r *http.Request) bool

// gateway is a proxy that terminates TLS, as in front of a cluster or a company network.
type gateway struct {
	address string
	mood    atomic.Pointer[misdeed]
	shown   atomic.Pointer[tls.Certificate]
	limit   atomic.Int64 // bodies end after at most this many bytes; 0 is no limit
}

func newGateway(t *testing.T, c *cluster, hosts []string) *gateway {
	t.Helper()
	g := &gateway{}
	g.shown.Store(c.pair(c.authority(), 0))
	upstream := &http.Transport{
		ForceAttemptHTTP2: true,
		// The servers' authority changes, so the gateway reads it again for each connection.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
			text, err := os.ReadFile(filepath.Join(c.dirs[0], "ca.crt"))
			if err != nil {
				return err
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(text)
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"})
			return err
		}},
	}
	silent := log.New(io.Discard, "", 0)
	pass := &httputil.ReverseProxy{
		Transport: upstream, FlushInterval: -1, ErrorLog: silent,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: hosts[rand.IntN(len(hosts))]})
		},
		ModifyResponse: func(resp *http.Response) error {
			if limit := g.limit.Load(); limit > 0 && resp.Request.Method == http.MethodGet {
				resp.Body = &cutBody{resp.Body, rand.Int64N(limit), rand.IntN(2) == 0}
				resp.ContentLength = -1
				resp.Header.Del("Content-Length")
			}
			return nil
		},
	}
	server := &http.Server{
		ErrorLog: silent,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if do := g.mood.Load(); do != nil && (*do)(w, r) {
				return
			}
			pass.ServeHTTP(w, r)
		}),
		TLSConfig: &tls.Config{NextProtos: []string{"h2", "http/1.1"}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return g.shown.Load(), nil
		}},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g.address = listener.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		_ = server.Close() // the only error is that a connection was already closed
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		upstream.CloseIdleConnections()
	})
	return g
}

// behave sets the misdeed from now on; nil passes everything on.
func (g *gateway) behave(do misdeed) {
	if do == nil {
		g.mood.Store(nil)
		return
	}
	g.mood.Store(&do)
}

// errShort is the error at the end of a cut body.
var errShort = errors.New("cut by the gateway")

// cutBody is a body that breaks off or, worse, ends as if it were complete.
type cutBody struct {
	io.ReadCloser
	left  int64
	quiet bool
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 && b.quiet {
		return 0, io.EOF
	}
	if b.left <= 0 {
		return 0, errShort
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// busy answers 429 with Retry-After.
func busy(after string) misdeed {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", after)
		http.Error(w, "too many of you", http.StatusTooManyRequests)
		return true
	}
}

// page answers with an HTML page.
func page(code int, title string) misdeed {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><head><title>"+title+"</title></head><body><h1>"+title+"</h1></body></html>")
		return true
	}
}

// foreign answers every list and watch with objects of another resource.
func foreign(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Lamp","apiVersion":"light.example.com/v1","metadata":{"name":"l","uid":"u","resourceVersion":"999999999"}}}`+"\n")
		return true
	}
	_, _ = io.WriteString(w, `{"kind":"LampList","apiVersion":"light.example.com/v1","metadata":{"resourceVersion":"999999999"},"items":[]}`)
	return true
}
