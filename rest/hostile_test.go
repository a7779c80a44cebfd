package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// The year 9999 is beyond the range of a time.Duration, and the random addition must
// not overflow.
func TestRetryAfterInTheFarFutureDoesNotRetryAtOnce(t *testing.T) {
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

// If a proxy sends its login page, nothing was deleted.
func TestDeleteDoesNotAcceptAnHTMLPage(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
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

// A JSON response is from the API if it has a kind and is not a Status of failure.
func TestDeleteDoesNotAcceptArbitraryJSON(t *testing.T) {
	var body []byte
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(body)
	})
	pods := ResourceFor[*corev1.Pod](c).Namespace("default")
	for answer, want := range map[string]string{
		`{"error":"login_required"}`:                   "200 OK with application/json, which is not from the Kubernetes API",
		`["kind"]`:                                     "which is not from the Kubernetes API",
		`{"kind":"login","next":"/sso"}`:               "which is not from the Kubernetes API",
		`{"kind":"Problem","apiVersion":"gateway/v2"}`: "which is not from the Kubernetes API",
		`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"}`:        "",
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no"}`: ": no",
		`{"kind":"Status","apiVersion":"v1","status":"Success"}`:                "",
		`{"kind":"Pod","apiVersion":"v1","status":{}}`:                          "",
		`{"kind":"PodList","apiVersion":"v1","items":[]}`:                       "",
		`{"items":["` + strings.Repeat("x", maxStatusBytes) + `"],"kind":"X"}`:  "",
	} {
		body = []byte(answer)
		for _, err := range []error{
			pods.Delete(t.Context(), key, metav1.DeleteOptions{}),
			pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
		} {
			if want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		}
	}
}

// A redirect turns a write into a GET, except with status 307 and 308. The response to
// that GET must not be taken for that of the write.
func TestARedirectDoesNotTurnAWriteIntoARead(t *testing.T) {
	var status int
	var lines []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		lines = append(lines, r.Method+" "+r.URL.Path)
		if !strings.HasPrefix(r.URL.Path, "/clusters/one/") {
			http.Redirect(w, r, "/clusters/one"+r.URL.Path, status)
			return
		}
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
	})
	ctx, pods := t.Context(), ResourceFor[*corev1.Pod](c)
	for method, write := range map[string]func() error{
		http.MethodPost:   func() error { return second(pods.Create(ctx, pod("a"), metav1.CreateOptions{})) },
		http.MethodPut:    func() error { return second(pods.Update(ctx, pod("a"), metav1.UpdateOptions{})) },
		http.MethodDelete: func() error { return pods.Delete(ctx, key, metav1.DeleteOptions{}) },
		http.MethodPatch: func() error {
			return second(pods.Patch(ctx, key, types.MergePatchType, []byte("{}"), metav1.PatchOptions{}))
		},
	} {
		for _, status = range []int{301, 302, 303} {
			lines = nil
			require.ErrorContains(t, write(), fmt.Sprintf("redirects a %s to the path /clusters/one/api/v1/namespaces/default/pods", method))
			require.Len(t, lines, 1)
		}
		for _, status = range []int{307, 308} {
			lines = nil
			require.NoError(t, write())
			require.Len(t, lines, 2)
			require.Contains(t, lines[1], method+" /clusters/one/")
		}
	}
	status = http.StatusFound
	_, err := pods.Get(ctx, key, metav1.GetOptions{})
	require.NoError(t, err, "a GET stays one")
}

// A bare deadline error does not say which host was waited for.
func TestLookupWithoutAnAnswerNamesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeServer(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.Mapper().MappingForKind(ctx, kindWidget)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no answer from pipe for 5s (the request is sent)")
	})
}

// Discovery requests two documents concurrently. The error about one must not describe
// the other.
func TestLookupErrorNamesWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api" {
				<-r.Context().Done()
				return
			}
			time.Sleep(time.Second)
			w.Header().Set("Content-Type", wire.MediaJSON)
			w.Write([]byte(`{"kind":"APIVersions","versions":[]}`))
		})
		progress := new(source.Progress)
		ctx, cancel := context.WithTimeout(source.WithProgress(t.Context(), progress), 5*time.Second)
		defer cancel()
		_, err := c.Mapper().MappingForKind(ctx, kindWidget)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no answer from pipe for 5s (the request is sent)")
		require.EqualError(t, progress.Waiting(nil), "no answer from pipe for 4s (in the middle of the answer)", "the last step of both")
	})
}

// Some servers send an empty response to a deletion.
func TestDeleteAcceptsAnEmptyAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	require.NoError(t, ResourceFor[*corev1.Pod](c).Delete(t.Context(), key, metav1.DeleteOptions{}))
}

// One address may host several API servers, and a client's credentials are for one of
// them.
func TestDiscoveryStaysBelowThePrefix(t *testing.T) {
	for _, group := range []string{"../../two/api", "%2e%2e/%2e%2e/two", "..%2F..%2Ftwo", "."} {
		var mu sync.Mutex // guards asked
		var asked []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, r.RequestURI)
			mu.Unlock()
			w.Header().Set("Content-Type", wire.MediaJSON)
			if r.URL.Path == "/one/apis" {
				fmt.Fprintf(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":%q,"versions":[{"version":"v1"}]}]}`, group)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		}))
		t.Cleanup(s.Close)
		c, err := NewClient(&config.Config{Host: s.URL + "/one", BearerToken: "t0ken"}, nil)
		require.NoError(t, err)
		_, err = c.Mapper().Mappings(t.Context())
		require.ErrorContains(t, err, "has a segment . or ..: remove it", group)
		require.ElementsMatch(t, []string{"/one/api", "/one/apis"}, asked, group)
		c.CloseIdleConnections()
	}
}
