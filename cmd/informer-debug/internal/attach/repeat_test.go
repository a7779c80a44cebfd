package attach

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// If a server that is not the process repeats the token, the token is not shown.
func TestAnAnswerThatRepeatsTheToken(t *testing.T) {
	const token = "kd93Hq7mZw0Lx2TtUe8vPzR41"
	for name, answer := range map[string]http.HandlerFunc{
		"page": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "not allowed: "+r.Header.Get("Authorization"), http.StatusForbidden)
		},
		"type": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "a/"+r.Header.Get("Authorization")[len("Bearer "):])
		},
		"status": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","message":"not allowed: `+r.Header.Get("Authorization")+`"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(answer)
			defer server.Close()
			f := &Flags{To: server.URL}
			f.Connect.Load.Token, f.Connect.Load.InsecureSkipTLSVerify = token, true
			s := terminal.Streams{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}
			client, called, err := f.Attach(s)
			require.NoError(t, err)
			_, err = client.Status(t.Context())
			require.Error(t, err)
			require.NotContains(t, f.Unanswered(t.Context(), called, err).Error(), token)
		})
	}
}
