package compare

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// version identifies an object and its version.
type version struct {
	UID string `json:",omitzero"`
	RV  string `json:",omitzero"`

	labels string // as one string
}

// same reports whether both are the same version of the same object.
func (v version) same(other version) bool { return v.UID == other.UID && v.RV == other.RV }

// served is the server's content according to a list with version rv.
type served struct {
	rv      string
	objects map[object.Key]version
	only    map[object.Key]bool // the requested keys; nil for all
	at      time.Time           // when the list was complete
}

// covers reports whether an object with this key would be in the list.
func (s *served) covers(key object.Key) bool { return s.only == nil || s.only[key] }

// part is one of an informer's scopes, with the resource to list.
type part struct {
	sight.Scope
	resource *rest.Resource[*metav1.PartialObjectMetadata]
}

const (
	// expiries is how often a list may be restarted because its continue token has expired.
	expiries = 3

	// mostSingly is the maximum number of objects to read one by one. If there are more, a full list is used.
	mostSingly = 100
)

// read lists the objects in all parts with quorum reads. The result's version is that of the newest list. If
// keys is not nil, only objects with these keys are returned.
func read(ctx context.Context, parts []part, keys map[object.Key]bool) (*served, error) {
	all := &served{objects: map[object.Key]version{}, only: keys}
	for _, p := range parts {
		if keys == nil || len(keys) > mostSingly {
			if err := p.read(ctx, "", all); err != nil {
				return nil, err
			}
			continue
		}
		for key := range keys {
			of := part{p.Scope, p.resource}
			if key.Namespace != "" {
				narrowed, ok := p.Within(key.Namespace)
				if !ok {
					continue
				}
				of = part{narrowed, p.resource.Namespace(key.Namespace)}
			}
			if err := of.read(ctx, key.Name, all); err != nil {
				return nil, err
			}
		}
	}
	all.at = time.Now()
	return all, nil
}

// read adds the objects from one list.
func (p part) read(ctx context.Context, name string, to *served) error {
	for try := 1; ; try++ {
		list := p.resource.List(ctx, p.List(name))
		found, err := map[object.Key]version{}, error(nil)
		for o, failed := range list.Items {
			if failed != nil {
				err = failed
				break
			}
			found[object.KeyOf(o)] = version{string(o.GetUID()), o.GetResourceVersion(), labels.FormatLabels(o.GetLabels())}
		}
		if err != nil && (!apierrors.IsResourceExpired(err) || try == expiries) {
			return &listError{err}
		}
		if err != nil {
			continue
		}
		for key, v := range found {
			if to.covers(key) {
				to.objects[key] = v
			}
		}
		if rv := list.Meta.ResourceVersion; to.rv == "" || sight.Newer(rv, to.rv) {
			to.rv = rv
		}
		return nil
	}
}

// partsOf determines where the informer's objects are served. A namespace given by flag restricts the result.
func partsOf(ctx context.Context, v *sight.Sight, at cluster.Target, scopes []sight.Scope, c *terminal.Console) (parts []part, err error) {
	for _, s := range scopes {
		mapping, err := at.Resolve(ctx, s.Resource, cluster.Patience(v.Config), c)
		if err != nil {
			return nil, at.Unavailable(cluster.RootCause(err), err)
		}
		if v.Flags.To != "" && mapping.Namespaced {
			var left bool
			if s, left = s.Within(v.Flags.Namespace); !left {
				continue
			}
		}
		parts = append(parts, part{s, rest.ResourceForMapping[*metav1.PartialObjectMetadata](at.Client, mapping).Namespace(s.Namespace)})
	}
	if len(parts) == 0 && len(scopes) > 0 {
		return nil, exit.Usage("the informer does not watch namespace %s: omit -n", v.Flags.Namespace)
	}
	return parts, nil
}

// listError is returned if a list fails on the server.
type listError struct{ err error }

// Error returns the server's message.
func (e *listError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *listError) Unwrap() error { return e.err }
