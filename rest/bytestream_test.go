package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

func TestStream(t *testing.T) {
	more := make(chan string)
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, r.Method+" "+r.RequestURI+"\n")
		for text := range more {
			io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	logs := ResourceFor[*corev1.Pod](client).Subresource("log")
	go func() { more <- "one\n" }()
	log, err := logs.Stream(ctx, key, &corev1.PodLogOptions{Container: "m", Follow: true, TailLines: new(int64(0))})
	require.NoError(t, err)
	defer log.Close()
	const want = "GET /api/v1/namespaces/default/pods/a/log?container=m&follow=true&tailLines=0\none\n"
	got := make([]byte, len(want))
	_, err = io.ReadFull(log, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	close(more)

	enough := errors.New("enough")
	cancel(enough)
	_, err = log.Read(got)
	require.ErrorIs(t, err, enough)
	require.ErrorContains(t, err, "get pods/log default/a: enough")
}

func TestStreamsThatAreRefused(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	logs := ResourceFor[*corev1.Pod](client).Subresource("log")
	_, err := logs.Stream(t.Context(), key, (*corev1.PodLogOptions)(nil))
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = logs.Stream(t.Context(), object.Key{Namespace: "default"}, nil)
	require.ErrorContains(t, err, "get pods/log in namespace default: the name is empty")
	_, err = logs.Stream(t.Context(), object.Key{Name: "a"}, nil)
	require.ErrorContains(t, err, "pods are namespaced")
}

// A program behind the server's proxy may send any response. It says nothing about the server.
func TestStreamFromAProgram(t *testing.T) {
	var accepts []string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/proxy/missing"):
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, "/proxy/picky"):
			if accepts = append(accepts, r.Header.Get("Accept")); !strings.Contains(r.Header.Get("Accept"), "*/*") {
				http.Error(w, "text only", http.StatusNotAcceptable)
			}
		case strings.HasSuffix(r.URL.Path, "/proxy/html"):
			http.Error(w, "no HTML", http.StatusNotAcceptable)
		case strings.HasPrefix(r.URL.Path, "/api/v1/"):
			accepts = append(accepts, r.Header.Get("Accept"))
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default"}}`)
		default:
			t.Errorf("the client looks for the resource: %s", r.URL)
		}
	})
	pods := ResourceFor[*corev1.Pod](client)
	_, err := pods.Subresource("proxy/missing").Stream(t.Context(), key, nil)
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	page, err := pods.Subresource("proxy/picky").Stream(t.Context(), key, nil)
	require.NoError(t, err)
	require.NoError(t, page.Close())
	_, err = pods.Subresource("proxy/html").Stream(t.Context(), key, nil)
	require.True(t, apierrors.IsNotAcceptable(err), "%v", err)
	_, err = pods.Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"application/json, */*", "application/vnd.kubernetes.protobuf,application/json"}, accepts)
}
