package apiservertest

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// subresource is a subresource other than status. Its request and response bodies are of a different
// kind than the object.
type subresource struct {
	name  string
	kind  object.GVK
	verbs metav1.Verbs
	serve func(*call) error // called only for the verbs listed
}

// subresourcesOf returns r's subresources except status.
func subresourcesOf(r *Resource) (all []subresource) {
	if r.Scale != nil {
		all = append(all, subresource{"scale", scaleKind, metav1.Verbs{"get", "patch", "update"}, (*call).scale})
	}
	if r.pods {
		all = append(all,
			subresource{"binding", bindingKind, metav1.Verbs{"create"}, (*call).bind},
			subresource{"eviction", evictionKind, metav1.Verbs{"create"}, (*call).evict},
			subresource{"log", r.GVK(), metav1.Verbs{"get"}, (*call).log},
		)
	}
	return all
}

// described returns the subresource's discovery entry.
func (s *subresource) described(r *Resource) metav1.APIResource {
	described := metav1.APIResource{Name: r.GVR.Resource + "/" + s.name, Namespaced: r.Namespaced, Kind: s.kind.Kind, Verbs: s.verbs}
	if s.kind.GroupVersion() != r.GroupVersion() {
		described.Group, described.Version = s.kind.Group, s.kind.Version
	}
	return described
}

// extra returns the named subresource, or nil if it is status or unknown.
func (r *Resource) extra(name string) *subresource {
	for _, s := range subresourcesOf(r) {
		if s.name == name {
			return &s
		}
	}
	return nil
}

// serveExtra serves a request for such a subresource.
func (c *call) serveExtra() error {
	if !slices.Contains(c.sub.verbs, c.verb) {
		return methodNotAllowed()
	}
	return c.sub.serve(c)
}

// sendBody sends an object that is not stored.
func (c *call) sendBody(kind object.GVK, obj object.Object) error {
	stripKind(obj)
	res := &Resource{GVR: kind.GroupVersion().WithResource(c.subresource), Kind: kind.Kind, New: func() object.Object { return obj }}
	return c.sendVersion(http.StatusOK, &version{res: res, obj: obj})
}

// sendDone sends a Success Status.
func (c *call) sendDone() error {
	return c.sendStatus(metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
}
