package canary

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
)

// A reader of metrics sends a token, which goes to the API server in a TokenReview. If the server
// repeats the token in any answer, it is not logged.
func TestAuthenticatedMetrics(t *testing.T) {
	said := newLedger()
	reviews := runtime.NewScheme()
	require.NoError(t, authenticationv1.AddToScheme(reviews))
	require.NoError(t, authorizationv1.AddToScheme(reviews))
	for name, parrot := range parrots {
		t.Run(name, func(t *testing.T) {
			var reviewed atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					panic(http.ErrAbortHandler)
				}
				text := heard(r)
				if bytes.Contains(body, []byte(canaries["scraper token"])) {
					reviewed.Store(true)
					text += " " + canaries["scraper token"]
				}
				parrot(w, text)
			}))
			defer server.Close()
			client, err := rest.NewClient(&config.Config{Host: server.URL, BearerToken: canaries["token"], Logger: said.logger()}, reviews)
			require.NoError(t, err)
			defer client.CloseIdleConnections()
			metrics := httptest.NewServer(serving.Access(client, said.logger(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			defer metrics.Close()
			for _, path := range []string{"/metrics", "/metrics?" + fmt.Sprint(1), "/other"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, metrics.URL+path, nil)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer "+canaries["scraper token"])
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				resp.Body.Close()
				said.say("metrics", fmt.Sprint(resp.Status, resp.Header, string(body)))
			}
			require.True(t, reviewed.Load(), "the server was not asked")
		})
	}
	said.requireSilence(t, "log", "log in JSON", "metrics")
}
