// Package deployment rolls out a Deployment's Pod template. Each template has its own ReplicaSet, and
// the newest one gradually takes over the Pods.
package deployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/examples/controller-manager/owned"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

// Descriptor returns the controller for a registry.
func Descriptor() controllermanager.Descriptor {
	return controllermanager.Descriptor{
		Name:    "deployment-controller",
		Aliases: []string{"deployment"},
		Requires: []object.GVR{
			appsv1.SchemeGroupVersion.WithResource("deployments"),
			appsv1.SchemeGroupVersion.WithResource("replicasets"),
		},
		New: create,
	}
}

// deployments reconciles Deployments.
type deployments struct {
	deployments *controller.Client[*appsv1.Deployment]
	sets        *controller.Client[*appsv1.ReplicaSet]
	owned       *owned.Set[*appsv1.Deployment, *appsv1.ReplicaSet]
	events      *events.Recorder
	scheme      *runtime.Scheme
}

func create(c *controllermanager.Context) (manager.Runnable, error) {
	d := &deployments{
		deployments: controllermanager.ClientOf[*appsv1.Deployment](c, owned.Key()),
		sets:        controllermanager.ClientOf[*appsv1.ReplicaSet](c, owned.Key()),
		events:      c.Events(),
		scheme:      c.Scheme(),
	}
	d.owned = owned.NewSet(d.deployments, d.sets, selector, c.Scheme())
	opts := c.Controller()
	opts.Concurrency = 4
	run, err := controller.New(c.Name(), controller.Objects(d.deployments, d.reconcile), opts)
	if err != nil {
		return nil, err
	}
	d.owned.Watch(run)
	return run, nil
}

func selector(d *appsv1.Deployment) (labels.Selector, error) {
	s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err == nil && s.Empty() {
		err = fmt.Errorf("the selector is empty and would match every Pod")
	}
	return s, controller.Terminal(err)
}

func (c *deployments) reconcile(ctx context.Context, d *appsv1.Deployment) (controller.Result, error) {
	next, err := c.sync(ctx, d)
	if apierrors.IsConflict(err) { // the decision was based on stale data
		return controller.Result{Requeue: true}, nil
	}
	return controller.Result{RequeueAfter: next}, err
}

// sync performs one step. The next step follows when the ReplicaSets report progress, or after the
// returned time.
func (c *deployments) sync(ctx context.Context, d *appsv1.Deployment) (next time.Duration, err error) {
	sets, err := c.owned.Claim(ctx, d)
	if err != nil {
		return 0, err
	}
	r := newRollout(d, sets)
	if d.DeletionTimestamp != nil {
		return 0, c.report(ctx, d, r, 0)
	}
	collisions := collisionCount(d)
	switch {
	case d.Spec.Paused: // it still scales
		err = c.scale(ctx, r, r.resize())
	case r.current == nil:
		if r.current, err = c.newSet(ctx, d, r); apierrors.IsAlreadyExists(err) {
			collisions++ // a different template has this hash: choose another name next time
			return time.Millisecond, c.report(ctx, d, r, collisions)
		}
	default:
		err = c.revise(ctx, d, r)
	}
	if err != nil {
		return 0, err
	}
	if !d.Spec.Paused {
		if err := c.roll(ctx, r); err != nil {
			return 0, err
		}
	}
	if err := c.report(ctx, d, r, collisions); err != nil {
		return 0, err
	}
	return r.untilDeadline(time.Now()), nil
}

