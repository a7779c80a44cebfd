package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/reading"
	"github.com/millrace-dev/millrace/internal/redial"
)

// DeadAfter is how long a connection may be silent before it is considered dead.
const DeadAfter = pingAfter + pingTimeout

const (
	// A connection is pinged after pingAfter without traffic, and closed if pingTimeout
	// passes without a reply. The pings also keep watches on quiet resources alive.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second

	// HTTP/1.1 has no pings, so TCP keep-alive probes detect a dead peer, after the same time.
	probeAfter    = 15 * time.Second
	probeInterval = 10 * time.Second
	probeCount    = 3

	dialTimeout         = 30 * time.Second
	tlsHandshakeTimeout = 10 * time.Second
	idleConnTimeout     = 90 * time.Second

	// headTimeout limits the wait for a response's header if Config.Timeout is zero. API servers time out
	// after 60 seconds by default (--request-timeout); responses to watches and lists start sooner.
	headTimeout = 90 * time.Second

	// maxReadFrame is the largest accepted HTTP/2 frame, in bytes. Each frame is passed from the goroutine
	// that reads the connection to the one that reads the body. With this size, BenchmarkTransportStream
	// takes a third less time than with the default of 16 KiB; larger frames do not help.
	maxReadFrame = 256 << 10

	// readBuffer is the buffer size for reading from an HTTP/1.1 connection. A watch sends one
	// chunk per event; with the default of 4 KiB, reading each chunk takes two system calls.
	readBuffer = 64 << 10

	// HTTP/2 needs only one connection. With HTTP/1.1, each watch occupies a connection, and bursts of short
	// requests should not have to dial new ones every time.
	maxIdleConnsPerHost = 32
)

// HTTPClient returns a client that authenticates, and the base URL for request paths, which
// may include a path prefix and has no trailing slash. HTTPClient reads the files in the
// configuration and fails if they are unusable. Each call returns an independent client.
func (c *Config) HTTPClient() (*http.Client, *url.URL, error) {
	c = c.Clone()
	if err := c.validate(); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	base, err := c.baseURL()
	if err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	if c.Replay != nil {
		return &http.Client{Transport: c.recorded(c.Replay)}, base, nil
	}
	source, err := newCredentialSource(c)
	if err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	n := newNetwork(c)
	if exec, ok := source.(*execSource); ok {
		n.execCertificate = exec.certificate
	}
	if _, err := n.transport(context.Background()); err != nil { // fail before the first request
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	var next http.RoundTripper = n
	if c.WrapTransport != nil {
		if next = c.WrapTransport(n); next == nil {
			return nil, nil, errors.New("configuration: WrapTransport returned nil: return at least the RoundTripper it was given")
		}
	}
	return &http.Client{Transport: c.recorded(newAuthTransport(c, base, source, next, n))}, base, nil
}

// recorded wraps next with the recorder, if any. The recorder sits above authentication, so that it sees no
// credentials, and only one request even if it is sent twice.
func (c *Config) recorded(next http.RoundTripper) http.RoundTripper {
	if c.Recorder == nil {
		return next
	}
	return c.Recorder.RoundTripper(next, c.blank)
}

// network is the RoundTripper that accesses the network. It uses one http.Transport at a time, and replaces
// it when a certificate or the CA changes. Requests in progress keep their connections, and new requests use
// the new files. Verification is left to crypto/tls. Watches would continue under the identity of a replaced
// client certificate, so connections that presented it are closed after enough time for all other requests to
// complete.
type network struct {
	config          *Config
	log             *slog.Logger
	files           *reading.Files
	changes         bool                    // some settings come from files, which may change
	execCertificate func() *tls.Certificate // nil if there is no exec plugin

	mu       sync.Mutex // guards the fields below; execCertificate's lock may be taken under it
	current  *http.Transport
	shown    *connections // connections that presented current's client certificate, from all transports; nil if none
	pems     pemSet
	fromExec *tls.Certificate
	checked  time.Time // when the files were last read, or an attempt failed
}

func newNetwork(c *Config) *network {
	n := &network{config: c, log: c.logger()}
	files := c.TLS.files()
	n.files, n.changes = reading.New(n.log, files, ReadFile, n.take), len(files) > 0
	return n
}

// RoundTrip implements http.RoundTripper. If the server's certificate is rejected and the CA file has
// changed, it retries once, because the request has not been sent yet.
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	t, err := n.transport(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	used := t
	if redial.Marked(req.Context()) {
		t = t.Clone()
		t.DisableKeepAlives = true     // close the new connection after the request
		defer t.CloseIdleConnections() // or cancel the dialing
	}
	resp, err := t.RoundTrip(req)
	if !badServerCertificate(err) {
		return resp, err
	}
	if n.reload(req.Context(), used) {
		if again, ok, replayErr := replay(req); ok && replayErr == nil {
			if t, err = n.transport(req.Context()); err != nil {
				closeBody(again)
				return nil, err
			}
			resp, err = t.RoundTrip(again)
		}
	}
	return resp, err
}

// CloseIdleConnections implements the interface that http.Client.CloseIdleConnections
// looks for.
func (n *network) CloseIdleConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current != nil {
		n.current.CloseIdleConnections()
	}
}

