package reflector_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// The same, with watches shorter than the silence that calls for a check. A watch that was opened after a failed check
// proves no more than the one before, so it must not make the cache look fresh.
func TestL31_ShortWatchesAfterAFailedCheckForARollbackDoNotMakeTheCacheFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		create := func(name string) {
			_, err := srv.Create(&corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
			})
			require.NoError(t, err)
		}
		create("kept")
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods is forbidden: cannot list"}`
		lists := 0
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("watch") == "" && strings.HasSuffix(r.URL.Path, "/pods") {
					lists++
					return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(forbidden)), Request: r}, nil
				}
				return next.RoundTrip(r)
			})
		}}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		r := reflector.New(rest.ResourceFor[*corev1.Pod](client).Source(), deltafifo.New(deltafifo.Options{}), reflector.Options{Timing: reflector.Timing{WatchTimeout: time.Minute}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		require.Equal(t, reflector.Watching, r.Status().State)
		require.Zero(t, lists)
		backup := srv.Snapshot()
		create("lost")
		time.Sleep(time.Minute)
		srv.Restore(backup)
		time.Sleep(time.Minute)
		time.Sleep(5 * time.Hour)
		s := r.Status()
		cancel()
		require.NoError(t, <-ended)
		require.NotEqual(t, backup.RV(), s.RV)
		require.Greater(t, s.Age(time.Now()), 4*time.Hour, "%d checks failed, %d watches", lists, s.Watches)
	})
}
