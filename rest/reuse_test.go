package rest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// A body read to its end leaves its connection to the next request, although closing
// the body cancels its own request.
func TestConnectionsAreUsedAgain(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	_, err := srv.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	require.NoError(t, err)
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			var opened atomic.Int64
			front := httptest.NewUnstartedServer(srv)
			front.EnableHTTP2 = http2
			front.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					opened.Add(1)
				}
			}
			front.StartTLS()
			defer front.Close()
			c, err := NewClient(&config.Config{Host: front.URL, TLS: config.TLS{Insecure: true}}, scheme.New())
			require.NoError(t, err)
			defer c.CloseIdleConnections()
			pods := ResourceFor[*corev1.Pod](c).Namespace("default")
			for range 20 {
				_, err := pods.Get(context.Background(), key, metav1.GetOptions{})
				require.NoError(t, err)
				_, err = pods.Get(context.Background(), object.Key{Namespace: "default", Name: "none"}, metav1.GetOptions{})
				require.ErrorContains(t, err, "not found")
				for _, err := range pods.List(context.Background(), metav1.ListOptions{}).Items {
					require.NoError(t, err)
				}
			}
			require.EqualValues(t, 1, opened.Load())
		})
	}
}