// transport returns the transport for a new request. It fails only if there is none yet, if
// an exec plugin's certificate is unusable, or if ctx is done while it reads a file.
func (n *network) transport(ctx context.Context) (*http.Transport, error) {
	var err error
	switch current, checked := n.state(); {
	case current == nil:
		err = n.files.Wait(ctx)
	case n.changes && time.Since(checked) >= reloadInterval:
		err = n.files.Try(ctx)
	}
	if err != nil && !errors.Is(err, reading.ErrSlow) {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.execCertificate != nil {
		if fromExec := n.execCertificate(); fromExec != n.fromExec {
			if err := n.replace(n.pems, fromExec); err != nil {
				return nil, err
			}
		}
	}
	return n.current, nil
}

func (n *network) state() (current *http.Transport, checked time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current, n.checked
}

// reload reads the certificate files now, unless another request has replaced the transport used, and reports
// whether they changed. It does nothing if used is nil, because the request then read them.
func (n *network) reload(ctx context.Context, used *http.Transport) bool {
	if !n.changes || used == nil {
		return false
	}
	current, _ := n.state()
	if current == used {
		if err := n.files.Again(ctx); err != nil {
			return false // the caller has a more informative error
		}
		current, _ = n.state()
	}
	return current != used
}

// take is called with the files' contents or the read error. If the files cannot be read or do not match each
// other yet, the last good set remains in use. take fails only if there is none.
func (n *network) take(contents [][]byte, err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checked = time.Now()
	first := n.current == nil
	if err == nil {
		pems := n.config.TLS.pems(contents)
		if !first && pems.equal(n.pems) {
			return nil
		}
		err = n.replace(pems, n.fromExec)
	}
	switch {
	case first:
		return err
	case err != nil:
		n.log.Warn("the certificate files are unusable: the last good ones stay in use", "error", err)
	default:
		n.log.Info("the certificate files changed: new connections use them")
	}
	return nil
}

// replace installs a new transport; the caller holds mu. On error it keeps the old one.
func (n *network) replace(pems pemSet, fromExec *tls.Certificate) error {
	tlsConfig, err := n.config.TLS.tlsConfig(pems, fromExec)
	if err != nil {
		return err
	}
	shown := n.shown
	if n.current == nil || !slices.EqualFunc(tlsConfig.Certificates, n.current.TLSClientConfig.Certificates, sameCertificate) {
		shown = newConnections(tlsConfig)
	}
	t, err := n.config.newTransport(tlsConfig, pems, shown)
	if err != nil {
		return err
	}
	if n.current != nil {
		n.current.CloseIdleConnections()
	}
	if n.shown != nil && n.shown != shown {
		time.AfterFunc(max(n.config.Timeout, headTimeout), n.shown.close)
	}
	n.current, n.shown, n.pems, n.fromExec = t, shown, pems, fromExec
	return nil
}

func (c *Config) newTransport(tlsConfig *tls.Config, pems pemSet, shown *connections) (*http.Transport, error) {
	t := &http.Transport{
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   tlsHandshakeTimeout,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, MaxReadFrameSize: maxReadFrame},
		DisableCompression:    !c.AcceptGzip,
		ReadBufferSize:        readBuffer,
		MaxIdleConnsPerHost:   maxIdleConnsPerHost,
		IdleConnTimeout:       idleConnTimeout,
		ResponseHeaderTimeout: cmp.Or(c.Timeout, headTimeout),
		DialContext:           dialer(c.Dial),
	}
	if c.Dial == nil {
		d := &net.Dialer{
			Timeout:         dialTimeout,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeInterval, Count: probeCount},
		}
		t.DialContext = d.DialContext
	}
	if shown != nil {
		t.DialContext = shown.dialer(t.DialContext)
	}
	var err error
	if t.Proxy, err = c.proxy(); err != nil {
		return nil, err
	}
	if base, err := c.baseURL(); err == nil && t.Proxy != nil {
		// Ask for the base URL, since all requests go to that server. If the environment is invalid, they
		// will report it.
		via, err := t.Proxy(&http.Request{URL: base})
		if c.Proxy != nil || err == nil && via != nil && via.Scheme == "https" {
			t.DialTLSContext = tlsDialer(t.DialContext, func(address string) *tls.Config {
				name, _, _ := net.SplitHostPort(address) // net/http built the address with JoinHostPort
				if origin(&url.URL{Scheme: "https", Host: address}) != origin(base) {
					return pems.proxyTLS(tlsConfig, name)
				}
				direct := tlsConfig.Clone()
				direct.ServerName, direct.NextProtos = cmp.Or(direct.ServerName, name), []string{"h2", "http/1.1"}
				return direct
			})
		}
	}
	return t, nil
}

