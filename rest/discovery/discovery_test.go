package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/test/hostile"
)

// fakeServer answers discovery for the given groups, in the format configured for each
// root.
type fakeServer struct {
	mu      sync.Mutex
	groups  []fakeGroup // the first may be the core group
	classic map[string]bool
	v2beta1 bool
	fail    map[string]error       // by path; for a group version's path, the aggregated document is stale
	bodies  map[string]string      // by path: a JSON body instead of the document
	latency time.Duration          // of each request
	calls   map[string]int         // requests by path
	started map[string][]time.Time // start times of requests by path
	flight  int                    // current and maximum number of concurrent requests
	most    int
}

type fakeGroup struct {
	name      string
	preferred string // default: the first
	versions  []fakeVersion
}

type fakeVersion struct {
	name      string
	resources []metav1.APIResource // a name with a slash is a subresource
}

// newFakeServer returns a server with some of the usual groups and one with custom
// resources, in the order of a real server.
func newFakeServer() *fakeServer {
	all := metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	return &fakeServer{
		classic: map[string]bool{}, fail: map[string]error{}, bodies: map[string]string{},
		calls: map[string]int{}, started: map[string][]time.Time{},
		groups: []fakeGroup{
			{versions: []fakeVersion{{"v1", []metav1.APIResource{
				{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}, Verbs: all},
				{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}, Categories: []string{"all"}, Verbs: all},
				{Name: "pods/log", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get"}},
				{Name: "pods/status", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get", "patch", "update"}},
				{Name: "events", SingularName: "event", Kind: "Event", Namespaced: true, ShortNames: []string{"ev"}, Verbs: all},
			}}}},
			{name: "apps", versions: []fakeVersion{{"v1", []metav1.APIResource{
				{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}, Categories: []string{"all"}, Verbs: all},
				{Name: "deployments/scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Namespaced: true, Verbs: metav1.Verbs{"get", "patch", "update"}},
			}}}},
			{name: "events.k8s.io", versions: []fakeVersion{{"v1", []metav1.APIResource{
				{Name: "events", SingularName: "event", Kind: "Event", Namespaced: true, ShortNames: []string{"ev"}, Verbs: all},
			}}}},
			{name: "autoscaling", versions: []fakeVersion{
				{"v2", []metav1.APIResource{{Name: "horizontalpodautoscalers", SingularName: "horizontalpodautoscaler", Kind: "HorizontalPodAutoscaler", Namespaced: true, ShortNames: []string{"hpa"}, Verbs: all}}},
				{"v1", []metav1.APIResource{{Name: "horizontalpodautoscalers", SingularName: "horizontalpodautoscaler", Kind: "HorizontalPodAutoscaler", Namespaced: true, ShortNames: []string{"hpa"}, Verbs: all}}},
			}},
			{name: "storage.k8s.io", versions: []fakeVersion{{"v1", []metav1.APIResource{
				{Name: "storageclasses", SingularName: "storageclass", Kind: "StorageClass", ShortNames: []string{"sc"}, Verbs: all},
			}}}},
			{name: "metrics.k8s.io", versions: []fakeVersion{{"v1beta1", []metav1.APIResource{
				{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
			}}}},
			{name: "example.com", preferred: "v1", versions: []fakeVersion{
				{"v2alpha1", []metav1.APIResource{
					{Name: "widgets", SingularName: "widget", Kind: "Widget", Namespaced: true, Verbs: all},
					{Name: "gadgets", SingularName: "gadget", Kind: "Gadget", Verbs: all},
				}},
				{"v1", []metav1.APIResource{{Name: "widgets", SingularName: "widget", Kind: "Widget", Namespaced: true, Verbs: all}}},
			}},
		},
	}
}

func (s *fakeServer) get(ctx context.Context, path, accept string) ([]byte, string, error) {
	s.mu.Lock()
	s.calls[path]++
	s.started[path] = append(s.started[path], time.Now())
	s.flight++
	s.most = max(s.most, s.flight)
	latency := s.latency
	s.mu.Unlock()
	if latency > 0 { // timers that are due when created crash the race detector in a bubble: go.dev/issue/78156
		select {
		case <-time.After(latency):
		case <-ctx.Done():
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight--
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	aggregated := strings.Contains(accept, "as=APIGroupDiscoveryList") && !s.classic[path]
	if err := s.fail[path]; err != nil {
		return nil, "", err
	}
	if body, ok := s.bodies[path]; ok {
		return []byte(body), "application/json", nil
	}
	doc, contentType := s.document(path, aggregated)
	if doc == nil {
		return nil, "", apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	body, err := json.Marshal(doc)
	return body, contentType, err
}

func (s *fakeServer) document(path string, aggregated bool) (any, string) {
	switch {
	case path != coreRoot && path != groupsRoot:
		return s.resourceList(path), "application/json"
	case aggregated:
		version := "v2"
		if s.v2beta1 {
			version = "v2beta1"
		}
		return s.aggregated(path, version), "application/json;g=apidiscovery.k8s.io;v=" + version + ";as=APIGroupDiscoveryList"
	case path == coreRoot:
		doc := metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}
		for _, version := range s.below(path)[0].versions {
			doc.Versions = append(doc.Versions, version.name)
		}
		return doc, "application/json"
	default:
		doc := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, g := range s.below(path) {
			group := metav1.APIGroup{Name: g.name}
			for _, v := range g.versions {
				group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.name + "/" + v.name, Version: v.name})
			}
			group.PreferredVersion = group.Versions[0]
			if g.preferred != "" {
				group.PreferredVersion = metav1.GroupVersionForDiscovery{Version: g.preferred}
			}
			doc.Groups = append(doc.Groups, group)
		}
		return doc, "application/json"
	}
}

func (s *fakeServer) below(root string) []fakeGroup {
	return slices.DeleteFunc(slices.Clone(s.groups), func(g fakeGroup) bool { return (g.name == "") != (root == coreRoot) })
}

func (s *fakeServer) resourceList(path string) any {
	for _, g := range s.groups {
		for _, v := range g.versions {
			gv := schema.GroupVersion{Group: g.name, Version: v.name}
			if versionPath(gv) == path {
				return metav1.APIResourceList{
					TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: v.resources,
				}
			}
		}
	}
	return nil
}

func (s *fakeServer) aggregated(root, version string) any {
	doc := apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/" + version}}
	for _, g := range s.below(root) {
		group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			gv := schema.GroupVersion{Group: g.name, Version: v.name}
			version := apidiscoveryv2.APIVersionDiscovery{Version: v.name, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
			if s.fail[versionPath(gv)] != nil {
				version.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
			}
			for _, r := range v.resources {
				kind := metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: r.Kind}
				if parent, sub, ok := strings.Cut(r.Name, "/"); ok {
					last := &version.Resources[len(version.Resources)-1]
					if last.Resource != parent {
						panic("subresource before its resource in the fake")
					}
					last.Subresources = append(last.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: sub, Verbs: r.Verbs})
					continue
				}
				scope := apidiscoveryv2.ScopeCluster
				if r.Namespaced {
					scope = apidiscoveryv2.ScopeNamespace
				}
				version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
					Resource: r.Name, ResponseKind: &kind, Scope: scope, SingularResource: r.SingularName,
					Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
				})
			}
			group.Versions = append(group.Versions, version)
			if v.name == g.preferred {
				last := len(group.Versions) - 1
				group.Versions[0], group.Versions[last] = group.Versions[last], group.Versions[0]
			}
		}
		doc.Items = append(doc.Items, group)
	}
	return doc
}

