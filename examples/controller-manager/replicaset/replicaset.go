// Package replicaset keeps as many Pods of one template as a ReplicaSet asks for.
package replicaset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/examples/controller-manager/owned"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

// burst is how many Pods one reconcile creates or deletes at most. The next one
// follows when the cache has seen them, and begins with better knowledge.
const burst = 100

// Descriptor is the controller for a registry.
func Descriptor() controllermanager.Descriptor {
	return controllermanager.Descriptor{
		Name:    "replicaset-controller",
		Aliases: []string{"replicaset"},
		Requires: []object.GVR{
			appsv1.SchemeGroupVersion.WithResource("replicasets"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
		New: create,
	}
}

// replicaSets reconciles ReplicaSets.
type replicaSets struct {
	sets   *controller.Client[*appsv1.ReplicaSet]
	pods   *controller.Client[*corev1.Pod]
	owned  *owned.Set[*appsv1.ReplicaSet, *corev1.Pod]
	scheme *runtime.Scheme
}

func create(c *controllermanager.Context) (manager.Runnable, error) {
	r := &replicaSets{
		sets:   controllermanager.ClientFor[*appsv1.ReplicaSet](c),
		pods:   controllermanager.ClientFor[*corev1.Pod](c),
		scheme: c.Scheme(),
	}
	r.owned = owned.NewSet(r.sets, r.pods, selector, c.Scheme())
	opts := c.Controller()
	opts.Concurrency = 4
	run, err := controller.New(c.Name(), controller.Objects(r.sets, r.reconcile), opts)
	if err != nil {
		return nil, err
	}
	r.owned.Watch(run)
	return run, nil
}

func selector(rs *appsv1.ReplicaSet) (labels.Selector, error) {
	s, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err == nil && s.Empty() {
		err = fmt.Errorf("the selector is empty and would select every Pod")
	}
	return s, controller.Terminal(err)
}

func (r *replicaSets) reconcile(ctx context.Context, rs *appsv1.ReplicaSet) (controller.Result, error) {
	pods, err := r.owned.Claim(ctx, rs)
	if err != nil {
		return retry(err)
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !active(p) })
	var scaling error
	if rs.DeletionTimestamp == nil {
		scaling = r.scale(ctx, rs, pods)
	}
	now := time.Now()
	status, next := statusOf(rs, pods, now)
	_, _, err = controller.PatchStatus(ctx, r.sets, rs, func(rs *appsv1.ReplicaSet) error {
		status.Conditions = rs.Status.Conditions
		status.TerminatingReplicas = rs.Status.TerminatingReplicas
		setFailure(&status, scaling, metav1.NewTime(now))
		rs.Status = status
		return nil
	})
	if apierrors.IsNotFound(err) {
		err = nil // it is gone, and so is its status
	}
	if err = cmp.Or(scaling, err); err != nil {
		return retry(err)
	}
	return controller.Result{RequeueAfter: next}, nil
}

// retry makes of a conflict what it is: a state that was too old to decide on.
func retry(err error) (controller.Result, error) {
	if apierrors.IsConflict(err) {
		return controller.Result{Requeue: true}, nil
	}
	return controller.Result{}, err
}

// active reports whether a Pod counts: it is neither over nor going.
func active(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && p.DeletionTimestamp == nil
}

// scale creates or deletes Pods so that there are as many as asked for.
func (r *replicaSets) scale(ctx context.Context, rs *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	want := int(replicas(rs))
	for range min(want-len(pods), burst) {
		template := rs.Spec.Template.DeepCopy()
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: rs.Namespace, GenerateName: rs.Name + "-",
				Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers,
			},
			Spec: template.Spec,
		}
		if err := controller.SetControllerReference(rs, p, r.scheme); err != nil {
			return controller.Terminal(err)
		}
		if _, err := r.pods.Create(ctx, p); err != nil {
			return fmt.Errorf("create a pod: %w", err)
		}
	}
	if len(pods) <= want {
		return nil
	}
	slices.SortStableFunc(pods, leastMissed)
	for _, p := range pods[:min(len(pods)-want, burst)] {
		err := r.pods.Delete(ctx, p, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s: %w", p.Name, err)
		}
	}
	return nil
}

func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

// leastMissed orders Pods by who can go first: the one that does the least, and of
// two that do the same the younger one.
func leastMissed(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(worth(a), worth(b)),
		readySince(b).Compare(readySince(a)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

func worth(p *corev1.Pod) int {
	switch {
	case ready(p) != nil:
		return 3
	case p.Status.Phase == corev1.PodRunning:
		return 2
	case p.Spec.NodeName != "":
		return 1
	}
	return 0
}

// ready is the condition that says that a Pod is ready; nil if it is not.
func ready(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// readySince is when a Pod became ready; zero if it is not.
func readySince(p *corev1.Pod) time.Time {
	if c := ready(p); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// statusOf counts, and says after what time it is to be counted anew because a Pod
// becomes available then; 0 if none does.
func statusOf(rs *appsv1.ReplicaSet, pods []*corev1.Pod, now time.Time) (s appsv1.ReplicaSetStatus, next time.Duration) {
	s.ObservedGeneration = rs.Generation
	template := labels.SelectorFromSet(rs.Spec.Template.Labels)
	after := time.Duration(rs.Spec.MinReadySeconds) * time.Second
	for _, p := range pods {
		s.Replicas++
		if template.Matches(labels.Set(p.Labels)) {
			s.FullyLabeledReplicas++
		}
		if ready(p) == nil {
			continue
		}
		s.ReadyReplicas++
		if left := readySince(p).Add(after).Sub(now); left <= 0 {
			s.AvailableReplicas++
		} else if next == 0 || left < next {
			next = left
		}
	}
	return s, next
}

// setFailure says in the conditions whether Pods could be created and deleted.
func setFailure(s *appsv1.ReplicaSetStatus, err error, now metav1.Time) {
	others := slices.DeleteFunc(slices.Clone(s.Conditions), func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	if err == nil || apierrors.IsConflict(err) {
		s.Conditions = others
		return
	}
	failure := appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedScale", Message: err.Error(), LastTransitionTime: now}
	for _, c := range s.Conditions {
		if c.Type == failure.Type && c.Reason == failure.Reason && c.Message == failure.Message {
			return
		}
	}
	s.Conditions = append(others, failure)
}
