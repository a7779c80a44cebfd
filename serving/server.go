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

// Options configure a Server. Name, Handler, and Address or Listener are
// required.
type Options struct {
	// Name says in messages which server it is.
	Name string

	// Address is where to listen, such as ":8080" (every interface) or
	// "127.0.0.1:0" (any free port of the loopback interface).
	Address string

	// Listener, if not nil, is used instead of Address.
	Listener net.Listener

	// Handler answers. A request whose body does not come within 30 s is broken
	// off, and so is an answer that takes longer than two minutes, unless the
	// handler extends these deadlines with an http.ResponseController. A panic is
	// logged and breaks the connection off.
	Handler http.Handler

	// TLS makes it an HTTPS server. Nil is HTTP.
	TLS *TLS

	// Drain is how long requests in progress may take after the end was asked
	// for. Default 10 s.
	Drain time.Duration

	// Logger hears of trouble. Nil is silent.
	Logger *slog.Logger
}

// Server is one HTTP server. Make it with New.
type Server struct {
	opts Options
	tls  *tls.Config // nil for HTTP

	serving atomic.Bool

	mu       sync.Mutex // guards all below
	listener net.Listener
	running  bool
	spent    bool // Options.Listener has been closed
}

// Errors of the life of a server.
var (
	// ErrRunning: Run was called while it runs.
	ErrRunning = errors.New("it is already running")

	errSpent = errors.New("its Listener was closed when it ran: use Address, or make another server")
)

// New checks the options, and reads the certificates.
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

// Name is what messages call the server.
func (s *Server) Name() string { return s.opts.Name + " server" }

// SelfSigned returns, in PEM, the certificate that the server made because it was
// given no files. Clients can be told to trust it: an API server's webhook
// configuration has a field caBundle. It is good for the names of this host and of
// the loopback interface. It is nil where the certificate comes from files, and
// without TLS.
func (s *Server) SelfSigned() []byte {
	if s.tls == nil || len(s.tls.Certificates) == 0 {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.tls.Certificates[0].Certificate[0]})
}

// Certificate is the one that the server shows to clients now, nil without TLS. Files
// are read again for it when they have changed.
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

// Listen opens the port, unless that was done. From then on connections are
// taken, and served once Run runs.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listen()
}

// listen is called with mu held.
func (s *Server) listen() error {
	switch {
	case s.spent:
		return fmt.Errorf("%s: %w", s.Name(), errSpent)
	case s.listener != nil:
		return nil
	}
	l, err := net.Listen("tcp", s.opts.Address)
	if err != nil {
		return fmt.Errorf("%s: %w; choose another address, or switch the server off", s.Name(), err)
	}
	s.listener = l
	return nil
}

// Addr is where the server listens; nil before Listen, and after Run where it listened
// at an Address.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Close closes the port of a server that was not run. Closing it twice does nothing.
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

// closed notes that the listener has been closed. It is called with mu held.
func (s *Server) closed() {
	if s.spent = s.opts.Listener != nil; !s.spent {
		s.listener = nil
	}
}

// begin claims the server for one Run.
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

// end is called when Run has closed the listener.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	s.closed()
}

// Check fails while the server does not serve, because Run has not been called or
// is ending, and while clients refuse its certificate because it has expired or is
// not valid yet. Where files cannot be read again the last certificate stays in
// use, and Check passes until that one expires.
func (s *Server) Check() error {
	if !s.serving.Load() {
		return fmt.Errorf("%s: it does not serve", s.Name())
	}
	if s.tls == nil {
		return nil
	}
	if err := checkCertificate(s.tls, time.Now()); err != nil {
		return fmt.Errorf("%s: %w", s.Name(), err)
	}
	return nil
}

// Run serves until ctx is done or its listener fails, and the requests in progress
// have been answered. It listens if Listen was not called. It may be called again when
// it has returned, unless Options.Listener was set; while it runs it fails with
// ErrRunning.
func (s *Server) Run(ctx context.Context) error {
	listener, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end()
	logger := s.opts.Logger.With("server", s.opts.Name)
	// Requests outlive ctx: they are drained.
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
		logger.Warn("requests in progress were broken off", "drain", s.opts.Drain)
		err = server.Close()
	}
	if broken != nil {
		return fmt.Errorf("%s: %w", s.Name(), broken)
	}
	<-failed
	return err
}

// Local lets nobody but this machine's own programs have what is served at the loopback
// interface. A web page in a browser here is not one of them: it can give a name of its
// own the address 127.0.0.1 (DNS rebinding), and then read what is there. So a request
// that comes by the loopback interface is refused if its Host is a name other than
// "localhost". An address is no name that somebody could point here, so a proxy on this machine
// may pass on the Host that it was asked for. At other interfaces Local does nothing.
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

// local reports whether a Host is the name of the loopback interface, or an address. A request
// without a Host is no browser's.
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
