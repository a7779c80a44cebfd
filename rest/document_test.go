package rest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// A password may be a word that discovery needs. Texts that cannot be names are
// concealed nevertheless.
func TestPasswordThatIsAWordDoesNotBreakDiscovery(t *testing.T) {
	const token = "sha256~Zq8vXw2kTr5yLmB"
	for _, password := range []string{"list", "gizmos", "gizm", "example", "kind", "v1beta1", "gizmos.example.com"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/apis":
				fmt.Fprintf(w, `{"kind":"APIGroupList","apiVersion":"v1","note":"asked with %s","groups":[{"name":"example.com","versions":[{"groupVersion":"example.com/v1beta1","version":"v1beta1"}]}]}`, r.Header.Get("Authorization"))
			case "/apis/example.com/v1beta1":
				fmt.Fprintf(w, `{"kind":"APIResourceList","groupVersion":"example.com/v1beta1","note":%q,"resources":[{"name":"gizmos","kind":"Gizmo","namespaced":true,"verbs":["list","watch"]},{"name":%q,"kind":"Odd","verbs":[]}]}`, password, token)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		defer s.Close()
		for _, cfg := range []*config.Config{{Host: s.URL, Username: "me", Password: password}, {Host: s.URL, BearerToken: token}} {
			client, err := rest.NewClient(cfg, nil)
			require.NoError(t, err)
			defer client.CloseIdleConnections()
			m, err := client.Mapper().MappingForKind(t.Context(), object.GVK{Group: "example.com", Version: "v1beta1", Kind: "Gizmo"})
			require.NoError(t, err, "password %q", password)
			require.Equal(t, "gizmos", m.Resource.Resource)
			require.True(t, m.Namespaced)
			require.Equal(t, []string{"list", "watch"}, m.Verbs)
			odd, err := client.Mapper().MappingForKind(t.Context(), object.GVK{Group: "example.com", Version: "v1beta1", Kind: "Odd"})
			require.NoError(t, err)
			require.Equal(t, cfg.BearerToken == "", odd.Resource.Resource == token, "the token must not stay, since names are shown")
		}
	}
}