// set changes the server while it may be in use.
func (s *fakeServer) set(change func(s *fakeServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *fakeServer) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

func mappingsOf(versions []servedVersion) []Mapping {
	var all []Mapping
	for _, version := range versions {
		all = append(all, version.mappings...)
	}
	return all
}

func unavailable(what string) error {
	return apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", schema.GroupResource{}, what, what+" is down", 0, true)
}

func TestDiscoveryReadsTheFieldsOfAResource(t *testing.T) {
	served, err := discover(t.Context(), newFakeServer().get)
	require.NoError(t, err)
	var pods Mapping
	for _, m := range mappingsOf(served) {
		if m.Resource.String() == "/v1, Resource=pods" {
			pods = m
		}
	}
	assert.Equal(t, Mapping{
		Kind:         schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource:     schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespaced:   true,
		Singular:     "pod",
		ShortNames:   []string{"po"},
		Categories:   []string{"all"},
		Verbs:        []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		Subresources: []string{"log", "status"},
	}, pods)
}

// All formats lead to the same result.
func TestDiscoveryFormsAgree(t *testing.T) {
	want, err := discover(t.Context(), newFakeServer().get)
	require.NoError(t, err)
	require.Len(t, mappingsOf(want), 12)
	cases := map[string]func(*fakeServer){
		"aggregated v2beta1":         func(s *fakeServer) { s.v2beta1 = true },
		"classic":                    func(s *fakeServer) { s.classic[coreRoot], s.classic[groupsRoot] = true, true },
		"classic core, aggregated":   func(s *fakeServer) { s.classic[coreRoot] = true },
		"aggregated core, classic":   func(s *fakeServer) { s.classic[groupsRoot] = true },
		"classic with slow requests": func(s *fakeServer) { s.classic[groupsRoot], s.latency = true, time.Second },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newFakeServer()
				change(server)
				got, err := discover(t.Context(), server.get)
				require.NoError(t, err)
				assert.Equal(t, want, got)
			})
		})
	}
}

