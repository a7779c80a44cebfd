// Package owned finds the objects that an owner controls by a label selector: objects that it created,
// and matching objects without a controller.
package owned

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Key returns the shard key for owners and their objects, which is the namespace. UIDs would not work,
// because an object to be adopted does not contain its future owner's UID.
func Key() shard.Key { return shard.ByNamespace() }

// Set contains the objects of type T controlled by owners of type O. Its methods are safe for concurrent
// use.
type Set[O, T object.Object] struct {
	owners   *controller.Client[O]
	objects  *controller.Client[T]
	selector func(O) (labels.Selector, error)
	scheme   *runtime.Scheme
	byOwner  *indexer.Index[T, string]
}

// NewSet returns a set; selector returns the label selector for the objects that an owner wants to
// control.
func NewSet[O, T object.Object](owners *controller.Client[O], objects *controller.Client[T], selector func(O) (labels.Selector, error), scheme *runtime.Scheme) *Set[O, T] {
	return &Set[O, T]{owners: owners, objects: objects, selector: selector, scheme: scheme,
		byOwner: sharedinformer.AddIndex(objects.Informer(), "controller", func(o T) []string {
			if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
				return []string{string(ref.UID)}
			}
			return []string{orphansOf(o.GetNamespace())}
		})}
}

// orphansOf returns the index value for objects without a controller. No UID contains a slash.
func orphansOf(namespace string) string { return "orphans/" + namespace }

// Claim returns the objects that owner controls; the caller must not modify them. Before that, it adopts
// matching objects without a controller, and releases objects that no longer match. It adopts nothing if
// owner is being deleted.
func (s *Set[O, T]) Claim(ctx context.Context, owner O) ([]T, error) {
	selector, err := s.selector(owner)
	if err != nil {
		return nil, err
	}
	var mine []T
	var errs []error
	for o := range s.byOwner.Get(string(owner.GetUID())) {
		if selector.Matches(labels.Set(o.GetLabels())) || owner.GetDeletionTimestamp() != nil {
			mine = append(mine, o)
			continue
		}
		errs = append(errs, s.release(ctx, owner, o))
	}
	checked := false
	for o := range s.byOwner.Get(orphansOf(owner.GetNamespace())) {
		if !selector.Matches(labels.Set(o.GetLabels())) || o.GetDeletionTimestamp() != nil || owner.GetDeletionTimestamp() != nil {
			continue
		}
		if !checked {
			if err := s.alive(ctx, owner); err != nil {
				return nil, err
			}
			checked = true
		}
		adopted, err := s.adopt(ctx, owner, o)
		if err == nil {
			mine = append(mine, adopted)
		}
		errs = append(errs, err)
	}
	return mine, errors.Join(errs...)
}

// alive checks that owner exists and is not being deleted, because adopted objects would be deleted with
// it. It queries the server, since the cache may be stale.
func (s *Set[O, T]) alive(ctx context.Context, owner O) error {
	now, err := s.owners.Resource().Get(ctx, object.KeyOf(owner), metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case now.GetUID() != owner.GetUID():
		return fmt.Errorf("%s was replaced", object.FormatKey(object.KeyOf(owner)))
	case now.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s is being deleted", object.FormatKey(object.KeyOf(owner)))
	}
	return nil
}

func (s *Set[O, T]) adopt(ctx context.Context, owner O, o T) (T, error) {
	o = o.DeepCopyObject().(T)
	if err := controller.SetControllerReference(owner, o, s.scheme); err != nil {
		return o, err
	}
	return s.objects.Update(ctx, o)
}

func (s *Set[O, T]) release(ctx context.Context, owner O, o T) error {
	o = o.DeepCopyObject().(T)
	controller.RemoveOwnerReference(owner, o)
	_, err := s.objects.Update(ctx, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Watch makes the owners' controller watch the owners, the objects they control, and the objects they
// could adopt.
func (s *Set[O, T]) Watch(c *controller.Controller) {
	c.Watch(controller.For(s.owners.Informer()))
	c.Watch(controller.Owns(s.objects.Informer(), s.owners))
	c.Watch(controller.Map(s.objects.Informer(), s.adopters).Named("orphans"))
}

// adopters returns requests for the owners whose selectors match an object without a controller.
func (s *Set[O, T]) adopters(_ context.Context, o T) ([]controller.Request, error) {
	if metav1.GetControllerOfNoCopy(o) != nil {
		return nil, nil
	}
	var requests []controller.Request
	for owner := range s.owners.Cache().Namespace(o.GetNamespace()) {
		selector, err := s.selector(owner)
		if err == nil && selector.Matches(labels.Set(o.GetLabels())) { // an invalid selector is reported when its owner is reconciled
			requests = append(requests, controller.RequestFor(owner))
		}
	}
	return requests, nil
}
