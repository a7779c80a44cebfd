package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// TestDiscovery discovers the resources of the server, in the aggregated form and, for servers
// without that, group by group.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	aggregated := connect(t, shared, "nobody") // every user may use discovery
	cfg := loadConfig(t, shared, "nobody")
	cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Accept", "application/json")
			return next.RoundTrip(r)
		})
	}
	classic := newClient(t, cfg)
	served := builtins(t, aggregated)
	require.Greater(t, len(served), 60)
	require.ElementsMatch(t, served, builtins(t, classic), "both forms say the same")

	for _, client := range []*rest.Client{aggregated, classic} {
		for _, tc := range []struct {
			ask  object.GVR
			want object.GVR
		}{
			{object.GVR{Resource: "po"}, corev1.SchemeGroupVersion.WithResource("pods")},
			{object.GVR{Resource: "Pod"}, corev1.SchemeGroupVersion.WithResource("pods")},
			{object.GVR{Resource: "deploy"}, appsv1.SchemeGroupVersion.WithResource("deployments")},
			{object.GVR{Resource: "deployments", Group: "apps", Version: "v1"}, appsv1.SchemeGroupVersion.WithResource("deployments")},
			{object.GVR{Resource: "events"}, corev1.SchemeGroupVersion.WithResource("events")},
			{object.GVR{Resource: "crd"}, object.GVR{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}},
		} {
			m, err := client.Mapper().MappingForResource(t.Context(), tc.ask)
			require.NoError(t, err, "%v", tc.ask)
			require.Equal(t, tc.want, m.Resource, "%v", tc.ask)
		}
		m, err := client.Mapper().MappingForKind(t.Context(), appsv1.SchemeGroupVersion.WithKind("Deployment"))
		require.NoError(t, err)
		require.True(t, m.Namespaced)
		require.Subset(t, m.Verbs, []string{"list", "watch", "patch"})
		require.ElementsMatch(t, []string{"status", "scale"}, m.Subresources)
		_, err = client.Mapper().MappingForKind(t.Context(), corev1.SchemeGroupVersion.WithKind("Pot"))
		require.True(t, meta.IsNoMatchError(err), "%v", err)
	}

	// The built-in paths are those of the server.
	known := 0
	for _, m := range builtins(t, aggregated) {
		if b, ok := discovery.Builtin(m.Kind); ok && m.Kind.GroupVersion() == m.Resource.GroupVersion() {
			known++
			require.Equal(t, m.Resource, b.Resource)
			require.Equal(t, m.Namespaced, b.Namespaced, "%v", m.Resource)
			require.Equal(t, m.Singular, b.Singular, "%v", m.Resource)
		}
	}
	require.Greater(t, known, 50)

	mapper := aggregated.Mapper().RESTMapper(t.Context())
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "StatefulSet"})
	require.NoError(t, err)
	require.Equal(t, "statefulsets", mapping.Resource.Resource)
	require.Equal(t, meta.RESTScopeNameNamespace, mapping.Scope.Name())
}

// builtins returns the resources of the server without the custom resources of other tests.
func builtins(t *testing.T, client *rest.Client) []discovery.Mapping {
	t.Helper()
	all, err := client.Mapper().Mappings(t.Context())
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(m discovery.Mapping) bool { return strings.HasSuffix(m.Resource.Group, ".example.com") })
}
