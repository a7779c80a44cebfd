package rest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/source"
)

// When a load balancer forgets all connections, one request times out, but not one for
// each idle connection.
func TestOneHalfOpenConnectionClosesTheIdleOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		_, err := srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		require.NoError(t, err)
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		link := network.New(1).Link("client")
		link.Set(network.Conditions{Latency: time.Millisecond})
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: link.Dialer(endpoint.Connect)}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		pods := rest.ResourceFor[*corev1.Pod](client)
		get := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := pods.Get(ctx, object.Key{Namespace: "default", Name: "a"}, metav1.GetOptions{})
			return err
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := get(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Greater(t, link.Vanish(), 4)
		var stuck *source.StuckError
		require.ErrorAs(t, get(), &stuck)
		require.Equal(t, 5*time.Second, stuck.For.Round(time.Second))
		for range 8 {
			require.NoError(t, get())
		}
	})
}
