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
	v1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

const (
	nodeLabel = "cache.example.com/memcached" // of a Pod: whose node it is
	finalizer = "cache.example.com/nodes"     // of a Memcached: until its last node is gone
)

var ours = labels.Set{"app.kubernetes.io/managed-by": "memcached-operator"} // of a Pod: no others are watched

// addController gives each Memcached a Deployment of its size, says in the status how it
// is doing, and lets a Memcached go when its last node is gone.
func addController(m *manager.Manager) error {
	own := factory.For[*v1.Memcached]{Scope: factory.Scope{Shard: m.Shard(shard.ByUID())}}
	memcacheds := controller.ClientWith(m.Factory(), own)
	deployments := controller.ClientWith(m.Factory(), factory.For[*appsv1.Deployment]{Scope: factory.Scope{Shard: m.Shard(shard.ByOwner())}})
	pods := factory.InformerWith(m.Factory(), factory.For[*corev1.Pod]{Scope: factory.Scope{Labels: ours.AsSelector()}})
	nodeOf := func(p *corev1.Pod) []controller.Request {
		return []controller.Request{{Key: object.Key{Namespace: p.Namespace, Name: p.Labels[nodeLabel]}}}
	}
	nodes := sharedinformer.AddIndex(pods, "node of", nodeOf)
	events := m.Events("cache.example.com/memcached")

	deploy := func(ctx context.Context, m *v1.Memcached, nodes []string) error {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
		d, did, err := controller.CreateOrUpdate(ctx, deployments.OwnedBy(m), d, func(d *appsv1.Deployment) error {
			pod, node := &d.Spec.Template, labels.Merge(ours, labels.Set{nodeLabel: m.Name})
			d.Spec.Replicas, d.Spec.Selector, pod.Labels = &m.Spec.Size, &metav1.LabelSelector{MatchLabels: node}, node
			if len(pod.Spec.Containers) == 0 { // else it has the server's defaults, which must stay
				pod.Spec.Containers = []corev1.Container{{Name: "memcached"}}
			}
			pod.Spec.Containers[0].Image = m.Spec.Image
			return nil
		})
		if err != nil {
			return err
		}
		if did != controller.Unchanged {
			events.Recordf(m, corev1.EventTypeNormal, "Deployed", "Deploy", "deployment %s: %d nodes of %s", did, m.Spec.Size, m.Spec.Image)
		}
		available := metav1.Condition{Type: v1.Available, Status: metav1.ConditionTrue, Reason: "AllNodesServe", ObservedGeneration: m.Generation,
			Message: fmt.Sprintf("%d of %d nodes serve", d.Status.AvailableReplicas, m.Spec.Size)}
		if d.Status.AvailableReplicas < m.Spec.Size {
			available.Status, available.Reason = metav1.ConditionFalse, "NodesMissing"
		}
		_, _, err = controller.PatchStatus(ctx, memcacheds, m, func(m *v1.Memcached) error {
			m.Status.Nodes = nodes
			meta.SetStatusCondition(&m.Status.Conditions, available)
			return nil
		})
		return err
	}

	return manager.ControllerWith(m, own).Owns(deployments).Watches(controller.MapFunc(pods, nodeOf)).
		Complete(func(ctx context.Context, m *v1.Memcached) (done controller.Result, err error) {
			var names []string
			for pod := range nodes.Get(controller.RequestFor(m)) {
				names = append(names, pod.Name)
			}
			slices.Sort(names)
			d, exists := deployments.Get(object.KeyOf(m))
			switch { // what each of these does leads here again
			case m.DeletionTimestamp == nil && controller.AddFinalizer(m, finalizer):
				_, err = memcacheds.Update(ctx, m)
			case m.DeletionTimestamp == nil:
				err = deploy(ctx, m, names)
			case exists && controller.Controls(m, d):
				err = deployments.Delete(ctx, d)
			case len(names) == 0 && controller.RemoveFinalizer(m, finalizer):
				_, err = memcacheds.Update(ctx, m) // and it is gone
			}
			return done, err
		})
}
