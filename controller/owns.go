package controller

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// A Kind looks up its REST mapping. *rest.Resource and *Client implement it.
type Kind interface {
	Mapping(ctx context.Context) (discovery.Mapping, error)
}

// Owns returns a source that, for each event, requests a reconcile of the object of kind owner that
// controls the changed object, according to the owner reference marked as controller. If an update changes
// the controller, both the old and the new one are requested. Owns asks the server whether the owner kind
// is namespaced, and retries until the server responds.
func Owns[T object.Object](of Cached[T], owner Kind, predicates ...Predicate[T]) Source {
	return ownersSource(watchedBy(of, predicates), owner, controls)
}

// OwnsAny is like [Owns], but requests every owner of the kind, whether or not it controls the object.
// With a sharded informer, an owner that does not control the object is requested only if both are in
// the same share.
func OwnsAny[T object.Object](of Cached[T], owner Kind, predicates ...Predicate[T]) Source {
	return ownersSource(watchedBy(of, predicates), owner, func(metav1.OwnerReference) bool { return true })
}

// Owned is like [Owns], for kinds of any type.
func Owned(of Watchable, owner Kind) Source { return ownersSource(watchedOf(of), owner, controls) }

func ownersSource(w *watched, owner Kind, which func(metav1.OwnerReference) bool) Source {
	s := mapSource(w, owners(owner, which, shardedCacheOf(w.informer)))
	s.role = roleOwned
	if absent(owner) {
		return s.misused(errNoKind)
	}
	return s
}

// errNoKind means that the owner kind is nil, so owners cannot be recognized.
var errNoKind = errors.New("the owner kind is nil: pass a *Client or a *rest.Resource to Owns or OwnsAny")

// controls reports whether the reference is marked as the controller.
func controls(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }

// owners returns a function that maps an object to its owners of a given kind, in any API version.
func owners(kind Kind, which func(metav1.OwnerReference) bool, held *shardedCache) func(context.Context, object.Head) ([]placedRequest, error) {
	return func(ctx context.Context, o object.Head) ([]placedRequest, error) {
		if len(o.GetOwnerReferences()) == 0 {
			return nil, nil
		}
		mapping, err := kind.Mapping(ctx)
		if err != nil {
			return nil, fmt.Errorf("owner of %s: %w", object.FormatKey(object.KeyOf(o)), err)
		}
		var reqs []placedRequest
		for _, r := range o.GetOwnerReferences() {
			gv, err := schema.ParseGroupVersion(r.APIVersion)
			if err != nil || gv.Group != mapping.Kind.Group || r.Kind != mapping.Kind.Kind || !which(r) {
				continue // our kind's API version can be parsed, so this is a different kind
			}
			req := Request{Key: object.Key{Name: r.Name}}
			if mapping.Namespaced {
				req.Namespace = o.GetNamespace()
			}
			reqs = append(reqs, placedRequest{req, held.ownerPlacement(o, r)})
		}
		return reqs, nil
	}
}
