// Package replicaset keeps a ReplicaSet at the requested number of Pods.
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
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/examples/controller-manager/owned"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

// burst is the maximum number of Pods that a single reconcile creates or deletes. The next reconcile
// waits until the cache has seen them, so it works with fresher data.
const burst = 100

// Descriptor returns the controller for a registry.
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
	events *events.Recorder
	scheme *runtime.Scheme
}

func create(c *controllermanager.Context) (manager.Runnable, error) {
	r := &replicaSets{
		sets:   controllermanager.ClientOf[*appsv1.ReplicaSet](c, owned.Key()),
		pods:   controllermanager.ClientOf[*corev1.Pod](c, owned.Key()),
		events: c.Events(),
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
		err = fmt.Errorf("the selector is empty and would match every Pod")
	}
	return s, controller.Terminal(err)
}

func (r *replicaSets) reconcile(ctx context.Context, rs *appsv1.ReplicaSet) (controller.Result, error) {
	pods, err := r.owned.Claim(ctx, rs)
	if err != nil {
		return retry(err)
	}
	pods = slices.DeleteFunc(pods, over)
	terminating := len(pods)
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	terminating -= len(pods)
	var scaling error
	if rs.DeletionTimestamp == nil {
		scaling = r.scale(ctx, rs, pods)
	}
	now := time.Now()
	status, next := statusOf(rs, pods, now)
	_, err = controller.PatchStatus(ctx, r.sets, rs, func(rs *appsv1.ReplicaSet) error {
		status.Conditions = rs.Status.Conditions
		status.TerminatingReplicas = new(int32(terminating))
		setFailure(&status, scaling, metav1.NewTime(now))
		rs.Status = status
		return nil
	})
	if apierrors.IsNotFound(err) {
		err = nil // the ReplicaSet is gone
	}
	if err = cmp.Or(scaling, err); err != nil {
		return retry(err)
	}
	return controller.Result{RequeueAfter: next}, nil
}

// retry handles a conflict, which means stale data, by requesting another reconcile.
func retry(err error) (controller.Result, error) {
	if apierrors.IsConflict(err) {
		return controller.Result{Requeue: true}, nil
	}
	return controller.Result{}, err
}

// over reports whether a Pod has terminated.
func over(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// scale creates or deletes Pods until the requested number is reached.
func (r *replicaSets) scale(ctx context.Context, rs *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	want := int(replicas(rs))
	if len(pods) <= want {
		return slowStart(min(want-len(pods), burst), func() error { return r.add(ctx, rs) })
	}
	for _, p := range victims(pods)[:min(len(pods)-want, burst)] {
		if err := r.remove(ctx, rs, p); err != nil {
			return err
		}
	}
	return nil
}

func (r *replicaSets) add(ctx context.Context, rs *appsv1.ReplicaSet) error {
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
	p, err := r.pods.Create(ctx, p)
	if err != nil {
		r.events.Recordf(rs, corev1.EventTypeWarning, "FailedCreate", "Create", "Error creating: %v", err)
		return fmt.Errorf("create a pod: %w", err)
	}
	r.events.Record(rs, events.Event{Reason: "SuccessfulCreate", Action: "Create", Note: "Created pod: " + p.Name, Related: p})
	return nil
}

// remove deletes a Pod if it still exists.
func (r *replicaSets) remove(ctx context.Context, rs *appsv1.ReplicaSet, p *corev1.Pod) error {
	err := r.pods.DeleteWith(ctx, p, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		r.events.Record(rs, events.Event{Type: corev1.EventTypeWarning, Reason: "FailedDelete", Action: "Delete", Note: "Error deleting: " + err.Error(), Related: p})
		return fmt.Errorf("delete pod %s: %w", p.Name, err)
	}
	r.events.Record(rs, events.Event{Reason: "SuccessfulDelete", Action: "Delete", Note: "Deleted pod: " + p.Name, Related: p})
	return nil
}

func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

// statusOf counts the Pods. next is the time until the next Pod becomes available, or 0 if none will.
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

// setFailure sets the condition for failures to create or delete Pods.
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
