package deployment

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons for the Progressing condition, which kubectl rollout status reads.
const (
	progressed       = "ReplicaSetUpdated"
	completed        = "NewReplicaSetAvailable"
	deadlineExceeded = "ProgressDeadlineExceeded"
	paused           = "DeploymentPaused"
)

// status summarizes the ReplicaSets.
func (r *rollout) status(now time.Time) appsv1.DeploymentStatus {
	before := r.deployment.Status
	s := appsv1.DeploymentStatus{
		ObservedGeneration:  r.deployment.Generation,
		CollisionCount:      before.CollisionCount,
		TerminatingReplicas: new(int32),
	}
	for _, rs := range r.all() {
		s.Replicas += rs.Status.Replicas
		s.ReadyReplicas += rs.Status.ReadyReplicas
		s.AvailableReplicas += rs.Status.AvailableReplicas
		*s.TerminatingReplicas += terminating(rs)
	}
	if r.current != nil {
		s.UpdatedReplicas = r.current.Status.Replicas
	}
	s.UnavailableReplicas = max(0, s.Replicas-s.AvailableReplicas)

	s.Conditions = append(s.Conditions, r.conditionAvailable(s, now), r.conditionProgressing(s, now))
	for _, c := range before.Conditions {
		if condition(s.Conditions, c.Type) == nil {
			s.Conditions = append(s.Conditions, c)
		}
	}
	return s
}

func (r *rollout) conditionAvailable(s appsv1.DeploymentStatus, now time.Time) appsv1.DeploymentCondition {
	least := r.replicas - r.maxUnavailable
	c := appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability."}
	if s.AvailableReplicas < least {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "MinimumReplicasUnavailable", fmt.Sprintf("Deployment has %d of at least %d Pods available.", s.AvailableReplicas, least)
	}
	return since(c, condition(r.deployment.Status.Conditions, c.Type), false, now)
}

func (r *rollout) conditionProgressing(s appsv1.DeploymentStatus, now time.Time) appsv1.DeploymentCondition {
	c := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue}
	last := condition(r.deployment.Status.Conditions, c.Type)
	b := r.deployment.Status
	moved := s.UpdatedReplicas > b.UpdatedReplicas || s.ReadyReplicas > b.ReadyReplicas || s.AvailableReplicas > b.AvailableReplicas ||
		s.Replicas-s.UpdatedReplicas < b.Replicas-b.UpdatedReplicas || s.ObservedGeneration != b.ObservedGeneration
	switch {
	case r.deployment.Spec.Paused:
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, paused, "Deployment is paused"
	case r.complete():
		c.Reason, c.Message = completed, fmt.Sprintf("ReplicaSet %q has successfully progressed.", r.current.Name)
	case !moved && last != nil && (last.Reason == deadlineExceeded || r.late(*last, now)):
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, deadlineExceeded, "Deployment has timed out progressing."
	default:
		c.Reason, c.Message = progressed, "Deployment is progressing."
	}
	return since(c, last, moved, now)
}

// late reports whether the rollout has made no progress for longer than the Deployment allows.
func (r *rollout) late(last appsv1.DeploymentCondition, now time.Time) bool {
	seconds := r.deployment.Spec.ProgressDeadlineSeconds
	return seconds != nil && last.Reason == progressed && now.Sub(last.LastUpdateTime.Time) >= time.Duration(*seconds)*time.Second
}

// since sets a condition's timestamps. It keeps the previous ones if nothing has changed.
func since(c appsv1.DeploymentCondition, last *appsv1.DeploymentCondition, moved bool, now time.Time) appsv1.DeploymentCondition {
	c.LastUpdateTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	if last == nil {
		return c
	}
	if last.Status == c.Status {
		c.LastTransitionTime = last.LastTransitionTime
	}
	if last.Status == c.Status && last.Reason == c.Reason && last.Message == c.Message && !moved {
		c.LastUpdateTime = last.LastUpdateTime
	}
	return c
}

// condition returns the condition with the given type, or nil.
func condition(all []appsv1.DeploymentCondition, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range all {
		if all[i].Type == t {
			return &all[i]
		}
	}
	return nil
}
