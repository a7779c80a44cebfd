package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
