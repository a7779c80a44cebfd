package envtest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failing webhook fails its request. The error names the webhook, its address, and
// the cause.
func TestWebhooksThatDoNotWork(t *testing.T) {
	s := Start(t, Options{})
	w, err := s.Webhook()
	require.NoError(t, err)
	right, err := tls.LoadX509KeyPair(filepath.Join(w.CertDir, "tls.crt"), filepath.Join(w.CertDir, "tls.key"))
	require.NoError(t, err)
	strange := httptest.NewTLSServer(nil)
	wrong := strange.TLS.Certificates[0]
	strange.Close()
	says := func(code int, contentType, text string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", contentType)
			rw.WriteHeader(code)
			_, _ = io.WriteString(rw, text)
		}
	}
	const page = "<!DOCTYPE html><html><title>Log in</title></html>"
	for name, hook := range map[string]struct {
		tls  *tls.Certificate // nil means plain HTTP
		says http.HandlerFunc // nil means that nothing listens
		want string
	}{
		"nobody":            {nil, nil, "connection refused"},
		"wrong certificate": {&wrong, says(200, "text/html", page), "certificate signed by unknown authority"},
		"no tls":            {nil, says(200, "text/html", page), "server gave HTTP response to HTTPS client"},
		"page":              {&right, says(200, "text/html", page), "and the response is not an AdmissionReview"},
		"page and code":     {&right, says(502, "text/html", page), "<title>Log in</title>"},
		"other object":      {&right, says(200, "application/json", `{"apiVersion": "v1", "kind": "Pod"}`), "Pod"},
		"hangs":             {&right, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			if hook.says != nil {
				l, err := net.Listen("tcp", net.JoinHostPort(w.Host, strconv.Itoa(w.Port)))
				require.NoError(t, err)
				if hook.tls != nil {
					l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*hook.tls}})
				}
				server := &http.Server{Handler: hook.says, ErrorLog: log.New(io.Discard, "", 0)}
				done := make(chan struct{})
				go func() { defer close(done); _ = server.Serve(l) }()
				t.Cleanup(func() { server.Close(); <-done })
			}
			called := strings.ReplaceAll(name, " ", "-") + ".mill.example" // shows that the server has this configuration
			require.NoError(t, s.Install(t.Context(), map[string]any{
				"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
				"metadata": map[string]any{"name": "maps"},
				"webhooks": []any{map[string]any{
					"name": called, "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "timeoutSeconds": 1,
					"clientConfig": map[string]any{"service": map[string]any{"namespace": "mill", "name": "webhook", "path": "/maps"}},
					"rules":        []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"*"}, "resources": []any{"configmaps"}}},
				}},
			}))
			var err error
			require.NoError(t, await(t.Context(), "the webhook is asked", func(ctx context.Context) (bool, error) {
				err = s.Install(ctx, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "asked"}, "data": map[string]any{"n": rand.Text()}})
				return err != nil && strings.Contains(err.Error(), called), nil
			}), "%v", err)
			require.ErrorContains(t, err, `envtest: install ConfigMap asked: `)
			require.ErrorContains(t, err, `failed calling webhook "`+called+`"`)
			require.ErrorContains(t, err, hook.want)
			require.ErrorContains(t, err, "; webhooks that refer to a Service are called at "+w.URL("/"))
		})
	}
}
