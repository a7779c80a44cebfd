// Package garbage deletes Pods and ReplicaSets whose controller is gone. It performs only as much
// garbage collection as the other controllers need.
package garbage

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/examples/controller-manager/owned"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Descriptors returns the controllers for a registry: one for Pods owned by ReplicaSets, one for
// ReplicaSets owned by Deployments.
func Descriptors() []controllermanager.Descriptor {
	deployments := appsv1.SchemeGroupVersion.WithResource("deployments")
	sets := appsv1.SchemeGroupVersion.WithResource("replicasets")
	return []controllermanager.Descriptor{{
		Name: "pod-garbage-controller", Aliases: []string{"podgarbage"},
		Requires: []object.GVR{sets, corev1.SchemeGroupVersion.WithResource("pods")},
		New:      create[*appsv1.ReplicaSet, *corev1.Pod],
	}, {
		Name: "replicaset-garbage-controller", Aliases: []string{"replicasetgarbage"},
		Requires: []object.GVR{deployments, sets},
		New:      create[*appsv1.Deployment, *appsv1.ReplicaSet],
	}}
}

// create returns a controller that deletes objects of type T once the O that controls them is gone.
func create[O, T object.Object](c *controllermanager.Context) (manager.Runnable, error) {
	owners, objects := controllermanager.ClientOf[O](c, owned.Key()), controllermanager.ClientOf[T](c, owned.Key())
	byOwner := sharedinformer.AddIndex(objects.Informer(), "controller", func(o T) []types.UID {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
			return []types.UID{ref.UID}
		}
		return nil
	})
	run, err := controller.New(c.Name(), controller.Objects(objects, func(ctx context.Context, o T) (controller.Result, error) {
		gone, err := orphaned(ctx, owners, o)
		if !gone || err != nil || o.GetDeletionTimestamp() != nil {
			return controller.Result{}, err
		}
		uid := o.GetUID()
		err = objects.DeleteWith(ctx, o, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return controller.Result{}, err
	}), c.Controller())
	if err != nil {
		return nil, err
	}
	run.Watch(controller.For(objects.Informer()))
	run.Watch(controller.Map(owners.Informer(), func(_ context.Context, owner O) ([]controller.Request, error) {
		var requests []controller.Request
		for o := range byOwner.Get(owner.GetUID()) {
			requests = append(requests, controller.RequestFor(o))
		}
		return requests, nil
	}, controller.On[O](sharedinformer.Delete)))
	return run, nil
}

// orphaned reports whether the owner of type O that controlled o is gone. It queries the server, because
// the owner cache may lag behind the object cache.
func orphaned[O, T object.Object](ctx context.Context, owners *controller.Client[O], o T) (bool, error) {
	ref := metav1.GetControllerOfNoCopy(o)
	mapping, err := owners.Mapping(ctx)
	if ref == nil || err != nil || ref.Kind != mapping.Kind.Kind || ref.APIVersion != mapping.Kind.GroupVersion().String() {
		return false, err
	}
	key := object.Key{Namespace: o.GetNamespace(), Name: ref.Name}
	if owner, ok := owners.Get(key); ok && owner.GetUID() == ref.UID {
		return false, nil
	}
	owner, err := owners.Resource().Get(ctx, key, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && owner.GetUID() != ref.UID, err
}
