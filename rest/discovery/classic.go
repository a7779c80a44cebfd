package discovery

import (
	"context"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/wire"
)

// classicParallel limits concurrent requests in classic discovery. Clusters have thirty to a hundred group
// versions, so with eight requests at a time, discovery takes about ten round trips and leaves capacity for
// other clients.
const classicParallel = 8

// readClassicRoot parses the group versions in a root document, preferred versions first. It does not read
// their resources.
func readClassicRoot(root string, body []byte) ([]servedVersion, error) {
	if root == coreRoot {
		return readAPIVersions(body)
	}
	var doc metav1.APIGroupList
	if err := decodeDocument(body, "v1", "APIGroupList", &doc); err != nil {
		return nil, err
	}
	var versions []servedVersion
	for _, group := range doc.Groups {
		first := len(versions)
		for _, version := range group.Versions {
			versions = append(versions, servedVersion{
				GroupVersion: schema.GroupVersion{Group: group.Name, Version: version.Version},
			})
		}
		preferFirst(versions[first:], group.PreferredVersion.Version)
	}
	return versions, nil
}

// readAPIVersions parses the core group's versions, preferred version first. So far, there has only ever been
// one.
func readAPIVersions(body []byte) ([]servedVersion, error) {
	var doc metav1.APIVersions
	if err := decodeDocument(body, "v1", "APIVersions", &doc); err != nil {
		return nil, err
	}
	versions := make([]servedVersion, len(doc.Versions))
	for i, version := range doc.Versions {
		versions[i].Version = version
	}
	preferFirst(versions, "")
	return versions, nil
}

// preferFirst moves a group's preferred version to the front and marks it. By default, the first version
// is preferred.
func preferFirst(versions []servedVersion, preferred string) {
	for i, version := range versions {
		if version.Version == preferred {
			copy(versions[1:i+1], versions[:i])
			versions[0] = version
			break
		}
	}
	if len(versions) > 0 {
		versions[0].preferred = true
	}
}

// readClassicVersions reads the resources of all group versions. If that fails for a group version, it
// records the error and continues with the others.
func readClassicVersions(ctx context.Context, get Get, versions []servedVersion) {
	seats := make(chan struct{}, classicParallel)
	var reading sync.WaitGroup
	for i := range versions {
		seats <- struct{}{}
		reading.Go(func() {
			defer func() { <-seats }()
			versions[i].mappings, versions[i].err = readClassicVersion(ctx, get, versions[i].GroupVersion)
		})
	}
	reading.Wait()
}

// readClassicVersion reads the resources of one group version.
func readClassicVersion(ctx context.Context, get Get, gv schema.GroupVersion) ([]Mapping, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	body, _, err := get(ctx, versionPath(gv), wire.MediaJSON)
	if err != nil {
		return nil, err
	}
	var doc metav1.APIResourceList
	if err := decodeDocument(body, "v1", "APIResourceList", &doc); err != nil {
		return nil, err
	}
	if doc.GroupVersion != gv.String() {
		return nil, fmt.Errorf("the document is about %q", doc.GroupVersion)
	}
	return classicMappings(gv, doc.APIResources), nil
}

// classicMappings converts the resources of one group version. A name with a slash denotes a subresource,
// which may be listed before or after its resource, or without it.
func classicMappings(gv schema.GroupVersion, resources []metav1.APIResource) []Mapping {
	var mappings []Mapping
	subresources := make(map[string][]string)
	for _, r := range resources {
		if parent, sub, ok := strings.Cut(r.Name, "/"); ok {
			subresources[parent] = append(subresources[parent], sub)
			continue
		}
		if r.Kind == "" {
			continue
		}
		mappings = append(mappings, Mapping{
			Kind:       kindIn(gv, metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}),
			Resource:   gv.WithResource(r.Name),
			Namespaced: r.Namespaced,
			Singular:   r.SingularName,
			ShortNames: r.ShortNames,
			Categories: r.Categories,
			Verbs:      r.Verbs,
		})
	}
	for i := range mappings {
		mappings[i].Subresources = subresources[mappings[i].Resource.Resource]
	}
	return mappings
}
