package rest

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The year 9999 is further away than a time.Duration can say, and a quarter on top
// must not make it the past.
func TestARetryAfterInTheFarFutureIsNoInvitationToComeBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		c := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			requests++
			w.Header().Set("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		_, err := ResourceFor[*corev1.Pod](c).Get(t.Context(), key, metav1.GetOptions{})
		require.Error(t, err)
		require.Equal(t, 1, requests)
	})
}

// Nothing was deleted where a proxy sent its login page.
func TestADeletionDoesNotTakeAPageForASuccess(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/login" {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write([]byte("<html><head><title>Sign in</title></head></html>"))
	})
	pods := ResourceFor[*corev1.Pod](c).Namespace("default")
	for _, err := range []error{
		pods.Delete(t.Context(), key, metav1.DeleteOptions{}),
		pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		require.ErrorContains(t, err, `text/html titled "Sign in", which is not from the Kubernetes API`)
	}
}

// A deadline alone does not tell who was waited for.
func TestALookupThatGetsNoAnswerSaysOfWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeServer(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.Mapper().MappingForKind(ctx, kindWidget)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no answer from pipe for 5s (the request is sent)")
	})
}

// Some servers have nothing to say about what is gone.
func TestADeletionTakesAnEmptyAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	require.NoError(t, ResourceFor[*corev1.Pod](c).Delete(t.Context(), key, metav1.DeleteOptions{}))
}
