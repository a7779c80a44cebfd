package envtest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const definition = `
# The definition of a wheel.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %s.mill.example
spec:
  group: mill.example
  scope: Namespaced
  names: {kind: %s, plural: %s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v0
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func define(plural, kind string) string {
	return strings.NewReplacer("%s.mill", plural+".mill", "kind: %s", "kind: "+kind, "plural: %s", "plural: "+plural).Replace(definition)
}

// CustomResourceDefinition resembles the Go type of that name: it has no apiVersion and
// kind, but a status.
type CustomResourceDefinition struct {
	Metadata map[string]any `json:"metadata"`
	Spec     map[string]any `json:"spec"`
	Status   map[string]any `json:"status"`
}

// TestInstall installs everything in one server.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	// The object precedes the definition of its kind.
	write("a.yaml", "apiVersion: mill.example/v1\nkind: Wheel\nmetadata: {name: overshot}\n---\n"+define("wheels", "Wheel")+"---\n# nothing\n")
	write("kustomization.yaml", "kind: Kustomization\nresources: [a.yaml]\n")
	write("README.md", "not YAML: {")
	s := Start(t, Options{Files: []string{dir}, Audit: AuditRequest})
	c := newCaller(t, s, s.AdminToken)
	const wheels = "/apis/mill.example/v1/namespaces/default/wheels"
	require.Equal(t, []string{"overshot"}, c.call(http.StatusOK, http.MethodGet, wheels, nil).names())

	t.Run("again", func(t *testing.T) { require.NoError(t, s.InstallFiles(t.Context(), dir)) })
	t.Run("Go types", func(t *testing.T) {
		var spec struct {
			Spec map[string]any `json:"spec"`
		}
		all, err := documents([]byte(define("races", "Race")))
		require.NoError(t, err)
		text, err := json.Marshal(all[0])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &spec))
		crd := &CustomResourceDefinition{map[string]any{"name": "races.mill.example", "creationTimestamp": nil}, spec.Spec, map[string]any{"conditions": nil, "storedVersions": nil}}
		require.NoError(t, s.Install(t.Context(), crd))
		c.call(http.StatusOK, http.MethodGet, "/apis/mill.example/v1/races", nil)
	})
	t.Run("what cannot be", func(t *testing.T) {
		write("b.yaml", "kind: Mill\n")
		for want, err := range map[string]error{
			"b.yaml: document 1: an object needs apiVersion": s.InstallFiles(t.Context(), filepath.Join(dir, "b.yaml")),
			"the path is empty":             s.InstallFiles(t.Context(), ""),
			"it contains no objects":        s.InstallFiles(t.Context(), t.TempDir()),
			"no such file":                  s.InstallFiles(t.Context(), filepath.Join(dir, "none.yaml")),
			"it is nil":                     s.Install(t.Context(), (*CustomResourceDefinition)(nil)),
			"apiVersion or kind is missing": s.Install(t.Context(), map[string]any{"metadata": map[string]any{"name": "x"}}),
			"the server does not serve apiextensions.k8s.io/v1beta1: install the definition of kind CustomResourceDefinition too, or use": s.Install(t.Context(),
				map[string]any{"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "x"}}),
			"does not serve kind Mill in v1": s.Install(t.Context(), map[string]any{"apiVersion": "v1", "kind": "Mill", "metadata": map[string]any{"name": "x"}}),
			"Invalid value":                  s.InstallFiles(t.Context(), invalid(t)),
		} {
			require.ErrorContains(t, err, want)
		}
	})
	t.Run("in several files", func(t *testing.T) {
		below := filepath.Join(t.TempDir(), "crd")
		require.NoError(t, os.Mkdir(below, 0o700))
		put := func(name, text string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(below, name), []byte(text), 0o600))
		}
		put("a.yaml", define("sluices", "Sluice"))
		put("b.json", `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "mill.example/v1", "kind": "Sluice", "metadata": {"name": "upper"}}]}`)
		put("c.yaml", "# the same again\n"+define("sluices", "Sluice"))
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(below, link))
		require.NoError(t, s.InstallFiles(t.Context(), link, filepath.Join(below, "a.yaml")))
		c.call(http.StatusOK, http.MethodGet, "/apis/mill.example/v1/namespaces/default/sluices/upper", nil)

		put("c.yaml", strings.Replace(define("sluices", "Sluice"), "Namespaced", "Cluster", 1))
		err := s.InstallFiles(t.Context(), below)
		require.ErrorContains(t, err, "install CustomResourceDefinition sluices.mill.example: "+filepath.Join(below, "a.yaml")+" (object 1) and "+filepath.Join(below, "c.yaml")+" (object 1) define it differently: ")
	})
	t.Run("names that are taken", func(t *testing.T) {
		write("b.yaml", define("mills", "Wheel"))
		err := s.InstallFiles(t.Context(), filepath.Join(dir, "b.yaml"))
		require.ErrorContains(t, err, "is already in use")
	})
	t.Run("webhook", func(t *testing.T) { admits(t, s, c) })
	t.Run("users", func(t *testing.T) { hasRights(t, s) })
	t.Run("audit", func(t *testing.T) {
		c.call(http.StatusCreated, http.MethodPost, configMaps, configMap("audited"))
		events, err := s.AuditEvents()
		require.NoError(t, err)
		for _, e := range events {
			if e.Verb == "create" && e.ObjectRef.Resource == "configmaps" && strings.Contains(string(e.RequestObject), "audited") {
				require.Equal(t, http.StatusCreated, e.ResponseStatus.Code)
				require.Equal(t, "admin", e.User.Username)
				require.False(t, e.StageTimestamp.IsZero())
				return
			}
		}
		t.Errorf("the request is not among %d events", len(events))
	})
}

func invalid(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "invalid.json")
	require.NoError(t, os.WriteFile(name, []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "No Name"}}`), 0o600))
	return name
}

