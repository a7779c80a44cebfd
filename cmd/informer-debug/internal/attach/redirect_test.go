package attach

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
)

// A pod cannot redirect its viewer's credentials to another path of the API server, which passes on
// a relative address unchanged.
func TestPodCannotRedirectCredentials(t *testing.T) {
	var elsewhere []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/janitor-0:6060/proxy/") {
			w.Header().Set("Location", "../../../../../../../kube-system/services/http:bank:80/proxy/transfer?to=mallory")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		elsewhere = append(elsewhere, r.RequestURI)
	}))
	defer api.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '%s'}}]}`, api.URL), 0o600))
	f := &Flags{To: "pod/shop/janitor-0:6060"}
	f.Connect.Load.Kubeconfig = path
	var stdout, stderr debugtest.Transcript
	process, _, err := f.Attach(debugtest.Onto(&stdout, &stderr))
	require.NoError(t, err)
	_, err = process.Status(t.Context())
	require.ErrorContains(t, err, "redirects to another address, which is not followed")
	require.Empty(t, elsewhere)
}
