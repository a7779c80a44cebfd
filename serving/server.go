package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// Options configure a [Server]. Name, Handler, and Address or Listener are required.
type Options struct {
	// Name identifies the server in messages.
	Name string

	// Address is the address to listen on, such as ":8080" (all interfaces) or "127.0.0.1:0" (any free port
	// on the loopback interface).
	Address string

	// Listener, if not nil, is used instead of Address.
	Listener net.Listener

	// Handler handles requests. The server closes the connection if a request body does not arrive within 30
	// s or a response takes longer than two minutes, unless the handler extends these deadlines with an
	// http.ResponseController. It logs panics and closes the connection.
	Handler http.Handler

	// TLS enables HTTPS. Nil means HTTP.
	TLS *TLS

	// Drain is how long requests in progress may continue after ctx is done. The default is 10 s.
	Drain time.Duration

	// Logger receives errors and warnings. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// Server is an HTTP server. Create it with [New].
type Server struct {
	opts Options
	tls  *tls.Config // nil for HTTP

	serving atomic.Bool

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	running  bool
	spent    bool // Options.Listener was closed
}

// Errors returned by [Server.Run] and [Server.Listen].
var (
	// ErrRunning means that Run was called while the server is running.
	ErrRunning = errors.New("it is already running")

	errSpent = errors.New("its Listener was closed by an earlier Run: use Address, or create another server")
)

// New checks the options and loads the certificates.
func New(opts Options) (*Server, error) {
	s := &Server{opts: opts, listener: opts.Listener}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if s.opts.Drain == 0 {
		s.opts.Drain = 10 * time.Second
	}
	if opts.Handler == nil {
		return nil, fmt.Errorf("%s server: no Handler", opts.Name)
	}
	if opts.Listener == nil {
		if _, _, err := net.SplitHostPort(opts.Address); err != nil {
			return nil, fmt.Errorf("%s server: the address %q is not of the form host:port, such as \":8080\": %w", opts.Name, opts.Address, err)
		}
	}
	if opts.TLS != nil {
		var err error
		if s.tls, err = opts.TLS.config(s.opts.Logger.With("server", opts.Name)); err != nil {
			return nil, fmt.Errorf("%s server: %w", opts.Name, err)
		}
	}
	return s, nil
}

// Name returns the server's name as used in messages.
func (s *Server) Name() string { return s.opts.Name + " server" }

// SelfSigned returns the PEM-encoded certificate that the server generated because no certificate files were
// configured. Clients can be configured to trust it, for example through the caBundle field of an API
// server's webhook configuration. It is valid for this host's names and the loopback interface. SelfSigned
// returns nil if the certificate comes from files or the server does not use TLS.
func (s *Server) SelfSigned() []byte {
	if s.tls == nil || len(s.tls.Certificates) == 0 {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.tls.Certificates[0].Certificate[0]})
}

// Certificate returns the certificate the server currently presents, or nil if the server does not use TLS.
// It rereads the files if they have changed.
func (s *Server) Certificate() (*x509.Certificate, error) {
	if s.tls == nil {
		return nil, nil
	}
	leaf, err := served(s.tls)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(), err)
	}
	return leaf, nil
}

// Listen opens the port, unless it is already open. The operating system then accepts connections, which Run
// will serve.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listen()
}

// listen is like Listen. The caller must hold mu.
func (s *Server) listen() error {
	switch {
	case s.spent:
		return fmt.Errorf("%s: %w", s.Name(), errSpent)
	case s.listener != nil:
		return nil
	}
	l, err := net.Listen("tcp", s.opts.Address)
	if err != nil {
		return fmt.Errorf("%s: %w; choose another address, or disable the server", s.Name(), err)
	}
	s.listener = l
	return nil
}

// Addr returns the address the server is listening on. It is nil before Listen, and after Run if
// Options.Address was used.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Close closes the port if Run was not called. Further calls do nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil || s.spent {
		return nil
	}
	err := s.listener.Close()
	s.closed()
	return err
}

// closed records that the listener was closed. The caller must hold mu.
func (s *Server) closed() {
	if s.spent = s.opts.Listener != nil; !s.spent {
		s.listener = nil
	}
}

// begin claims the server for one call to Run.
func (s *Server) begin() (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil, fmt.Errorf("%s: %w", s.Name(), ErrRunning)
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.running = true
	return s.listener, nil
}

// end releases the server after Run has closed the listener.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	s.closed()
}

// Check returns an error if the server is not serving because Run was not called or is shutting down, or if
// its certificate has expired or is not valid yet. If new certificate files are unusable, the previous
// certificate stays in use, and Check succeeds until it expires.
func (s *Server) Check() error {
	if !s.serving.Load() {
		return fmt.Errorf("%s: not serving", s.Name())
	}
	if s.tls == nil {
		return nil
	}
	if err := checkCertificate(s.tls, time.Now()); err != nil {
		return fmt.Errorf("%s: %w", s.Name(), err)
	}
	return nil
}

// Run serves until ctx is done or the listener fails, and then waits for requests in progress to complete. If
// Listen was not called, Run opens the port itself. Run may be called again after it has returned, unless
// Options.Listener was set. If the server is already running, Run returns [ErrRunning].
func (s *Server) Run(ctx context.Context) error {
	listener, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end()
	logger := s.opts.Logger.With("server", s.opts.Name)
	// Requests outlive ctx while the server is draining.
	server := &http.Server{
		Handler:           guarded(logger, s.opts.Handler),
		TLSConfig:         s.tls,
		ReadHeaderTimeout: headerPatience,
		WriteTimeout:      answerPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	if s.tls != nil {
		server.Protocols = s.opts.TLS.protocols()
	}
	failed := make(chan error, 1)
	go func() {
		var err error
		defer func() { failed <- err }()
		guard := failure.Guard{In: "its Listener"}
		defer guard.End(&err, func(e error) { err = e })
		if s.tls != nil {
			err = server.ServeTLS(listener, "", "")
		} else {
			err = server.Serve(listener)
		}
		guard.Returned()
	}()
	s.serving.Store(true)
	defer s.serving.Store(false)
	logger.Info("serving", "address", listener.Addr().String(), "tls", s.tls != nil)
	var broken error
	select {
	case broken = <-failed:
	case <-ctx.Done():
	}
	s.serving.Store(false)
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Drain)
	defer cancel()
	err = server.Shutdown(draining)
	if errors.Is(err, context.DeadlineExceeded) {
		logger.Warn("closed connections with unfinished requests", "drain", s.opts.Drain)
		err = server.Close()
	}
	if broken != nil {
		return fmt.Errorf("%s: %w", s.Name(), broken)
	}
	<-failed
	return err
}

// Local restricts a handler on the loopback interface to programs on this host. Otherwise web pages in a
// local browser could reach it: a page can point its own host name at 127.0.0.1 (DNS rebinding) and then read
// the responses. Local therefore rejects requests on the loopback interface whose Host is a name other than
// "localhost". It accepts IP addresses, which cannot be rebound, so local proxies may forward the Host they
// received. On other interfaces Local does nothing.
func Local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if ok && at.IP.IsLoopback() && !local(r.Host) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.Error(w, fmt.Sprintf("This is for programs on this machine, and the request asked for the host %q, which a web page elsewhere may have given this address. Ask for http://%s instead.",
				clipped(r.Host), at), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a Host is "localhost" or an IP address. Browsers always send a Host, so an empty one
// is accepted.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "" || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && !address.IsUnspecified()
}