// The server gets the exact numbers in a file or a Go value.
func TestNumbersStayAsTheyAre(t *testing.T) {
	all, err := documents([]byte(`
apiVersion: mill.example/v1
kind: Wheel
metadata: {name: yaml}
spec: {turns: [9007199254740993, 0.5]} # the first one is nothing that a float64 can hold
---
{"apiVersion": "mill.example/v1", "kind": "Wheel", "metadata": {"name": "json"}, "spec": {"turns": [9007199254740993, 0.5]}}
`))
	require.NoError(t, err)
	o, err := asObject(object{"apiVersion": "mill.example/v1", "kind": "Wheel", "metadata": object{"name": "go"}, "spec": object{"turns": []any{int64(9007199254740993), 0.5}}})
	require.NoError(t, err)
	all = append(all, o)
	require.Len(t, all, 3)
	for _, o := range all {
		sent, err := json.Marshal(o["spec"])
		require.NoError(t, err)
		require.Equal(t, `{"turns":[9007199254740993,0.5]}`, string(sent), o)
	}
}

// Of all kinds named Kustomization, only kustomize's own is not an API object.
func TestAKustomizationOfAnotherGroupIsAnObject(t *testing.T) {
	all, err := documents([]byte(`
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: mill}
---
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [a.yaml]
---
kind: Kustomization
resources: [a.yaml]
`))
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "Kustomization mill", all[0].String())
}

// admits installs and serves a webhook at a Service, which rejects objects with a
// certain name.
func admits(t *testing.T, s *Server, c *caller) {
	w, err := s.Webhook()
	require.NoError(t, err)
	pair, err := tls.LoadX509KeyPair(filepath.Join(w.CertDir, "tls.crt"), filepath.Join(w.CertDir, "tls.key"))
	require.NoError(t, err)
	l, err := tls.Listen("tcp", net.JoinHostPort(w.Host, strconv.Itoa(w.Port)), &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	hook := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var review struct{ Request struct{ UID string } }
		_ = json.Unmarshal(text, &review)
		_ = json.NewEncoder(rw).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": map[string]any{
			"uid": review.Request.UID, "allowed": r.URL.Path != "/validate", "status": map[string]any{"message": "no more wheels"},
		}})
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = hook.Serve(l) }()
	t.Cleanup(func() { hook.Close(); <-done })

	require.NoError(t, s.Install(t.Context(), map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": map[string]any{"name": "wheels"},
		"webhooks": []any{map[string]any{
			"name": "wheels.mill.example", "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{"service": map[string]any{"namespace": "mill", "name": "webhook", "path": "/validate"}},
			"rules":        []any{map[string]any{"apiGroups": []any{"mill.example"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"wheels"}}},
		}},
	}))
	refused := func() bool {
		resp := c.open(http.MethodPost, "/apis/mill.example/v1/namespaces/default/wheels?dryRun=All",
			map[string]any{"apiVersion": "mill.example/v1", "kind": "Wheel", "metadata": map[string]any{"name": "breastshot"}})
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return strings.Contains(string(text), "no more wheels")
	}
	// The server learns of the configuration by a watch.
	require.NoError(t, await(t.Context(), "the webhook refuses", func(context.Context) (bool, error) { return refused(), nil }))
}

// hasRights adds users with few rights.
func hasRights(t *testing.T, s *Server) {
	login := func(u User) *caller {
		t.Helper()
		c, err := s.AddUser(t.Context(), u)
		require.NoError(t, err)
		require.FileExists(t, c.Kubeconfig)
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		require.NoError(t, err)
		return newCaller(t, s, "", pair)
	}
	read := []string{"get", "list"}
	ann := login(User{Name: "ann", Rules: []Rule{
		{Verbs: read, Resources: []string{"configmaps"}, Namespace: "default"},
		{Verbs: []string{"*"}, Resources: []string{"nodes", "nodes/status"}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
	}})
	ann.call(http.StatusOK, http.MethodGet, configMaps, nil)
	ann.call(http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/kube-system/configmaps", nil)
	ann.call(http.StatusForbidden, http.MethodPost, configMaps, configMap("x"))
	ann.call(http.StatusOK, http.MethodGet, "/api/v1/nodes", nil)
	got := ann.call(http.StatusForbidden, http.MethodGet, "/api/v1/secrets", nil)
	require.Contains(t, got.Message, `User "ann" cannot list`)

	less := login(User{Name: "ann", Rules: []Rule{{Verbs: read, Resources: []string{"pods"}}}})
	less.call(http.StatusOK, http.MethodGet, "/api/v1/pods", nil)
	for _, path := range []string{"/api/v1/nodes", configMaps} {
		require.NoError(t, await(t.Context(), "the right to get "+path+" is taken away", func(context.Context) (bool, error) {
			resp := less.open(http.MethodGet, path, nil)
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusForbidden, nil
		}))
	}
	login(User{Name: "system:admin/../x", Groups: []string{"system:masters"}}).call(http.StatusOK, http.MethodGet, "/api/v1/secrets", nil)

	login(User{Name: "system:serviceaccount:" + strings.Repeat("n", 63) + ":" + strings.Repeat("s", 253)})

	_, err := s.AddUser(t.Context(), User{})
	require.ErrorContains(t, err, "User.Name must be set")
	_, err = s.AddUser(t.Context(), User{Name: "bob", Rules: []Rule{{Verbs: read}}})
	require.ErrorContains(t, err, "allows nothing")
}