func TestDiscoveryAggregatedTakesTwoRequests(t *testing.T) {
	server := newFakeServer()
	_, err := discover(t.Context(), server.get)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{coreRoot: 1, groupsRoot: 1}, server.calls)
}

func TestDiscoveryOrdersCoreFirstAndPreferredVersionsFirst(t *testing.T) {
	for _, classic := range []bool{false, true} {
		server := newFakeServer()
		server.classic[groupsRoot] = classic
		served, err := discover(t.Context(), server.get)
		require.NoError(t, err)
		var order []string
		for _, version := range served {
			order = append(order, fmt.Sprintf("%s %t", version.GroupVersion, version.preferred))
		}
		assert.Equal(t, []string{
			"v1 true", "apps/v1 true", "events.k8s.io/v1 true", "autoscaling/v2 true", "autoscaling/v1 false",
			"storage.k8s.io/v1 true", "metrics.k8s.io/v1beta1 true", "example.com/v1 true", "example.com/v2alpha1 false",
		}, order, "classic=%t", classic)
	}
}

func TestDiscoveryClassicBoundsRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.classic[groupsRoot] = true
		server.latency = time.Second
		for i := range 50 {
			server.groups = append(server.groups, fakeGroup{name: fmt.Sprintf("g%d.example.com", i), versions: []fakeVersion{{name: "v1"}}})
		}
		start := time.Now()
		_, err := discover(t.Context(), server.get)
		require.NoError(t, err)
		assert.Equal(t, classicParallel, server.most, "requests in flight")
		// 58 group versions in rounds of eight, after the request for /apis.
		assert.Equal(t, 9*time.Second, time.Since(start))
	})
}

func TestDiscoveryReportsTheGroupThatFailedAndKeepsTheRest(t *testing.T) {
	const path = "/apis/metrics.k8s.io/v1beta1"
	for _, classic := range []bool{false, true} {
		server := newFakeServer()
		server.classic[groupsRoot] = classic
		server.fail[path] = unavailable("metrics")
		served, err := discover(t.Context(), server.get)

		var failed *Error
		require.ErrorAs(t, err, &failed, "classic=%t", classic)
		require.Len(t, failed.Failures, 1)
		assert.Equal(t, path, failed.Failures[0].Path)
		assert.Contains(t, err.Error(), "metrics.k8s.io/v1beta1: ")
		assert.NotContains(t, err.Error(), "\n")
		want := 12
		if classic {
			assert.True(t, apierrors.IsServiceUnavailable(failed.Failures[0].Err))
			want = 11 // nothing is known about the group that does not respond
		}
		assert.Len(t, mappingsOf(served), want, "classic=%t", classic)
	}
}

func TestDiscoveryFailsWhenNothingAnswers(t *testing.T) {
	server := newFakeServer()
	server.fail[coreRoot], server.fail[groupsRoot] = unavailable("core"), unavailable("groups")
	served, err := discover(t.Context(), server.get)
	assert.Nil(t, served)
	assert.ErrorContains(t, err, "/api and /apis: ")
}

func TestDiscoveryOneRootFails(t *testing.T) {
	server := newFakeServer()
	server.fail[coreRoot] = unavailable("core")
	served, err := discover(t.Context(), server.get)
	assert.Len(t, mappingsOf(served), 9)
	assert.ErrorContains(t, err, "/api: ")
}

// A server of custom resources may lack the core group.
func TestDiscoveryTreatsAMissingRootAsEmpty(t *testing.T) {
	server := newFakeServer()
	server.fail[coreRoot] = apierrors.NewNotFound(schema.GroupResource{}, coreRoot)
	served, err := discover(t.Context(), server.get)
	require.NoError(t, err)
	assert.Len(t, mappingsOf(served), 9)
}

// A missing root is not a failure even if the other one fails temporarily.
func TestDiscoveryDoesNotTreatABusyRootAsMissing(t *testing.T) {
	s := newFakeServer()
	s.fail["/api"] = apierrors.NewNotFound(schema.GroupResource{}, "")
	s.fail["/apis"] = apierrors.NewServiceUnavailable("busy")
	_, err := discover(t.Context(), s.get)
	require.EqualError(t, err, "discovery failed for /apis: busy")
}

