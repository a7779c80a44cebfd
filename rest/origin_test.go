package rest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/rest/config"
)

// Cluster is called on behalf of all informers of a client. It waits as long as the
// server asked for, or returns the server's error.
func TestL19_ClusterIsNotRequestedTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		_, err := srv.Create(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}})
		require.NoError(t, err)
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		client, err := NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, nil)
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		srv.Faults().Add(apiservertest.Fault{Verb: "get", Resource: "namespaces", Count: 1, Do: []apiservertest.Action{apiservertest.Fail{Code: 503, RetryAfter: "40"}}})
		began, asked := time.Now(), func() int { return srv.Stats().Requests("get", "namespaces") }
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err = client.Cluster(ctx)
			cancel()
			require.ErrorContains(t, err, "503")
			require.Equal(t, 1, asked())
		}
		cluster, err := client.Cluster(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, cluster)
		require.Equal(t, 2, asked())
		require.GreaterOrEqual(t, time.Since(began), 40*time.Second)
	})
}
