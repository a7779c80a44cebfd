package apiservertest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// serveOther serves non-resource requests.
func (c *call) serveOther() error {
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		http.NotFound(c.w, c.r)
		return nil
	}
	path := strings.TrimSuffix(c.r.URL.Path, "/")
	c.w.Header().Add("Vary", "Accept")
	switch path {
	case "/healthz", "/livez", "/readyz":
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, err := c.w.Write([]byte("ok"))
		return err
	case "/version":
		return c.sendJSON(typeJSON, apiversion.Info{
			Major: "1", Minor: "37", GitVersion: "v1.37.2+millrace", Platform: "simulated/any",
		})
	case "/api", "/apis":
		if c.wantsAggregated() {
			return c.aggregated(path == "/api")
		}
		if path == "/api" {
			return c.sendJSON(typeJSON, metav1.APIVersions{
				TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			})
		}
		return c.groupList()
	}
	group, version, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/")
	if core, ok := strings.CutPrefix(path, "/api/"); ok {
		group, version = "", core
	} else if version == "" {
		return c.oneGroup(group)
	}
	return c.resourceList(schema.GroupVersion{Group: group, Version: version})
}

func (c *call) sendJSON(mediaType string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	c.w.Header().Set("Content-Type", mediaType)
	_, err = c.w.Write(append(raw, '\n'))
	return err
}

// served returns the resources, sorted by group, version and name.
func (s *Server) served() []Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Resource
	for _, c := range s.collections {
		list = append(list, c.Resource)
	}
	slices.SortFunc(list, func(a, b Resource) int {
		return cmp.Or(
			cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.GVR.Resource, b.GVR.Resource),
		)
	})
	return list
}

// serves reports whether the group (and version, if not empty) has any served resource.
func (s *Server) serves(group, version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gvr := range s.collections {
		if gvr.Group == group && (version == "" || gvr.Version == version) {
			return true
		}
	}
	return false
}

// verbs returns the verbs that the resource supports.
func (r *Resource) verbs() metav1.Verbs {
	verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	if r.custom() {
		verbs = metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	}
	if r.noDeleteCollection {
		verbs = slices.Delete(verbs, 2, 3)
	}
	return verbs
}

// statusVerbs returns the verbs that a status subresource supports.
func statusVerbs() metav1.Verbs { return metav1.Verbs{"get", "patch", "update"} }

func (c *call) groups() []metav1.APIGroup {
	var groups []metav1.APIGroup
	for _, r := range c.server.served() {
		if r.Group == "" {
			continue
		}
		gv := metav1.GroupVersionForDiscovery{GroupVersion: r.GroupVersion().String(), Version: r.Version}
		if len(groups) == 0 || groups[len(groups)-1].Name != r.Group {
			groups = append(groups, metav1.APIGroup{Name: r.Group, PreferredVersion: gv})
		}
		last := &groups[len(groups)-1]
		if !slices.Contains(last.Versions, gv) {
			last.Versions = append(last.Versions, gv)
		}
	}
	return groups
}

func (c *call) groupList() error {
	return c.sendJSON(typeJSON, metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups:   c.groups(),
	})
}

func (c *call) oneGroup(name string) error {
	for _, group := range c.groups() {
		if group.Name == name {
			group.Kind, group.APIVersion = "APIGroup", "v1"
			return c.sendJSON(typeJSON, group)
		}
	}
	http.NotFound(c.w, c.r)
	return nil
}

func (c *call) resourceList(gv schema.GroupVersion) error {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	if gv.Group == "" {
		list.APIVersion = "" // for old clients
	}
	for _, r := range c.server.served() {
		if r.GroupVersion() != gv {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.GVR.Resource, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind,
			Verbs: r.verbs(), ShortNames: r.ShortNames, Categories: r.Categories,
		})
		if r.Status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.GVR.Resource + "/status", Namespaced: r.Namespaced, Kind: r.Kind, Verbs: statusVerbs(),
			})
		}
		for _, s := range subresourcesOf(&r) {
			list.APIResources = append(list.APIResources, s.described(&r))
		}
	}
	if len(list.APIResources) == 0 {
		if c.server.serves(gv.Group, "") {
			return notServed()
		}
		http.NotFound(c.w, c.r)
		return nil
	}
	return c.sendJSON(typeJSON, list)
}

// wantsAggregated reports whether the client prefers the aggregated format.
func (c *call) wantsAggregated() bool {
	if c.server.opts.NoAggregatedDiscovery {
		return false
	}
	for _, clause := range parseAccept(c.r.Header.Get("Accept")) {
		if clause.mediaType != typeJSON {
			continue
		}
		switch clause.params["as"] {
		case "":
			return false
		case "APIGroupDiscoveryList":
			if clause.params["g"] == "apidiscovery.k8s.io" && clause.params["v"] == "v2" {
				return true
			}
		}
	}
	return false
}

// aggregated sends all groups at once (KEP-3352).
func (c *call) aggregated(core bool) error {
	list := discoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
	}
	for _, r := range c.server.served() {
		if (r.Group == "") != core {
			continue
		}
		if n := len(list.Items); n == 0 || list.Items[n-1].Name != r.Group {
			list.Items = append(list.Items, discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: r.Group}})
		}
		group := &list.Items[len(list.Items)-1]
		if n := len(group.Versions); n == 0 || group.Versions[n-1].Version != r.Version {
			group.Versions = append(group.Versions, discoveryv2.APIVersionDiscovery{
				Version: r.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent,
			})
		}
		v := &group.Versions[len(group.Versions)-1]
		v.Resources = append(v.Resources, r.discovery())
	}
	return c.sendJSON(typeJSON+";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", list)
}

func (r *Resource) discovery() discoveryv2.APIResourceDiscovery {
	kind := metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if !r.custom() {
		kind.Group, kind.Version = "", "" // built-in kinds omit the parent's group version
	}
	d := discoveryv2.APIResourceDiscovery{
		Resource: r.GVR.Resource, ResponseKind: &kind, SingularResource: r.Singular, Verbs: r.verbs(),
		Scope: discoveryv2.ScopeCluster, ShortNames: r.ShortNames, Categories: r.Categories,
	}
	if r.Namespaced {
		d.Scope = discoveryv2.ScopeNamespace
	}
	if r.Status {
		d.Subresources = []discoveryv2.APISubresourceDiscovery{
			{Subresource: "status", ResponseKind: &kind, Verbs: statusVerbs()},
		}
	}
	for _, s := range subresourcesOf(r) {
		kind := metav1.GroupVersionKind(s.kind)
		d.Subresources = append(d.Subresources, discoveryv2.APISubresourceDiscovery{Subresource: s.name, ResponseKind: &kind, Verbs: s.verbs})
	}
	return d
}
