package metrics_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestRequests(t *testing.T) {
	requests := metrics.NewRequests()
	boom := errors.New("boom")
	transport := requests.Count(roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPut {
			return nil, boom
		}
		w := httptest.NewRecorder()
		w.WriteHeader(http.StatusTeapot)
		return w.Result(), nil
	}))
	for _, method := range []string{http.MethodGet, http.MethodGet, http.MethodPut} {
		resp, err := transport.RoundTrip(httptest.NewRequest(method, "https://example.com:6443/api", nil))
		if method == http.MethodPut {
			require.ErrorIs(t, err, boom)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.NoError(t, testutil.CollectAndCompare(requests, strings.NewReader(`
# HELP rest_client_requests_total Requests to API servers.
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="418",host="example.com:6443",method="GET"} 2
rest_client_requests_total{code="<error>",host="example.com:6443",method="PUT"} 1
`)))
}

// The client's error blames the transport.
func TestTransportWithoutAResponseIsAnError(t *testing.T) {
	requests := metrics.NewRequests()
	client, err := rest.NewClient(&config.Config{Host: "http://far", WrapTransport: func(http.RoundTripper) http.RoundTripper {
		return requests.Count(roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }))
	}}, runtime.NewScheme())
	require.NoError(t, err)
	_, err = client.Mapper().MappingForKind(t.Context(), schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "Y"})
	require.ErrorContains(t, err, "returned no response, and no error")
	require.NotContains(t, err.Error(), "panicked")
	require.Equal(t, 1, testutil.CollectAndCount(requests))
}
