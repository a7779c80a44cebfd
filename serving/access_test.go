package serving_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"

	"github.com/millrace-dev/millrace/serving"
)

// reviewer is an API server that only handles reviews.
type reviewer struct {
	*testing.T
	asked  atomic.Int32
	down   atomic.Bool
	asking chan struct{} // if not nil, each review waits for a value
}

func (r *reviewer) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.asking != nil {
		select {
		case <-r.asking:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	w := httptest.NewRecorder()
	r.serve(w, req)
	return w.Result(), nil
}

func (r *reviewer) serve(w http.ResponseWriter, req *http.Request) {
	r.asked.Add(1)
	if r.down.Load() {
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch req.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		var review authenticationv1.TokenReview
		require.NoError(r, json.NewDecoder(req.Body).Decode(&review))
		if token := review.Spec.Token; token == "alice" || token == "bob" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: token, Groups: []string{"people"}, Extra: map[string]authenticationv1.ExtraValue{"x": {"y"}},
			}}
		}
		answer = review
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		var review authorizationv1.SubjectAccessReview
		require.NoError(r, json.NewDecoder(req.Body).Decode(&review))
		require.Equal(r, []string{"people"}, review.Spec.Groups)
		require.Equal(r, authorizationv1.ExtraValue{"y"}, review.Spec.Extra["x"])
		what := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "alice" && what.Verb == "get" && what.Path == "/metrics"
		answer = review
	default:
		http.NotFound(w, req)
		return
	}
	require.NoError(r, json.NewEncoder(w).Encode(answer))
}

// accessFor wraps a hello handler in Access, with api as the API server.
func accessFor(t *testing.T, api http.RoundTripper, logger *slog.Logger) http.Handler {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, authenticationv1.AddToScheme(scheme))
	require.NoError(t, authorizationv1.AddToScheme(scheme))
	client, err := rest.NewClient(&config.Config{
		Host: "http://api", WrapTransport: func(http.RoundTripper) http.RoundTripper { return jsonOnly{api} },
	}, scheme)
	require.NoError(t, err)
	return serving.Access(client, logger, hello)
}

// askAs sends one request with a token.
func askAs(ctx context.Context, h http.Handler, token, method, path string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, nil).WithContext(ctx)
	req.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestServerAuthorizesCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{T: t}
		h := accessFor(t, api, nil)
		ask := func(method, path, authorization string) int {
			req := httptest.NewRequest(method, path, nil)
			if authorization != "" {
				req.Header.Set("Authorization", authorization)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code != http.StatusOK {
				require.NotEqual(t, "hello", w.Body.String())
			}
			return w.Code
		}
		require.Equal(t, 401, ask("GET", "/metrics", ""))
		require.Equal(t, 401, ask("GET", "/metrics", "Basic alice"))
		require.Equal(t, 401, ask("GET", "/metrics", "Bearer  "))
		require.EqualValues(t, 0, api.asked.Load())
		require.Equal(t, 401, ask("GET", "/metrics", "Bearer mallory"))
		require.Equal(t, 403, ask("GET", "/metrics", "Bearer bob"))
		require.Equal(t, 200, ask("GET", "/metrics", "Bearer alice"))
		require.Equal(t, 403, ask("POST", "/metrics", "Bearer alice"))
		require.Equal(t, 403, ask("GET", "/other", "Bearer alice"))

		// Verdicts are remembered for a while, failures are not.
		asked := api.asked.Load()
		api.down.Store(true)
		require.Equal(t, 200, ask("GET", "/metrics", "bearer alice"))
		require.Equal(t, asked, api.asked.Load())
		time.Sleep(11 * time.Second)
		require.Equal(t, 200, ask("GET", "/metrics", "Bearer alice"))
		require.Equal(t, 503, ask("GET", "/metrics", "Bearer bob"))
		time.Sleep(50 * time.Second)
		require.Equal(t, 503, ask("GET", "/metrics", "Bearer alice"))
		api.down.Store(false)
		require.Equal(t, 200, ask("GET", "/metrics", "Bearer alice"))
	})
}

// jsonOnly rejects protobuf, as some servers do.
type jsonOnly struct{ http.RoundTripper }

func (j jsonOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Content-Type") != "application/json" {
		w := httptest.NewRecorder()
		http.Error(w, "JSON, please", http.StatusUnsupportedMediaType)
		return w.Result(), nil
	}
	return j.RoundTripper.RoundTrip(req)
}

