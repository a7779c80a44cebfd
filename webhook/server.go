package webhook

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/millrace-dev/millrace/serving"
)

// Options configure a Server. CertDir or TLS is required, because the API server calls webhooks only
// over HTTPS and verifies their certificates.
type Options struct {
	// Name identifies the server in messages and in /readyz if a process has several. The default is
	// "webhook".
	Name string

	// Address is the listen address. The default is ":9443".
	Address string

	// Listener, if not nil, is used instead of Address.
	Listener net.Listener

	// CertDir is a directory containing tls.crt and tls.key, such as a mounted Secret. The files are
	// reloaded when they change.
	CertDir string

	// TLS has more options than CertDir, for example to limit which clients are accepted. With
	// &serving.TLS{}, the server creates a certificate for API servers that connect via localhost or a
	// loopback address; use [Server.SelfSigned] as the caBundle.
	TLS *serving.TLS

	// Metrics receives metrics for every request. Package metrics implements it for Prometheus.
	Metrics MetricsProvider

	// Logger logs panics and reviews of the wrong kind, and rejected requests at debug level. If it is nil,
	// nothing is logged.
	Logger *slog.Logger
}

// Server serves webhooks. Create it with [New], and then run it or add it to a manager.
type Server struct {
	*serving.Server
	mux     *http.ServeMux
	metrics MetricsProvider // may be nil
	log     *slog.Logger

	admission, conversion *budget // shared by all paths
}

// New returns a server. It fails if the options are invalid or the certificate cannot be read.
func New(opts Options) (*Server, error) {
	if opts.Address == "" {
		opts.Address = ":9443"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Name == "" {
		opts.Name = "webhook"
	}
	switch {
	case opts.TLS != nil && opts.CertDir != "":
		return nil, fmt.Errorf("%s server: CertDir and TLS are both set: remove one of them", opts.Name)
	case opts.TLS == nil && opts.CertDir == "":
		return nil, fmt.Errorf("%s server: no certificate: set CertDir to where the Secret is mounted", opts.Name)
	case opts.TLS == nil:
		opts.TLS = &serving.TLS{CertFile: filepath.Join(opts.CertDir, "tls.crt"), KeyFile: filepath.Join(opts.CertDir, "tls.key")}
	}
	s := &Server{
		mux: http.NewServeMux(), metrics: opts.Metrics, log: opts.Logger,
		admission: newBudget(admissionBudget), conversion: newBudget(conversionBudget),
	}
	var err error
	s.Server, err = serving.New(serving.Options{
		Name: opts.Name, Address: opts.Address, Listener: opts.Listener, TLS: opts.TLS, Logger: opts.Logger,
		Handler: http.HandlerFunc(s.begin),
	})
	return s, err
}

// Handle serves h at path. It panics if h is nil or the path is taken, as http.ServeMux does. If a function
// passed to [Validate], [Mutate] or [Spoke] panics, the request is rejected. If any other handler panics, the
// panic is logged and the request is aborted without a response, so the API server applies the failurePolicy.
func (s *Server) Handle(path string, h http.Handler) {
	mustHave(h != nil, "the handler for "+path)
	if s.metrics != nil {
		if r := s.metrics.Register(path); r != nil {
			h = measured(r, h)
		}
	}
	s.mux.Handle(path, h)
}

// Handles reports whether a handler has been added for exactly this path.
func (s *Server) Handles(path string) bool {
	_, pattern := s.mux.Handler(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}})
	return pattern == path
}