// newSet creates the ReplicaSet for the Deployment's template, without Pods. If a ReplicaSet with that
// name already exists, belongs to us and has our template, the cache was stale.
func (c *deployments) newSet(ctx context.Context, d *appsv1.Deployment, r *rollout) (*appsv1.ReplicaSet, error) {
	hash := templateHash(&d.Spec.Template, collisionCount(d))
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + hash, Annotations: map[string]string{}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        new(int32),
			MinReadySeconds: d.Spec.MinReadySeconds,
			Template:        *d.Spec.Template.DeepCopy(),
			Selector:        d.Spec.Selector.DeepCopy(),
		},
	}
	metav1.SetMetaDataLabel(&rs.Spec.Template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	rs.Spec.Selector = metav1.CloneSelectorAndAddLabel(rs.Spec.Selector, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	rs.Labels = rs.Spec.Template.Labels
	describe(rs, d, r.newRevision())
	if err := controller.SetControllerReference(d, rs, c.scheme); err != nil {
		return nil, controller.Terminal(err)
	}
	made, err := c.sets.Create(ctx, rs)
	if !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	there, getErr := c.sets.Resource().Get(ctx, object.KeyOf(rs), metav1.GetOptions{})
	if getErr != nil {
		return nil, getErr
	}
	if controller.Controls(d, there) && sameTemplate(&there.Spec.Template, &d.Spec.Template) {
		return there, nil
	}
	return nil, err
}

// revise updates the current ReplicaSet with the Deployment's settings and the highest revision. Its
// revision is not the highest if the Deployment has been rolled back to an earlier template.
func (c *deployments) revise(ctx context.Context, d *appsv1.Deployment, r *rollout) error {
	rs := r.current.DeepCopy()
	changed := describe(rs, d, max(r.newRevision(), revisionOf(rs)))
	if rs.Spec.MinReadySeconds != d.Spec.MinReadySeconds {
		rs.Spec.MinReadySeconds, changed = d.Spec.MinReadySeconds, true
	}
	if !changed {
		return nil
	}
	rs, err := c.sets.Update(ctx, rs)
	if err == nil {
		r.current = rs
	}
	return err
}

// roll performs one step of the rollout, or first adapts to a changed number of Pods.
func (c *deployments) roll(ctx context.Context, r *rollout) error {
	targets := r.step()
	if r.resized() {
		targets = r.resize()
	}
	if err := c.scale(ctx, r, targets); err != nil {
		return err
	}
	return c.forget(ctx, r)
}

// scale scales the ReplicaSets to their targets and records the Deployment's size in their annotations.
func (c *deployments) scale(ctx context.Context, r *rollout, targets map[types.UID]int32) error {
	for _, set := range r.all() {
		target, ok := targets[set.UID]
		before := wanted(set)
		if !ok || target == before && (target == 0 || sizedFor(set, desiredAnnotation) == r.replicas) {
			continue
		}
		rs := set.DeepCopy()
		rs.Spec.Replicas = &target
		metav1.SetMetaDataAnnotation(&rs.ObjectMeta, desiredAnnotation, strconv.Itoa(int(r.replicas)))
		metav1.SetMetaDataAnnotation(&rs.ObjectMeta, maxAnnotation, strconv.Itoa(int(r.most())))
		rs, err := c.sets.Update(ctx, rs)
		if err != nil {
			return fmt.Errorf("scale %s to %d: %w", set.Name, target, err)
		}
		r.replace(rs)
		direction := "up"
		switch {
		case target == before:
			continue
		case target < before:
			direction = "down"
		}
		c.events.Record(r.deployment, events.Event{Reason: "ScalingReplicaSet", Action: "Scale", Related: rs,
			Note: fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, rs.Name, before, target)})
	}
	return nil
}

// forget deletes the oldest ReplicaSets without Pods in excess of the history limit.
func (c *deployments) forget(ctx context.Context, r *rollout) error {
	var idle []*appsv1.ReplicaSet
	for _, rs := range r.old { // sorted by revision
		if wanted(rs) == 0 && rs.Status.Replicas == 0 && rs.Status.ObservedGeneration >= rs.Generation && rs.DeletionTimestamp == nil {
			idle = append(idle, rs)
		}
	}
	for _, rs := range idle[:max(0, len(idle)-r.history)] {
		err := c.sets.DeleteWith(ctx, rs, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &rs.UID, ResourceVersion: &rs.ResourceVersion}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("forget %s: %w", rs.Name, err)
		}
		r.old = slices.DeleteFunc(r.old, func(o *appsv1.ReplicaSet) bool { return o == rs })
	}
	return nil
}

// report writes the revision to the Deployment's annotations and everything else to its status.
func (c *deployments) report(ctx context.Context, d *appsv1.Deployment, r *rollout, collisions int32) error {
	if r.current != nil && d.DeletionTimestamp == nil {
		revision := r.current.Annotations[revisionAnnotation]
		if d.Annotations[revisionAnnotation] != revision {
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, d.UID, revisionAnnotation, revision)
			if _, err := c.deployments.Patch(ctx, object.KeyOf(d), types.MergePatchType, patch); err != nil {
				return err
			}
		}
	}
	_, err := controller.PatchStatus(ctx, c.deployments, d, func(d *appsv1.Deployment) error {
		d.Status = r.status(time.Now())
		if collisions > 0 {
			d.Status.CollisionCount = &collisions
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil // the Deployment is gone
	}
	return err
}

func collisionCount(d *appsv1.Deployment) int32 {
	if d.Status.CollisionCount == nil {
		return 0
	}
	return *d.Status.CollisionCount
}

// byRevision orders ReplicaSets, oldest first.
func byRevision(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(
		cmp.Compare(revisionOf(a), revisionOf(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Name, b.Name),
	)
}
