package serving_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
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

// reviewer is an API server that does nothing but review.
type reviewer struct {
	*testing.T
	asked atomic.Int32
	down  atomic.Bool
}

func (r *reviewer) RoundTrip(req *http.Request) (*http.Response, error) {
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

func TestTheServerDecidesWhoMayAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		require.NoError(t, authenticationv1.AddToScheme(scheme))
		require.NoError(t, authorizationv1.AddToScheme(scheme))
		api := &reviewer{T: t}
		client, err := rest.NewClient(&config.Config{
			Host: "http://api", WrapTransport: func(http.RoundTripper) http.RoundTripper { return jsonOnly{api} },
		}, scheme)
		require.NoError(t, err)
		h := serving.Access(client, nil, hello)
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

// jsonOnly refuses protobuf, as a server may.
type jsonOnly struct{ http.RoundTripper }

func (j jsonOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Content-Type") != "application/json" {
		w := httptest.NewRecorder()
		http.Error(w, "JSON, please", http.StatusUnsupportedMediaType)
		return w.Result(), nil
	}
	return j.RoundTripper.RoundTrip(req)
}
