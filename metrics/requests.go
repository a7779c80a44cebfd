package metrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests counts the requests to API servers:
//
//   - rest_client_requests_total: by code, method and host. The code of a request
//     without a response is "<error>". A watch counts when it is opened.
type Requests struct {
	*prometheus.CounterVec
}

// NewRequests returns a collector to be registered.
func NewRequests() *Requests {
	return &Requests{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total", Help: "Requests to API servers.",
	}, []string{"code", "method", "host"})}
}

// Count is for config.Config.WrapTransport. It may be used for several clients.
func (c *Requests) Count(next http.RoundTripper) http.RoundTripper { return counted{next, c} }

type counted struct {
	next     http.RoundTripper
	requests *Requests
}

func (t counted) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	code := "<error>"
	if resp != nil && err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	t.requests.WithLabelValues(code, text(req.Method), text(req.URL.Host)).Inc()
	return resp, err
}
