package apiservertest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Endpoint is a way to reach a [Server]: a loopback port or in-memory connections. Server.Close
// closes it.
type Endpoint struct {
	// URL is the base URL, without a trailing slash.
	URL string

	// CA is the certificate to trust, in PEM format, if the endpoint uses TLS.
	CA []byte

	server   *Server
	http     *http.Server
	listener net.Listener
	dial     func(context.Context) (net.Conn, error)
	connect  func(context.Context, net.Conn) error // nil for a TCP port
	served   chan struct{}                         // closed once Serve has returned

	mu    sync.Mutex
	came  int              // number of connections so far
	conns map[net.Conn]int // open connections by number
	empty *sync.Cond       // on mu: signals that conns is empty
}

// ListenOptions are the options of [Server.Listen].
type ListenOptions struct {
	// TLS serves HTTPS, and HTTP/2 if the client requests it, with a certificate for 127.0.0.1 and
	// localhost generated for this endpoint.
	TLS bool
}

// Listen serves on a free port of 127.0.0.1.
func (s *Server) Listen(opts ListenOptions) (*Endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	e := s.newEndpoint("http://"+l.Addr().String(), l)
	dialer := &net.Dialer{}
	e.dial = func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", l.Addr().String())
	}
	if opts.TLS {
		cert, ca, err := selfSigned()
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("make a certificate: %w", err)
		}
		e.URL, e.CA = "https://"+l.Addr().String(), ca
		e.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	return e, e.start(opts.TLS)
}

// Pipe serves in-memory connections (HTTP/1.1), reachable only by DialContext and
// Connect. It never blocks in the operating system, so a client and its server can run in the same
// testing/synctest bubble.
func (s *Server) Pipe() (*Endpoint, error) {
	l := newPipeListener()
	e := s.newEndpoint("http://apiserver.pipe", l)
	e.dial, e.connect = l.dial, l.connect
	return e, e.start(false)
}

func (s *Server) newEndpoint(url string, l net.Listener) *Endpoint {
	e := &Endpoint{
		URL:    url,
		server: s,
		served: make(chan struct{}),
		conns:  map[net.Conn]int{},
	}
	e.empty = sync.NewCond(&e.mu)
	e.listener = &gate{Listener: l, server: s}
	e.http = &http.Server{
		Handler:   s,
		ConnState: e.track,
		ErrorLog:  log.New(logWriter{s.opts.Logger}, "", 0),
	}
	return e
}

// start registers the endpoint and starts serving. The goroutine exits when shutdown closes the listener.
func (e *Endpoint) start(secure bool) error {
	s := e.server
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		e.listener.Close()
		return fmt.Errorf("serve at %s: the server is closed", e.URL)
	}
	s.endpoints = append(s.endpoints, e)
	go func() {
		defer close(e.served)
		var err error
		if secure {
			err = e.http.ServeTLS(e.listener, "", "")
		} else {
			err = e.http.Serve(e.listener)
		}
		if err != http.ErrServerClosed {
			s.opts.Logger.Error("endpoint failed", "url", e.URL, "error", err)
		}
	}()
	return nil
}

// DialContext connects to the endpoint, ignoring the address. Use it as [http.Transport.DialContext]. While
// the server is down, it fails with "connection refused".
func (e *Endpoint) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if e.server.refusing() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return e.dial(ctx)
}

// Connect hands the server its end of a connection created elsewhere, for example by a network.Link, and
// waits until the server has accepted it. While the server is down, it fails with "connection refused". The
// endpoint must have been created by [Server.Pipe].
func (e *Endpoint) Connect(ctx context.Context, server net.Conn) error {
	switch {
	case e.connect == nil:
		return fmt.Errorf("connect to %s: the endpoint is a TCP port: use Pipe", e.URL)
	case e.server.refusing():
		return syscall.ECONNREFUSED
	}
	return e.connect(ctx, server)
}

// track maintains the set of open connections.
func (e *Endpoint) track(conn net.Conn, state http.ConnState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch state {
	case http.StateNew:
		e.came++
		e.conns[conn] = e.came
	case http.StateClosed, http.StateHijacked:
		delete(e.conns, conn)
		if len(e.conns) == 0 {
			e.empty.Broadcast()
		}
	}
}

// cut closes all open connections, which unblocks reads and writes.
func (e *Endpoint) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	oldestFirst := func(a, b net.Conn) int { return cmp.Compare(e.conns[a], e.conns[b]) }
	for _, conn := range slices.SortedFunc(maps.Keys(e.conns), oldestFirst) {
		// The client will notice that the connection is closed, so the error from Close does not
		// matter.
		_ = conn.Close()
	}
}

// shutdown closes the endpoint and returns once its goroutines have exited.
func (e *Endpoint) shutdown() {
	if err := e.http.Close(); err != nil {
		e.server.opts.Logger.Debug("close endpoint", "url", e.URL, "error", err)
	}
	<-e.served
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.conns) > 0 {
		e.empty.Wait()
	}
}

// gate drops connections that arrive while the server is down.
type gate struct {
	net.Listener
	server *Server
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil || !g.server.refusing() {
			return conn, err
		}
		_ = conn.Close() // ignore the error
	}
}

// logWriter passes net/http's log lines to slog.
type logWriter struct{ to *slog.Logger }

func (l logWriter) Write(line []byte) (int, error) {
	l.to.Debug("net/http", "message", string(line))
	return len(line), nil
}

// selfSigned returns a certificate for the loopback interface, valid for a day around now.
func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "millrace simulated API server"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca, nil
}
