package clientgo

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	clientrest "k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/klog/v2"

	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// FromConfig returns a Millrace client that connects to the API server the way client-go would with
// cfg. It uses client-go's connections, proxy, certificates, credentials (including renewal and
// plugins), impersonation, user agent and wrappers. It looks up Go types in client-go's scheme.
//
// FromConfig ignores QPS, Burst and RateLimiter, because Millrace has no client-side rate limit. It also
// ignores Timeout, which would cut off watches, as well as ContentType and related fields, because the
// client requests the best format for each kind. It disables compression, which costs more time than it
// saves within a cluster. It ignores WarningHandler and WarningHandlerWithContext, too, and logs each distinct
// warning from the server once, to klog.
func FromConfig(cfg *clientrest.Config) (*rest.Client, error) {
	return FromConfigAndScheme(cfg, scheme.Scheme)
}

// FromConfigAndScheme is like [FromConfig], but looks up Go types in the given scheme.
func FromConfigAndScheme(cfg *clientrest.Config, types *runtime.Scheme) (*rest.Client, error) {
	cfg = clientrest.CopyConfig(cfg)
	cfg.Timeout = 0
	if cfg.UserAgent == "" {
		cfg.UserAgent = clientrest.DefaultKubernetesUserAgent()
	}
	secured := clientrest.IsConfigTransportTLS(*cfg)
	host := cfg.Host
	if host == "" {
		host = "localhost"
	}
	base, _, err := clientrest.DefaultServerURL(host, "", schema.GroupVersion{Version: "v1"}, secured)
	if err != nil {
		// Don't wrap err: its message contains the address.
		return nil, errors.New("the server's address (rest.Config.Host) is not a URL (not shown, it may contain a password): use the form https://host:port or https://host:port/prefix")
	}
	transport, err := clientrest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("create the transport: %w", err)
	}
	return rest.NewClient(&config.Config{
		Host:      base.String(),
		UserAgent: cfg.UserAgent,
		Logger:    slog.New(logr.ToSlogHandler(klog.Background())),
		WrapTransport: func(http.RoundTripper) http.RoundTripper {
			return uncompressed{transport}
		},
	}, types)
}

// uncompressed requests uncompressed responses, because http.Transport asks for gzip by default.
type uncompressed struct{ http.RoundTripper }

// CloseIdleConnections is called by http.Client.CloseIdleConnections. client-go clients may share the
// connections; they reconnect as needed.
func (u uncompressed) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(u.RoundTripper) }

// RoundTrip implements http.RoundTripper.
func (u uncompressed) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Accept-Encoding") == "" {
		req = req.Clone(req.Context())
		req.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := u.RoundTripper.RoundTrip(req)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	// client-go counts requests above the transport, so its metrics would miss these.
	clientmetrics.RequestResult.Increment(req.Context(), code, req.Method, req.URL.Host)
	return resp, err
}
