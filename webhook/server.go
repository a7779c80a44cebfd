package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime/debug"

	"github.com/millrace-dev/millrace/serving"
)

// Options configure a Server. CertDir or TLS is required: the API server speaks
// to webhooks by HTTPS only, and verifies whom it speaks to.
type Options struct {
	// Address is where to listen. Default ":9443".
	Address string

	// Listener, if not nil, is used instead of Address.
	Listener net.Listener

	// CertDir has the files tls.crt and tls.key, as a mounted Secret has. They
	// are read again when they change.
	CertDir string

	// TLS says more than CertDir, such as which clients may ask. &serving.TLS{}
	// makes a certificate, which Server.SelfSigned gives to put into the
	// caBundle: for an API server that reaches us by localhost or a loopback
	// address.
	TLS *serving.TLS

	// Metrics hears of every request. Package metrics has one for Prometheus.
	Metrics Metrics

	// Logger hears of panics and refusals. Nil is silent.
	Logger *slog.Logger
}

// Server serves webhooks. Make it with New, and run it or add it to a manager.
type Server struct {
	*serving.Server
	mux     *http.ServeMux
	metrics Metrics // nil: none
}

// New checks the options and reads the certificate.
func New(opts Options) (*Server, error) {
	if opts.Address == "" {
		opts.Address = ":9443"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case opts.TLS != nil && opts.CertDir != "":
		return nil, fmt.Errorf("webhook server: CertDir and TLS are both set: leave one of them out")
	case opts.TLS == nil && opts.CertDir == "":
		return nil, fmt.Errorf("webhook server: no certificate: set CertDir to where the Secret is mounted")
	case opts.TLS == nil:
		opts.TLS = &serving.TLS{CertFile: filepath.Join(opts.CertDir, "tls.crt"), KeyFile: filepath.Join(opts.CertDir, "tls.key")}
	}
	s := &Server{mux: http.NewServeMux(), metrics: opts.Metrics}
	var err error
	s.Server, err = serving.New(serving.Options{
		Name: "webhook", Address: opts.Address, Listener: opts.Listener, TLS: opts.TLS, Logger: opts.Logger,
		Handler: withLogger(opts.Logger, s.mux),
	})
	return s, err
}

// Handle lets h answer at a path. It panics where the path is taken, as
// http.ServeMux does.
func (s *Server) Handle(path string, h http.Handler) {
	if s.metrics != nil {
		h = measured(s.metrics.Register(path), h)
	}
	s.mux.Handle(path, h)
}

type loggerKey struct{}

// withLogger hands the server's logger to the handlers, and makes an answer of
// a panic.
func withLogger(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				log.Error("a webhook panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				http.Error(w, "the webhook panicked", http.StatusInternalServerError)
			}
		}()
		log := log.With("path", r.URL.Path)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), loggerKey{}, log)))
	})
}

// logger is the one of the server that handles ctx.
func logger(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok {
		return log
	}
	return slog.New(slog.DiscardHandler)
}