// Requests of callers without rights take little memory.
func TestRefusedCallersTakeNoMemory(t *testing.T) {
	api := &reviewer{T: t}
	h := accessFor(t, api, nil)
	heap := func() uint64 {
		for range 3 {
			goruntime.GC()
		}
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	long := strings.Repeat("A", 900<<10)
	for n := range 20 {
		mallory := fmt.Sprint("mallory", n)
		require.Equal(t, 400, askAs(t.Context(), h, mallory, "A"+long, "/metrics").Code)
		require.Equal(t, 414, askAs(t.Context(), h, mallory, "GET", "/"+long).Code)
		require.Equal(t, 401, askAs(t.Context(), h, mallory+long, "GET", "/metrics").Code)
	}
	require.Zero(t, api.asked.Load(), "refused without asking anybody")
	path := "/" + strings.Repeat("a", 1000)
	for n := range 1200 {
		require.Equal(t, 401, askAs(t.Context(), h, fmt.Sprint("mallory", n), "GET", path).Code)
		require.Equal(t, 403, askAs(t.Context(), h, "bob", "GET", fmt.Sprint(path, n)).Code)
	}
	require.Less(t, int64(heap()-before), int64(1<<20))
	goruntime.KeepAlive(h)
}

func TestInvalidTokenIsReviewedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{T: t}
		h := accessFor(t, api, nil)
		for n := range 100 {
			require.Equal(t, 401, askAs(t.Context(), h, "mallory", "GET", fmt.Sprint("/", n)).Code)
		}
		require.EqualValues(t, 1, api.asked.Load())
		time.Sleep(11 * time.Second)
		require.Equal(t, 401, askAs(t.Context(), h, "mallory", "GET", "/0").Code)
		require.EqualValues(t, 2, api.asked.Load())
	})
}

func TestEqualRequestsAreDecidedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{T: t, asking: make(chan struct{})}
		h := accessFor(t, api, nil)
		gone, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() { askAs(gone, h, "alice", "GET", "/metrics") })
		synctest.Wait() // the first of them starts the review and does not wait for its end
		for range 100 {
			callers.Go(func() {
				if code := askAs(t.Context(), h, "alice", "GET", "/metrics").Code; code != 200 {
					t.Error(code)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(api.asking)
		callers.Wait()
		require.EqualValues(t, 2, api.asked.Load(), "one review of the token, one of the right")
	})
}

// Unknown callers may block each other, but not callers that were allowed recently. A
// question without a waiting caller is not asked.
func TestUnknownCallersDoNotBlockKnownOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{T: t}
		h := accessFor(t, api, nil)
		require.Equal(t, 200, askAs(t.Context(), h, "alice", "GET", "/metrics").Code)
		time.Sleep(2 * time.Minute)
		asked := api.asked.Load()

		api.asking = make(chan struct{})
		crowd, leave := context.WithCancel(t.Context())
		var codes [600]int
		var callers sync.WaitGroup
		for n := range 400 {
			callers.Go(func() { codes[n] = askAs(crowd, h, fmt.Sprint("mallory", n), "GET", "/metrics").Code })
		}
		synctest.Wait()
		busy := 0
		for _, code := range codes {
			if code == 503 {
				busy++
			}
		}
		require.Equal(t, 400-272, busy, "told to come back later")
		require.Equal(t, asked, api.asked.Load())
		callers.Go(func() { codes[501] = askAs(t.Context(), h, "alice", "GET", "/metrics").Code })
		synctest.Wait()
		require.Zero(t, codes[501], "she is asked about, however many strangers wait")

		leave()
		for range 2 {
			synctest.Wait()
			api.asking <- struct{}{}
		}
		callers.Wait()
		require.Equal(t, 200, codes[501])
		time.Sleep(2 * time.Minute)
		again, leave := context.WithCancel(t.Context())
		for n := range 200 {
			callers.Go(func() { askAs(again, h, fmt.Sprint("mallory", n), "GET", "/metrics") })
		}
		synctest.Wait()
		callers.Go(func() { codes[500] = askAs(t.Context(), h, "alice", "GET", "/metrics").Code })
		synctest.Wait()
		for range 2 * 17 { // her two reviews, each after those of 16 unknown callers
			api.asking <- struct{}{}
			synctest.Wait()
			if codes[500] != 0 {
				break
			}
		}
		require.Equal(t, 200, codes[500])
		leave()
		callers.Wait()
	})
}

// If the user's transport panics or exits, access is denied, and neither the process
// nor the request is lost.
func TestPanickingTransportAuthorizesNoCaller(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("boom") }, "exit": goruntime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				h := accessFor(t, failing(fail), slog.New(slog.NewTextHandler(&logged, nil)))
				for range 50 {
					require.Equal(t, 503, askAs(t.Context(), h, "alice", "GET", "/metrics").Code)
				}
				require.Equal(t, 1, strings.Count(logged.String(), "could not ask the API server"), "said once:\n%s", &logged)
			})
		})
	}
}

// failing is a transport that calls a function.
type failing func()

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { f(); return nil, nil }
