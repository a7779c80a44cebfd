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

// Kind is something that knows where a kind is served: a *rest.Resource or a
// *Client.
type Kind interface {
	Mapping(ctx context.Context) (discovery.Mapping, error)
}

// Owns returns a source that asks, when something happens to an object, for a
// reconcile of the object of the kind owner that controls it: the one owner
// reference that is marked as controller. When an object changes hands, both are
// asked for. Whether owners have a namespace is learnt from the server; until
// that succeeds it is tried again.
func Owns[T object.Object](of Cached[T], owner Kind, predicates ...Predicate[T]) Source {
	return ownersSource(watchedBy(of, predicates), owner, controls)
}

// OwnsAny is Owns for every owner of the kind, whether it controls the object or
// not. Where the informer holds a share of the objects, an owner that does not control
// one hears of it only if that share has both.
func OwnsAny[T object.Object](of Cached[T], owner Kind, predicates ...Predicate[T]) Source {
	return ownersSource(watchedBy(of, predicates), owner, func(metav1.OwnerReference) bool { return true })
}

// Owned is [Owns] for a kind of any type.
func Owned(of Watchable, owner Kind) Source { return ownersSource(watchedOf(of), owner, controls) }

func ownersSource(w *watched, owner Kind, which func(metav1.OwnerReference) bool) Source {
	s := mapSource(w, owners(owner, which, shardedCacheOf(w.informer)))
	s.role = roleOwned
	if absent(owner) {
		return s.misused(errNoKind)
	}
	return s
}

// errNoKind: without a kind no owner can be told from others.
var errNoKind = errors.New("the kind of the owners is nil: give Owns or OwnsAny a *Client or a *rest.Resource")

// controls reports whether an owner controls what it owns.
func controls(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }

// owners maps an object to those of its owners that are of a kind, whatever the
// version.
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
				continue // an API version that cannot be read names no kind of ours
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
