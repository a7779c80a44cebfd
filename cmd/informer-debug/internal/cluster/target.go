package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Target is a resource on a server, in one namespace or all.
type Target struct {
	Client    *rest.Client      // closed by the creator of the Target
	Server    string            // address for messages, without credentials
	Mapping   discovery.Mapping // the resource
	Namespace string            // empty for all namespaces and cluster-scoped resources
}

// String returns a description such as "pods in namespace shop".
func (t Target) String() string {
	name := object.ResourceName(t.Mapping.Resource)
	switch {
	case t.Namespace != "":
		return name + " in namespace " + t.Namespace
	case t.Mapping.Namespaced:
		return name + " in all namespaces"
	}
	return name
}

// CanWatch reports whether an informer can read the resource.
func CanWatch(m discovery.Mapping) bool {
	return slices.Contains(m.Verbs, "list") && slices.Contains(m.Verbs, "watch")
}

// Unwatchable returns the error for a resource that informers cannot read.
func Unwatchable(m discovery.Mapping) error {
	return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s cannot be listed and watched: the server only supports %s",
		object.ResourceName(m.Resource), strings.Join(m.Verbs, ", "))}
}

// RootCause returns the first failure if all of discovery failed, since the requests then usually share a
// cause.
func RootCause(err error) error {
	if d, ok := errors.AsType[*discovery.Error](err); ok {
		return d.Failures[0].Err
	}
	return err
}

// Unavailable returns the error for an unusable server. It wraps shown, with advice that depends on cause.
func (t Target) Unavailable(shown, cause error) *exit.Error {
	e := &exit.Error{Code: exit.CodeUnavailable, Err: shown}
	_, noMatch := errors.AsType[*discovery.NoMatchError](cause)
	_, ambiguous := errors.AsType[*discovery.AmbiguousError](cause)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](cause)
	_, answered := errors.AsType[*apierrors.StatusError](cause)
	switch {
	case noMatch, ambiguous, untrusted: // these errors already come with advice
	case apierrors.IsUnauthorized(cause):
		e.Hint = fmt.Sprintf("%s does not accept the credentials: check the user of the context, --user and --token", t.Server)
	case apierrors.IsForbidden(cause):
		e.Hint = `request the verbs "list" and "watch" on it; "kubectl auth can-i --list" shows what you may do`
	case !answered:
		e.Hint = fmt.Sprintf("cannot reach %s; --context or --server choose another server", t.Server)
	}
	return e
}

// ServerName returns an address without credentials.
func ServerName(host string) string {
	u, err := url.Parse(host)
	if err != nil {
		return "the API server"
	}
	return u.Redacted()
}

// Source returns a source for an informer on the target.
func Source[T object.Object](t Target) source.ListerWatcher {
	return rest.ResourceForMapping[T](t.Client, t.Mapping).Namespace(t.Namespace).Sharing(wire.NewPool()).Source()
}

// Path returns the path that lists the target's objects.
func (t Target) Path() string {
	r := t.Mapping.Resource
	place := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		place = "/api/" + r.Version
	}
	if t.Namespace != "" {
		place = path.Join(place, "namespaces", url.PathEscape(t.Namespace))
	}
	return path.Join(place, r.Resource)
}
