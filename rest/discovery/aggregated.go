package discovery

import (
	"mime"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// aggregatedAccept requests the aggregated format, which has been stable since Kubernetes 1.30 and was beta
// from 1.27. Servers that lack it send the classic format.
const aggregatedAccept = wire.MediaJSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	wire.MediaJSON + ";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," +
	wire.MediaJSON

// aggregatedVersion returns the version of a response in the aggregated format, or "" if the
// response has a different format. The two versions have the same JSON fields.
func aggregatedVersion(contentType string) string {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != wire.MediaJSON || params["g"] != apidiscoveryv2.GroupName || params["as"] != "APIGroupDiscoveryList" ||
		params["v"] != "v2" && params["v"] != "v2beta1" {
		return ""
	}
	return params["v"]
}

// readAggregated parses an aggregated document. It keeps entries for stale group versions: if the backend is
// down, requests to it report that better than discovery could.
func readAggregated(body []byte, version string) ([]servedVersion, error) {
	var doc apidiscoveryv2.APIGroupDiscoveryList
	if err := decodeDocument(body, apidiscoveryv2.GroupName+"/"+version, "APIGroupDiscoveryList", &doc); err != nil {
		return nil, err
	}
	var versions []servedVersion
	for _, group := range doc.Items {
		for i, version := range group.Versions {
			served := servedVersion{
				GroupVersion: schema.GroupVersion{Group: group.Name, Version: version.Version},
				preferred:    i == 0, // versions are in order of preference
			}
			if version.Freshness == apidiscoveryv2.DiscoveryFreshnessStale {
				served.err = errStale
			}
			for _, resource := range version.Resources {
				if mapping, ok := aggregatedMapping(served.GroupVersion, resource); ok {
					served.mappings = append(served.mappings, mapping)
				}
			}
			versions = append(versions, served)
		}
	}
	return versions, nil
}

// aggregatedMapping converts one resource. It returns false for a resource without a kind, which has only
// subresources and cannot be read or listed.
func aggregatedMapping(gv schema.GroupVersion, r apidiscoveryv2.APIResourceDiscovery) (Mapping, bool) {
	if r.ResponseKind == nil || r.ResponseKind.Kind == "" {
		return Mapping{}, false
	}
	mapping := Mapping{
		Kind:       kindIn(gv, *r.ResponseKind),
		Resource:   gv.WithResource(r.Resource),
		Namespaced: r.Scope == apidiscoveryv2.ScopeNamespace,
		Singular:   r.SingularResource,
		ShortNames: r.ShortNames,
		Categories: r.Categories,
		Verbs:      r.Verbs,
	}
	for _, sub := range r.Subresources {
		mapping.Subresources = append(mapping.Subresources, sub.Subresource)
	}
	return mapping, true
}

// kindIn uses the document's group version for a kind that has none.
func kindIn(gv schema.GroupVersion, kind metav1.GroupVersionKind) object.GVK {
	if kind.Version == "" {
		return gv.WithKind(kind.Kind)
	}
	return object.GVK(kind)
}