// Two 404s, for example from a misconfigured proxy, do not mean that kinds are not
// served.
func TestDiscoveryDoesNotTreatTwoMissingRootsAsAnEmptyServer(t *testing.T) {
	server := newFakeServer()
	for _, root := range []string{coreRoot, groupsRoot} {
		server.fail[root] = apierrors.NewNotFound(schema.GroupResource{}, root)
	}
	served, err := discover(t.Context(), server.get)
	require.Empty(t, served)
	require.ErrorContains(t, err, "every API server serves at least one of the two roots")
	require.False(t, apierrors.IsNotFound(err), "%v", err)
}

func TestDiscoveryRejectsOtherDocuments(t *testing.T) {
	cases := map[string]struct{ path, body, want string }{
		"a proxy's login page": {groupsRoot, "<html>", "/apis: decode APIGroupList"},
		"another kind":         {groupsRoot, `{"kind":"Status"}`, `kind "Status"`},
		"no kind":              {groupsRoot, `{}`, `kind ""`},
		"another group":        {groupsRoot, `{"apiVersion":"example.com/v1","kind":"APIGroupList"}`, `apiVersion "example.com/v1"`},
		"another version":      {"/apis/apps/v1", `{"apiVersion":"v2","kind":"APIResourceList","groupVersion":"apps/v1"}`, `apiVersion "v2"`},
		"empty":                {groupsRoot, ``, "unexpected end"},
		"wrong shape":          {groupsRoot, `{"kind":"APIGroupList","groups":7}`, "decode APIGroupList"},
		"truncated resources":  {"/apis/apps/v1", `{"kind":"APIResourceList","groupVer`, "apps/v1: decode APIResourceList"},
		"another group's list": {"/apis/apps/v1", `{"kind":"APIResourceList","groupVersion":"v1"}`, `apps/v1: the document is about "v1"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := newFakeServer()
			server.classic[groupsRoot] = true
			server.bodies[tc.path] = tc.body
			served, err := discover(t.Context(), server.get)
			assert.ErrorContains(t, err, tc.want)
			assert.NotEmpty(t, served, "the core group is there")
		})
	}
}

// An APIService may serve only subresources of a resource.
func TestDiscoveryLeavesOutResourcesWithoutAKind(t *testing.T) {
	server := newFakeServer()
	server.groups = append(server.groups, fakeGroup{name: "sub.example.com", versions: []fakeVersion{{"v1", []metav1.APIResource{
		{Name: "machines"}, {Name: "machines/start", Kind: "Machine"},
	}}}})
	for _, classic := range []bool{false, true} {
		server.classic[groupsRoot] = classic
		served, err := discover(t.Context(), server.get)
		require.NoError(t, err)
		assert.Len(t, mappingsOf(served), 12, "classic=%t", classic)
	}
}

func TestDiscoveryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.classic[groupsRoot] = true
		server.latency = 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		start := time.Now()
		served, err := discover(ctx, server.get)
		assert.Nil(t, served)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 15*time.Second, time.Since(start))
		synctest.Wait()
		assert.Zero(t, server.flight)
	})
}

func TestAggregatedVersion(t *testing.T) {
	for contentType, want := range map[string]string{
		"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList":         "v2",
		"application/json; as=APIGroupDiscoveryList; v=v2beta1; g=apidiscovery.k8s.io": "v2beta1",
		"application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList":         "",
		"application/json": "",
		"text/html":        "",
		"":                 "",
		";;":               "",
	} {
		assert.Equal(t, want, aggregatedVersion(contentType), contentType)
	}
}

// Any input leads to a result or an error. An old server lists group versions in one
// document and their resources in others; the fuzzer has one input for each.
func FuzzReadDiscovery(f *testing.F) {
	server := newFakeServer()
	for _, classic := range []bool{false, true} {
		server.classic[coreRoot], server.classic[groupsRoot] = classic, classic
		resources, _, err := server.get(f.Context(), "/api/v1", aggregatedAccept)
		require.NoError(f, err)
		for _, path := range []string{coreRoot, groupsRoot} {
			body, contentType, err := server.get(f.Context(), path, aggregatedAccept)
			require.NoError(f, err)
			f.Add(body, resources, contentType)
		}
	}
	budget := hostile.Budget{Memory: 4 << 20, MemoryPerByte: 2000}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, root, resources []byte, contentType string) {
		kept.Nothing(t)
		get := func(_ context.Context, path, _ string) ([]byte, string, error) {
			if path == coreRoot || path == groupsRoot {
				return root, contentType, nil
			}
			return resources, contentType, nil
		}
		// Each group version of an old server is requested separately.
		versions := 2 * (1 + bytes.Count(root, []byte("{")) + bytes.Count(root, []byte(",")))
		read := func() {
			if served, err := discover(t.Context(), get); err == nil {
				newCatalog(1, served, nil)
			}
		}
		budget.Within(t, 2*len(root)+versions*(200+len(resources)), read)
	})
}
