package reflector_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/source"
)

// transport is an http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// A read of the server's version takes one request, even if the source filters out every object on the page.
// Otherwise, it would read page after page, fail because it takes too long, and never notice that the server
// was restored from a backup.
func TestL19_ARollbackBelowAFilteredSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		create := func(from, to int) {
			for n := from; n < to; n++ {
				_, err := srv.Create(&corev1.Pod{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint("pod-", n)},
				})
				require.NoError(t, err)
			}
		}
		create(0, 700)
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		probes := 0
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("limit") == "1" {
					probes++
					time.Sleep(100 * time.Millisecond)
				}
				return next.RoundTrip(r)
			})
		}}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		none := source.Filtered(rest.ResourceFor[*corev1.Pod](client).Source(), func(object.Head) bool { return false })
		r := reflector.New(none, deltafifo.New(deltafifo.Options{}), reflector.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		require.Equal(t, reflector.Watching, r.Status().State)
		backup := srv.Snapshot()
		create(700, 750)
		time.Sleep(time.Minute)
		require.NotEqual(t, backup.RV(), r.Status().RV)

		srv.Restore(backup)
		time.Sleep(time.Hour)
		require.Equal(t, backup.RV(), r.Status().RV)
		require.ErrorIs(t, r.Status().Failure, reflector.ErrWentBack)
		require.LessOrEqual(t, probes, 2)
		cancel()
		require.NoError(t, <-ended)
	})
}

// A list whose pages keep arriving has not stalled, even if the source filters out every object on them.
func TestL18_AListOfFilteredOutObjectsHasNotStalled(t *testing.T) {
	for _, filtered := range []bool{false, true} {
		t.Run(fmt.Sprint("filtered=", filtered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := apiservertest.New(apiservertest.Options{})
				defer srv.Close()
				for n := range 700 {
					_, err := srv.Create(&corev1.Pod{
						TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
						ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint("pod-", n)},
					})
					require.NoError(t, err)
				}
				endpoint, err := srv.Pipe()
				require.NoError(t, err)
				client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
					return transport(func(r *http.Request) (*http.Response, error) {
						time.Sleep(time.Second) // per page
						return next.RoundTrip(r)
					})
				}}, scheme.New())
				require.NoError(t, err)
				defer client.CloseIdleConnections()
				from := rest.ResourceFor[*corev1.Pod](client).Source()
				if filtered {
					from = source.Filtered(from, func(object.Head) bool { return false })
				}
				r := reflector.New(from, deltafifo.New(deltafifo.Options{}), reflector.Options{PageSize: 10})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(30 * time.Minute)
				s := r.Status()
				cancel()
				require.NoError(t, <-ended)
				require.Zero(t, s.Failures, "%d lists: %v", s.Lists, s.Failure)
				require.NotEmpty(t, s.RV)
			})
		})
	}
}
