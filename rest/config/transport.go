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
)

// DeadAfter is how long nothing arrives on a connection until it is given up as
// dead.
const DeadAfter = pingAfter + pingTimeout

const (
	// A connection on which nothing arrives for pingAfter is asked for a sign of
	// life and given up pingTimeout later. Watches on quiet resources are kept alive
	// by the same pings.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second

	// On HTTP/1.1 there are no pings: TCP's probes find a dead peer as soon.
	probeAfter    = 15 * time.Second
	probeInterval = 10 * time.Second
	probeCount    = 3

	dialTimeout         = 30 * time.Second
	tlsHandshakeTimeout = 10 * time.Second
	idleConnTimeout     = 90 * time.Second

	// headTimeout is how long to wait for the head of a response where Config.Timeout
	// does not say it. An API server gives up after 60 seconds by default
	// (--request-timeout); watches and lists begin sooner.
	headTimeout = 90 * time.Second

	// maxReadFrame is the largest HTTP/2 frame to accept, in bytes. Each frame
	// hands over from the goroutine that reads the connection to the one that
	// reads the body. BenchmarkTransportStream takes a third less time with this
	// than with the default of 16 KiB; beyond it nothing is gained.
	maxReadFrame = 256 << 10

	// readBuffer is how much of an HTTP/1.1 connection is read at once. A watch
	// sends a chunk for each event: with the default of 4 KiB each costs two
	// calls of the operating system.
	readBuffer = 64 << 10

	// HTTP/2 needs one connection. On HTTP/1.1 each watch holds one, and a burst
	// of short requests should not have to dial anew.
	maxIdleConnsPerHost = 32
)

// httpClient returns a client that authenticates, and the URL that the paths of
// requests are appended to; its path may be a prefix and does not end in a
// slash. It reads the files that the configuration names and fails if they are
// unusable. It may be called more than once; the clients share nothing.
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
	if _, err := n.transport(context.Background()); err != nil { // there is no request yet
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	var next http.RoundTripper = n
	if c.WrapTransport != nil {
		if next = c.WrapTransport(n); next == nil {
			return nil, nil, errors.New("configuration: WrapTransport returned nil: return the RoundTripper that it was given, at least")
		}
	}
	return &http.Client{Transport: c.recorded(newAuthTransport(c, base, source, next, n))}, base, nil
}

// recorded returns what a recorder listens to, if there is one. It stands above the
// credentials and sees one request where the server was asked twice.
func (c *Config) recorded(next http.RoundTripper) http.RoundTripper {
	if c.Recorder == nil {
		return next
	}
	return c.Recorder.RoundTripper(next, c.blank)
}

// network is the RoundTripper that speaks to the network. It holds one
// http.Transport and replaces it when a certificate or the certificate authority
// changes: requests under way keep their connections, new ones verify and
// authenticate with the new files. So verification stays that of crypto/tls.
// A watch would still act as the owner of a replaced client certificate, so the
// connections that showed it are closed when a server has answered all other requests.
type network struct {
	config          *Config
	log             *slog.Logger
	files           *reading.Files
	changes         bool                    // there are files, which may change
	execCertificate func() *tls.Certificate // nil without an exec plugin

	mu       sync.Mutex // guards the fields below; execCertificate's lock is taken inside it
	current  *http.Transport
	shown    *connections // of the transports with current's client certificate; nil without one
	pems     pemSet
	fromExec *tls.Certificate
	checked  time.Time // when the files were last read, or tried
}

func newNetwork(c *Config) *network {
	n := &network{config: c, log: c.logger()}
	files := c.TLS.files()
	n.files, n.changes = reading.New(n.log, files, ReadFile, n.take), len(files) > 0
	return n
}

// RoundTrip implements http.RoundTripper. If the server's certificate is not
// accepted and the file of authorities has changed, it tries once more: the
// request has not been sent then.
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	t, err := n.transport(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.RoundTrip(req)
	if !badServerCertificate(err) {
		return resp, err
	}
	if n.reload(req.Context()) {
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

// CloseIdleConnections is called by http.Client's method of the same name.
func (n *network) CloseIdleConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current != nil {
		n.current.CloseIdleConnections()
	}
}

// transport returns the transport for a new request. It fails only when there
// is none yet, when an exec plugin's certificate is unusable, and when ctx ends while a
// file is read.
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

// reload reads the certificate files now and reports whether they changed.
func (n *network) reload(ctx context.Context) bool {
	if !n.changes {
		return false
	}
	before, _ := n.state()
	if err := n.files.Again(ctx); err != nil {
		return false // there is an answer already, which says more
	}
	after, _ := n.state()
	return after != before
}

// take is called with what the files hold, or why they cannot be read. A set that
// cannot be read, or is half replaced, is tried again later; the last good one stays in
// use. It fails only if there is none.
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
		n.log.Warn("the certificate files cannot be used: those read last stay in use", "error", err)
	default:
		n.log.Info("the certificate files changed: new connections use them")
	}
	return nil
}

// replace puts a new transport in place; mu is held. After an error the old one
// is still there.
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
		// All requests go to one server. What is wrong with the environment, they tell.
		via, err := t.Proxy(&http.Request{URL: base})
		if c.Proxy != nil || err == nil && via != nil && via.Scheme == "https" {
			t.DialTLSContext = tlsDialer(t.DialContext, func(address string) *tls.Config {
				name, _, _ := net.SplitHostPort(address) // which net/http has joined
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

// proxy returns how the proxy of a request is chosen; nil for none.
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

// tlsDialer connects by TLS to a proxy, or to the server if Config.Proxy chooses none.
// net/http would connect to both with the settings for the server.
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
			_ = conn.Close() // nobody has used it
			if context.Cause(ctx) == errHandshake {
				err = errHandshake
			}
			return nil, err
		}
		return secured, nil
	}
}

var errHandshake = fmt.Errorf("the TLS handshake took longer than %v", tlsHandshakeTimeout)

// dialer bounds a dialer of the user's, as our own is. net/http calls it in a goroutine
// of its own, where a panic would end the process, and an exit leave the request to wait
// for ever.
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

var errDial = fmt.Errorf("the dialer of the configuration took longer than %v", dialTimeout)
