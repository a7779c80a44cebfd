package protocol

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const aggregatedDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// allVerbs are in the order in which discovery gives them.
var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// resources are some of those that both servers serve.
var resources = []struct {
	groupVersion string
	want         metav1.APIResource
}{
	{"v1", metav1.APIResource{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}, Categories: []string{"all"}}},
	{"v1", metav1.APIResource{Name: "pods/status", Kind: "Pod", Namespaced: true}},
	{"v1", metav1.APIResource{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", Namespaced: true, ShortNames: []string{"cm"}}},
	{"v1", metav1.APIResource{Name: "nodes", SingularName: "node", Kind: "Node", ShortNames: []string{"no"}}},
	{"apps/v1", metav1.APIResource{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}, Categories: []string{"all"}}},
	{"coordination.k8s.io/v1", metav1.APIResource{Name: "leases", SingularName: "lease", Kind: "Lease", Namespaced: true}},
	{"example.com/v1", metav1.APIResource{Name: "widgets", SingularName: "widget", Kind: "Widget", Namespaced: true}},
	{"example.com/v1", metav1.APIResource{Name: "widgets/status", Kind: "Widget", Namespaced: true}},
}

func TestClassicDiscovery(t *testing.T) {
	forEach(t, func(s *session) {
		_, contentType, raw := s.fetch("/api", "application/json")
		require.Equal(s.t, "application/json", contentType)
		require.Equal(s.t, []string{"v1"}, parse[metav1.APIVersions](s.t, raw).Versions)
		_, _, raw = s.fetch("/apis", "application/json")
		groups := parse[metav1.APIGroupList](s.t, raw)
		require.Equal(s.t, "APIGroupList", groups.Kind)
		at := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "apps" })
		require.Equal(s.t, "apps/v1", groups.Groups[at].PreferredVersion.GroupVersion)
		_, _, raw = s.fetch("/apis/example.com", "application/json")
		require.Equal(s.t, []metav1.GroupVersionForDiscovery{{GroupVersion: "example.com/v1", Version: "v1"}}, parse[metav1.APIGroup](s.t, raw).Versions)

		for _, tc := range resources {
			path := "/apis/" + tc.groupVersion
			if tc.groupVersion == "v1" {
				path = "/api/v1"
			}
			_, _, raw := s.fetch(path, "application/json")
			l := parse[metav1.APIResourceList](s.t, raw)
			require.Equal(s.t, tc.groupVersion, l.GroupVersion)
			at := slices.IndexFunc(l.APIResources, func(r metav1.APIResource) bool { return r.Name == tc.want.Name })
			require.GreaterOrEqual(s.t, at, 0, "%s", tc.want.Name)
			got := l.APIResources[at]
			if tc.want.SingularName != "" {
				slices.Sort(got.Verbs) // custom resources have them in another order
				require.EqualValues(s.t, allVerbs, got.Verbs, "%s", tc.want.Name)
			}
			got.Verbs, got.StorageVersionHash = nil, ""
			require.Equal(s.t, tc.want, got)
		}
		for _, path := range []string{"/apis/none.example.com", "/apis/none.example.com/v1", "/api/v9", "/nonsense"} {
			code, _, _ := s.fetch(path, "application/json")
			require.Equal(s.t, 404, code, "%s", path)
		}
	})
}

func TestAggregatedDiscovery(t *testing.T) {
	forEach(t, func(s *session) {
		type found struct {
			groupVersion string
			resource     discoveryv2.APIResourceDiscovery
		}
		all := map[string]found{}
		for _, path := range []string{"/api", "/apis"} {
			_, contentType, raw := s.fetch(path, aggregatedDiscovery+",application/json")
			require.Equal(s.t, aggregatedDiscovery, contentType)
			l := parse[discoveryv2.APIGroupDiscoveryList](s.t, raw)
			require.Equal(s.t, "apidiscovery.k8s.io/v2 APIGroupDiscoveryList", l.APIVersion+" "+l.Kind)
			for _, group := range l.Items {
				require.Equal(s.t, path == "/api", group.Name == "")
				for _, version := range group.Versions {
					require.Equal(s.t, discoveryv2.DiscoveryFreshnessCurrent, version.Freshness)
					gv := metav1.GroupVersion{Group: group.Name, Version: version.Version}.String()
					for _, r := range version.Resources {
						all[gv+" "+r.Resource] = found{gv, r}
					}
				}
			}
		}
		for _, tc := range resources {
			if tc.want.SingularName == "" {
				continue
			}
			r := all[tc.groupVersion+" "+tc.want.Name].resource
			require.NotNil(s.t, r.ResponseKind, "%s", tc.want.Name)
			scope := discoveryv2.ScopeCluster
			if tc.want.Namespaced {
				scope = discoveryv2.ScopeNamespace
			}
			slices.Sort(r.Verbs)
			require.Equal(s.t, tc.want.Kind, r.ResponseKind.Kind)
			require.Equal(s.t, tc.want.SingularName, r.SingularResource)
			require.Equal(s.t, scope, r.Scope)
			require.Equal(s.t, allVerbs, r.Verbs)
			require.Equal(s.t, tc.want.ShortNames, r.ShortNames)
			require.Equal(s.t, tc.want.Categories, r.Categories)
		}
		var sub []string
		for _, r := range all["example.com/v1 widgets"].resource.Subresources {
			sub = append(sub, r.Subresource)
		}
		require.Equal(s.t, []string{"status"}, sub)
	})
}
