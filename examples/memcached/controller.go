package main

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	v1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

const (
	nodeLabel = "cache.example.com/memcached" // on a Pod: the Memcached that it belongs to
	finalizer = "cache.example.com/nodes"     // on a Memcached: kept until its last node is gone
)

var managed = labels.Set{"app.kubernetes.io/managed-by": "memcached-operator"} // on Pods; only Pods with these labels are watched

// reconciler creates a Deployment of the right size for each Memcached, reports the state in its status,
// and removes the finalizer from a deleted Memcached once its last node is gone.
type reconciler struct {
	memcacheds  *controller.Client[*v1.Memcached]
	deployments *controller.Client[*appsv1.Deployment]
	nodes       *controller.Index[*corev1.Pod, controller.Request]
	events      *events.Recorder
}

func addController(m *manager.Manager) error {
	pods := factory.InformerWith(m.Factory(), factory.For[*corev1.Pod]{Scope: factory.Scope{Labels: managed.AsSelector()}})
	r := &reconciler{
		memcacheds:  manager.Client[*v1.Memcached](m),
		deployments: manager.Client[*appsv1.Deployment](m),
		nodes:       controller.AddIndex(pods, "node of", memcachedOf),
		events:      m.Events("cache.example.com/memcached"),
	}
	return manager.ControllerFor[*v1.Memcached](m).
		Sharded().
		Owns(r.deployments).
		Watches(controller.MapFunc(pods, memcachedOf)).
		Complete(r.reconcile)
}

// memcachedOf returns the request for the Memcached that the Pod is a node of.
func memcachedOf(pod *corev1.Pod) []controller.Request {
	return []controller.Request{{Key: object.Key{Namespace: pod.Namespace, Name: pod.Labels[nodeLabel]}}}
}

// reconcile is called with a copy of a Memcached when it, its Deployment or one of its Pods has changed.
func (r *reconciler) reconcile(ctx context.Context, memcached *v1.Memcached) (controller.Result, error) {
	memcached, err := r.memcacheds.Finalize(ctx, memcached, finalizer, r.removeNodes)
	if err != nil || memcached.DeletionTimestamp != nil {
		return controller.Result{}, err
	}
	deployment, err := r.deploy(ctx, memcached)
	if err != nil {
		return controller.Result{}, err
	}
	return controller.Result{}, r.report(ctx, memcached, deployment)
}

// removeNodes deletes a deleted Memcached's Deployment. It reports whether the last node is gone.
func (r *reconciler) removeNodes(ctx context.Context, memcached *v1.Memcached) (done bool, err error) {
	deployment, exists := r.deployments.Get(object.KeyOf(memcached))
	if exists && controller.Controls(memcached, deployment) {
		return false, r.deployments.Delete(ctx, deployment)
	}
	return len(r.nodesOf(memcached)) == 0, nil
}

// deploy creates or updates a Memcached's Deployment, and records an event if it changed anything.
func (r *reconciler) deploy(ctx context.Context, memcached *v1.Memcached) (*appsv1.Deployment, error) {
	name := metav1.ObjectMeta{Namespace: memcached.Namespace, Name: memcached.Name}
	deployment, did, err := controller.CreateOrUpdate(ctx, r.deployments.OwnedBy(memcached), &appsv1.Deployment{ObjectMeta: name},
		func(deployment *appsv1.Deployment) error {
			setSpec(&deployment.Spec, memcached)
			return nil
		})
	if err == nil && did != controller.Unchanged {
		r.events.Recordf(memcached, corev1.EventTypeNormal, "Deployed", "Deploy", "deployment %s: %d nodes of %s", did, memcached.Spec.Size, memcached.Spec.Image)
	}
	return deployment, err
}

// setSpec sets the fields that the operator owns. All other fields keep the server's defaults.
func setSpec(spec *appsv1.DeploymentSpec, memcached *v1.Memcached) {
	node := labels.Merge(managed, labels.Set{nodeLabel: memcached.Name})
	spec.Replicas = &memcached.Spec.Size
	spec.Selector = &metav1.LabelSelector{MatchLabels: node}
	spec.Template.Labels = node
	pod := &spec.Template.Spec
	if len(pod.Containers) == 0 {
		pod.Containers = []corev1.Container{{Name: "memcached"}}
	}
	pod.Containers[0].Image = memcached.Spec.Image
}

// report patches a Memcached's status if that changes anything.
func (r *reconciler) report(ctx context.Context, memcached *v1.Memcached, deployment *appsv1.Deployment) error {
	serving, wanted := deployment.Status.AvailableReplicas, memcached.Spec.Size
	available := metav1.Condition{
		Type: v1.Available, Status: metav1.ConditionTrue, Reason: "AllNodesServe", ObservedGeneration: memcached.Generation,
		Message: fmt.Sprintf("%d of %d nodes serve", serving, wanted),
	}
	if serving < wanted {
		available.Status, available.Reason = metav1.ConditionFalse, "NodesMissing"
	}
	_, err := controller.PatchStatus(ctx, r.memcacheds, memcached, func(changed *v1.Memcached) error {
		changed.Status.Nodes = r.nodesOf(memcached)
		meta.SetStatusCondition(&changed.Status.Conditions, available)
		return nil
	})
	return err
}

// nodesOf returns the sorted names of a Memcached's Pods.
func (r *reconciler) nodesOf(memcached *v1.Memcached) (names []string) {
	for pod := range r.nodes.Get(controller.RequestFor(memcached)) {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}
