package envtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// policy holds the rules of a role.
type policy struct{ Verbs, APIGroups, Resources []string }

// authorizer is a server that learns of a written role only after it has denied
// something in the role's namespace.
type authorizer struct {
	written, known map[string][]policy // by namespace
}

// serve returns a Server whose requests go to the authorizer.
func (a *authorizer) serve(t *testing.T) *Server {
	t.Helper()
	a.written, a.known = map[string][]policy{}, map[string][]policy{}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	return &Server{URL: srv.URL}
}

func (a *authorizer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Kind     string
		Metadata struct{ Namespace string }
		Rules    []policy
		Spec     struct {
			ResourceAttributes struct{ Namespace, Verb, Group, Resource string }
		}
	}
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	answer := map[string]any{}
	switch {
	case strings.HasSuffix(r.URL.Path, "/v1"): // discovery
		answer["resources"] = []resource{
			{Name: "clusterroles", Kind: "ClusterRole"}, {Name: "clusterrolebindings", Kind: "ClusterRoleBinding"},
			{Name: "roles", Kind: "Role", Namespaced: true}, {Name: "rolebindings", Kind: "RoleBinding", Namespaced: true},
		}
	case body.Kind == "SubjectAccessReview":
		asked := body.Spec.ResourceAttributes
		allowed := slices.ContainsFunc(slices.Concat(a.known[""], a.known[asked.Namespace]), func(p policy) bool {
			return slices.Contains(p.Verbs, asked.Verb) && slices.Contains(p.APIGroups, asked.Group) && slices.Contains(p.Resources, asked.Resource)
		})
		answer["status"] = map[string]bool{"allowed": allowed}
		if !allowed {
			a.known[asked.Namespace] = a.written[asked.Namespace]
		}
	case strings.HasSuffix(body.Kind, "Role"):
		a.written[body.Metadata.Namespace] = body.Rules
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// AddUser returns when the server knows all rights, even if the user had some before.
func TestAllRightsOfAUserAreAwaited(t *testing.T) {
	var a authorizer
	s := a.serve(t)
	for _, verbs := range [][]string{{"get"}, {"get", "list"}, {"get"}} {
		require.NoError(t, s.grant(t.Context(), http.DefaultClient, User{Name: "ann", Rules: []Rule{
			{Verbs: verbs, Resources: []string{"pods"}},
			{Verbs: verbs, Resources: []string{"pods", "configmaps"}, Namespace: "mill"},
		}}))
		require.Contains(t, a.known[""], policy{verbs, []string{""}, []string{"pods"}})
		require.Contains(t, a.known["mill"], policy{verbs, []string{""}, []string{"pods", "configmaps"}})
	}
}

// A rule may contain a subslice, whose array is not changed.
func TestTheSlicesOfARuleStayTheCallers(t *testing.T) {
	var a authorizer
	s := a.serve(t)
	names, groups := []string{"first", "second"}, []string{"apps", "batch"}
	require.NoError(t, s.grant(t.Context(), http.DefaultClient, User{Name: "ann", Rules: []Rule{
		{Verbs: []string{"get"}, Resources: []string{"pods"}, ResourceNames: names[:1], APIGroups: groups[:1]},
	}}))
	require.Equal(t, []string{"first", "second"}, names)
	require.Equal(t, []string{"apps", "batch"}, groups)
}
