package rest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/source"
)

type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// A filter keeps a client from decoding objects that it does not want. A read of the version must not decode them
// either: an object that cannot be decoded would hide that the server's history went back.
func TestL17_AReadOfTheVersionDecodesNoObject(t *testing.T) {
	const body = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"8","continue":"next","remainingItemCount":7},
		"items":[{"metadata":{"namespace":"x","name":"broken","uid":"u","resourceVersion":"3"},"spec":{"containers":"none"}}]}`
	requests := 0
	client, err := rest.NewClient(&config.Config{Host: "http://server.invalid", WrapTransport: func(http.RoundTripper) http.RoundTripper {
		return answering(func(r *http.Request) (*http.Response, error) {
			requests++
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})
	}}, scheme.New())
	require.NoError(t, err)
	from := source.Filtered(rest.ResourceFor[*corev1.Pod](client).Source(), func(o object.Head) bool { return o.GetName() != "broken" })
	skipped := 0
	list := from.List(t.Context(), source.Request{ListOptions: metav1.ListOptions{Limit: 1}, VersionOnly: true, Skipped: func() { skipped++ }})
	for _, err := range list.Items {
		require.NoError(t, err)
	}
	require.Equal(t, "8", list.Meta.ResourceVersion)
	require.Equal(t, 1, requests)
	require.Equal(t, 1, skipped, "the caller learns that objects arrive")
}
