package rest

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/wire"
)

// A Get is retried once if its connection breaks before the response, however it
// breaks. Writes are not retried: the server may have done them.
func TestAGetIsSentAgainWhenItsConnectionBreaks(t *testing.T) {
	for name, linger := range map[string]int{"reset": 0, "closed": -1} {
		for breaks, want := range map[int64]int64{1: 2, 2: 2} {
			var asked atomic.Int64
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > breaks {
					w.Header().Set("Content-Type", wire.MediaJSON)
					_, _ = w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
					return
				}
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					panic(err)
				}
				_ = conn.(*net.TCPConn).SetLinger(linger)
				conn.Close()
			})
			pods := ResourceFor[*corev1.Pod](client)
			_, err := pods.Get(t.Context(), key, metav1.GetOptions{})
			require.Equal(t, want, asked.Load(), name)
			require.Equal(t, breaks == 1, err == nil, "%s: %v", name, err)

			asked.Store(0)
			_, err = pods.Create(t.Context(), pod("a"), metav1.CreateOptions{})
			require.Error(t, err, name)
			require.Equal(t, int64(1), asked.Load(), name)
		}
	}
}

// A server that stops says so with HTTP/2's GOAWAY, and may then close the connection before it responds.
func TestAGetIsSentAgainAfterHTTP2Ended(t *testing.T) {
	for _, text := range []string{
		"http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\"",
		"http2: client connection lost", brokenOff,
	} {
		asked := 0
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", wire.MediaJSON)
			_, _ = w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
		})
		next := client.http.Transport
		client.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if asked++; asked == 1 {
				return nil, errors.New(text)
			}
			return next.RoundTrip(r)
		})
		_, err := ResourceFor[*corev1.Pod](client).Get(t.Context(), key, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, 2, asked, text)
	}
}

// A Retry-After is honored with any 5xx.
func TestEveryServerErrorMayHaveRetryAfter(t *testing.T) {
	for code, want := range map[int]int64{429: 2, 500: 2, 502: 2, 503: 2, 504: 2, 409: 1} {
		var asked atomic.Int64
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(code)
				return
			}
			w.Header().Set("Content-Type", wire.MediaJSON)
			_, _ = w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
		})
		_, err := ResourceFor[*corev1.Pod](client).Get(t.Context(), key, metav1.GetOptions{})
		require.Equal(t, want, asked.Load(), strconv.Itoa(code))
		require.Equal(t, want == 2, err == nil, "%d: %v", code, err)
	}
}