// proxy returns the function that selects a request's proxy, or nil if no proxy is used.
func (c *Config) proxy() (func(*http.Request) (*url.URL, error), error) {
	fixed, err := parseProxyURL(c.ProxyURL)
	switch {
	case err != nil:
		return nil, err
	case c.Proxy != nil:
		return func(r *http.Request) (chosen *url.URL, err error) {
			defer failure.Recover("Config.Proxy", &err)
			return c.Proxy(r)
		}, nil
	case fixed != nil:
		return http.ProxyURL(fixed), nil
	case c.Dial == nil:
		return http.ProxyFromEnvironment, nil
	}
	return nil, nil
}

// tlsDialer opens TLS connections to a proxy, or to the server if Config.Proxy returns none. net/http would
// use the server's settings for both.
func tlsDialer(dial func(context.Context, string, string) (net.Conn, error), settings func(address string) *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, tlsHandshakeTimeout, errHandshake)
		defer cancel()
		secured := tls.Client(conn, settings(address))
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // unused
			if context.Cause(ctx) == errHandshake {
				err = errHandshake
			}
			return nil, err
		}
		return secured, nil
	}
}

var errHandshake = fmt.Errorf("the TLS handshake took longer than %v", tlsHandshakeTimeout)

// dialer applies the default dialer's timeout to the user's dialer. net/http calls it in a separate
// goroutine, where a panic would crash the process and runtime.Goexit would make the request hang.
func dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errDial)
		defer cancel()
		var conn net.Conn
		err := failure.Apart("Config.Dial", func() (err error) {
			if conn, err = dial(ctx, network, address); conn == nil && err == nil {
				err = errors.New("Config.Dial returned no connection, and no error")
			}
			return err
		})
		if err != nil && context.Cause(ctx) == errDial {
			err = fmt.Errorf("%w: %w", errDial, err)
		}
		return conn, err
	}
}

var errDial = fmt.Errorf("the configured dialer took longer than %v", dialTimeout)
