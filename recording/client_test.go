package recording_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

const token = "tok-Zx81q7WvMeyK3nBd9Lc"

// listed lists pods and returns the client's error.
func listed(t *testing.T, cfg *config.Config) error {
	t.Helper()
	client, err := rest.NewClient(cfg, scheme.New())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	for _, err := range rest.ResourceFor[*corev1.Pod](client).List(t.Context(), metav1.ListOptions{}).Items {
		if err != nil {
			return err
		}
	}
	return nil
}

// again records a list and plays it. It returns the content of the file, which must not
// contain the token, and the errors of both.
func again(t *testing.T, cfg config.Config) (kept string, was, is error) {
	t.Helper()
	recorder, err := recording.Create(filepath.Join(t.TempDir(), "test.recording"), recording.Options{})
	require.NoError(t, err)
	cfg.Recorder = recorder
	was = listed(t, &cfg)
	require.NoError(t, recorder.Close())
	file, err := recording.Open(recorder.Status().Path)
	require.NoError(t, err)
	defer file.Close()
	for _, q := range file.Requests {
		body, err := io.ReadAll(file.Body(q))
		require.NoError(t, err)
		kept += fmt.Sprintf("%+v\n%s\n", *q, body)
	}
	require.NotContains(t, kept, token)
	return kept, was, listed(t, &config.Config{Replay: file.Replay(recording.ReplayOptions{Speed: math.Inf(1)})})
}

const empty = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":[]}`

// The recorded response is that at the end of a redirect, whether a list or a login
// page.
func TestRedirectsAreFollowed(t *testing.T) {
	for to, want := range map[string]string{"/prefix/api/v1/pods": "", "/login?token=" + token: "Sign in", "/api/v1/pods": "stopped after 10 redirects"} {
		mux := http.NewServeMux()
		mux.HandleFunc("/api/v1/pods", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
		mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html><title>Sign in</title>")
		})
		mux.HandleFunc("/prefix/api/v1/pods", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, empty)
		})
		srv := httptest.NewServer(mux)
		_, was, is := again(t, config.Config{Host: srv.URL})
		srv.Close()
		if want != "" {
			require.ErrorContains(t, was, want)
		}
		require.Equal(t, fmt.Sprint(was), fmt.Sprint(is))
	}
}

// A compressed body is left out, since it cannot be searched for credentials. The
// client cannot read it either, so a replay leads to the same error.
func TestCompressedBodiesAreLeftOut(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusNotFound, http.StatusConflict} {
		for _, media := range []string{"application/json", "text/plain", "text/html"} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", media)
				w.Header().Set("Content-Encoding", "gzip")
				w.WriteHeader(status)
				packed := gzip.NewWriter(w)
				_, _ = io.WriteString(packed, r.Header.Get("Authorization"))
				_ = packed.Close()
			}))
			kept, was, is := again(t, config.Config{Host: srv.URL, BearerToken: token})
			srv.Close()
			require.EqualError(t, is, was.Error())
			if first, refused := errors.AsType[*apierrors.StatusError](was); refused {
				again, _ := errors.AsType[*apierrors.StatusError](is)
				require.Equal(t, first.ErrStatus, again.ErrStatus, "the whole reason")
			} else {
				require.ErrorContains(t, was, `content encoding "gzip"`)
			}
			require.NotContains(t, kept, "\x1f\x8b")
			require.Contains(t, kept, "Encoding:gzip")
		}
	}
}

// A failed name lookup is replayed.
func TestALookupThatFails(t *testing.T) {
	_, was, is := again(t, config.Config{Host: "https://nowhere.invalid", Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}
	}})
	require.Error(t, was)
	require.EqualError(t, is, was.Error())
	lookup, ok := errors.AsType[*net.DNSError](is)
	require.True(t, ok)
	require.Equal(t, "nowhere.invalid", lookup.Name)
}

// A program behind the server's proxy may have paths like those of the API. Its responses are not lists of objects,
// and may contain anything.
func TestResponsesOfProgramsAreNotRecorded(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `["hunter2"]`)
	}))
	defer srv.Close()
	for name, call := range map[string]func(c *rest.Client) error{
		"Stream": func(c *rest.Client) error {
			body, err := rest.ResourceFor[*corev1.Pod](c).Subresource("proxy/api/v1/tokens").Stream(t.Context(), object.Key{Namespace: "shop", Name: "a"}, nil)
			if err != nil {
				return err
			}
			_, err = io.ReadAll(body)
			return errors.Join(err, body.Close())
		},
		"Raw": func(c *rest.Client) error {
			_, err := c.Raw(t.Context(), "/api/v1/namespaces/shop/pods/a/proxy/api/v1/tokens")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorder, err := recording.Create(filepath.Join(t.TempDir(), "test.recording"), recording.Options{})
			require.NoError(t, err)
			client, err := rest.NewClient(&config.Config{Host: srv.URL, Recorder: recorder}, scheme.New())
			require.NoError(t, err)
			defer client.CloseIdleConnections()
			require.NoError(t, call(client))
			require.NoError(t, recorder.Close())
			file, err := recording.Open(recorder.Status().Path)
			require.NoError(t, err)
			defer file.Close()
			for _, q := range file.Requests {
				body, err := io.ReadAll(file.Body(q))
				require.NoError(t, err)
				require.Empty(t, string(body), "%s%s", q.Server, q.Path)
			}
		})
	}
}
