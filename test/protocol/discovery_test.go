package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// described are the resources that both servers have.
var described = map[string][]string{
	"/api/v1":                            {"pods", "pods/status", "pods/binding", "pods/eviction", "pods/log", "configmaps", "namespaces", "namespaces/status", "nodes", "nodes/status", "services", "services/status", "secrets", "events", "serviceaccounts", "persistentvolumeclaims", "persistentvolumeclaims/status", "resourcequotas", "resourcequotas/status", "limitranges"},
	"/apis/apps/v1":                      {"deployments", "deployments/status", "deployments/scale", "replicasets/scale", "statefulsets/scale", "replicasets", "replicasets/status", "statefulsets", "statefulsets/status", "daemonsets", "daemonsets/status"},
	"/apis/batch/v1":                     {"jobs", "jobs/status", "cronjobs", "cronjobs/status"},
	"/apis/networking.k8s.io/v1":         {"ingresses", "ingresses/status", "networkpolicies"},
	"/apis/policy/v1":                    {"poddisruptionbudgets", "poddisruptionbudgets/status"},
	"/apis/rbac.authorization.k8s.io/v1": {"roles", "rolebindings", "clusterroles", "clusterrolebindings"},
	"/apis/example.com/v1":               {"widgets", "widgets/status", "widgets/scale"},
	"/apis/coordination.k8s.io/v1":       {"leases"},
}

// TestDiscovery sends the same requests to both servers and compares the answers.
func TestDiscovery(t *testing.T) {
	var answers []map[string]metav1.APIResource
	for _, target := range targets {
		s := &session{target: target, t: t}
		answer := map[string]metav1.APIResource{}
		for path, names := range described {
			_, raw := s.do("GET", path, "")
			l := parse[metav1.APIResourceList](t, raw)
			require.Equal(t, "APIResourceList", l.Kind)
			answer[path] = metav1.APIResource{Version: l.APIVersion, Group: l.GroupVersion}
			for _, r := range l.APIResources {
				r.StorageVersionHash = ""
				answer[path+"/"+r.Name] = r
			}
			for _, name := range names {
				require.Contains(t, answer, path+"/"+name, target.name)
			}
		}
		answers = append(answers, answer)
	}
	for path, names := range described {
		require.Equal(t, answers[len(answers)-1][path], answers[0][path], "%s", path)
		for _, name := range names {
			last := answers[len(answers)-1][path+"/"+name]
			require.Equal(t, last, answers[0][path+"/"+name], "%s/%s", path, name)
		}
	}
}

// TestAggregatedDiscovery does the same in the aggregated form.
func TestAggregatedDiscovery(t *testing.T) {
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	var answers []map[string]discoveryv2.APIResourceDiscovery
	for _, target := range targets {
		s := &session{target: target, t: t}
		answer := map[string]discoveryv2.APIResourceDiscovery{}
		for _, path := range []string{"/api", "/apis"} {
			code, contentType, raw := s.fetch(path, accept+",application/json")
			require.Equal(t, 200, code)
			require.Equal(t, accept, contentType)
			for _, group := range parse[discoveryv2.APIGroupDiscoveryList](t, raw).Items {
				prefix := path
				if group.Name != "" {
					prefix += "/" + group.Name
				}
				for _, version := range group.Versions {
					require.Equal(t, discoveryv2.DiscoveryFreshnessCurrent, version.Freshness)
					for _, r := range version.Resources {
						r.Subresources = statusOnly(r.Subresources)
						answer[prefix+"/"+version.Version+"/"+r.Resource] = r
					}
				}
			}
		}
		answers = append(answers, answer)
	}
	for _, name := range []string{
		"/api/v1/pods", "/api/v1/configmaps", "/api/v1/nodes", "/api/v1/namespaces",
		"/apis/apps/v1/deployments", "/apis/coordination.k8s.io/v1/leases", "/apis/example.com/v1/widgets",
	} {
		require.Contains(t, answers[0], name)
		require.Equal(t, answers[len(answers)-1][name], answers[0][name], "%s", name)
	}
}

func statusOnly(all []discoveryv2.APISubresourceDiscovery) (kept []discoveryv2.APISubresourceDiscovery) {
	for _, sub := range all {
		if sub.Subresource == "status" {
			sub.AcceptedTypes = nil
			kept = append(kept, sub)
		}
	}
	return kept
}

func TestGroups(t *testing.T) {
	forEach(t, func(s *session) {
		_, raw := s.do("GET", "/api", "")
		require.Equal(s.t, []string{"v1"}, parse[metav1.APIVersions](s.t, raw).Versions)
		_, raw = s.do("GET", "/apis", "")
		groups := map[string]metav1.APIGroup{}
		for _, group := range parse[metav1.APIGroupList](s.t, raw).Groups {
			groups[group.Name] = group
		}
		for _, name := range []string{"apps", "example.com", "coordination.k8s.io"} {
			require.Equal(s.t, name+"/v1", groups[name].PreferredVersion.GroupVersion)
			_, raw = s.do("GET", "/apis/"+name, "")
			require.Equal(s.t, "APIGroup", parse[metav1.APIGroup](s.t, raw).Kind)
		}
		for _, path := range []string{"/healthz", "/livez", "/readyz"} {
			code, raw := s.do("GET", path, "")
			require.Equal(s.t, 200, code)
			require.Equal(s.t, "ok", string(raw))
		}
		code, _ := s.do("GET", "/apis/none.example.com/v1/foos", "")
		require.Equal(s.t, 404, code)
	})
}
