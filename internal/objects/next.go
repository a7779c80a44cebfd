package objects

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
)

// Round is the difference between consecutive resource versions of an object. With up to Round objects,
// every change in round n is therefore newer than all changes in round n-1. The i-th object starts at
// Round + i.
const Round = 1_000_000

// Next returns a copy of obj as in its n-th MODIFIED event. See [Touch].
func Next[T object.Object](obj T, n int) T {
	next := obj.DeepCopyObject().(T) // DeepCopyObject returns the same type
	Touch(next, n)
	return next
}

// Touch turns obj into its n-th version, counted from 1. It changes only
//
//   - the resource version (see [Round]) and the last manager's timestamp;
//   - the restart count of a pod's first container, and the pod's readiness: not ready for odd n, ready
//     for even n;
//   - a deployment's available replicas: one less for odd n;
//   - a widget's heartbeat, and its first condition, which alternates with n.
func Touch(obj object.Object, n int) {
	rv, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // an object without a version is treated as the first one
	obj.SetResourceVersion(version(int(rv%Round), n))
	at := metav1.NewTime(obj.GetCreationTimestamp().Add(time.Hour + time.Duration(n)*time.Minute))
	if entries := slices.Clone(obj.GetManagedFields()); len(entries) > 0 {
		entries[len(entries)-1].Time = &at
		obj.SetManagedFields(entries)
	}
	state := corev1.ConditionTrue
	if n%2 == 1 {
		state = corev1.ConditionFalse
	}
	switch o := any(obj).(type) {
	case *corev1.Pod:
		touchPod(o, n, at, state)
	case *appsv1.Deployment:
		touchDeployment(o, at, state)
	case *unstructured.Unstructured:
		touchWidget(o, at, state)
	}
}

func touchPod(p *corev1.Pod, n int, at metav1.Time, state corev1.ConditionStatus) {
	for c := range p.Status.Conditions {
		if kind := p.Status.Conditions[c].Type; kind == corev1.PodReady || kind == corev1.ContainersReady {
			p.Status.Conditions[c].Status = state
			p.Status.Conditions[c].LastTransitionTime = at
		}
	}
	if len(p.Status.ContainerStatuses) == 0 {
		return
	}
	c := &p.Status.ContainerStatuses[0]
	c.Ready = state == corev1.ConditionTrue
	c.RestartCount = int32((n + 1) / 2)
	c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
}

func touchDeployment(d *appsv1.Deployment, at metav1.Time, state corev1.ConditionStatus) {
	d.Status.AvailableReplicas = d.Status.Replicas
	if state == corev1.ConditionFalse {
		d.Status.AvailableReplicas--
	}
	d.Status.ReadyReplicas = d.Status.AvailableReplicas
	if len(d.Status.Conditions) > 0 {
		c := &d.Status.Conditions[0]
		c.Status, c.LastUpdateTime, c.LastTransitionTime = state, at, at
	}
}

func touchWidget(w *unstructured.Unstructured, at metav1.Time, state corev1.ConditionStatus) {
	status, ok := w.Object["status"].(map[string]any)
	if !ok {
		return
	}
	status["heartbeat"] = stamp(at)
	if conditions, ok := status["conditions"].([]any); ok && len(conditions) > 0 {
		if first, ok := conditions[0].(map[string]any); ok {
			first["status"] = string(state)
			first["lastTransitionTime"] = stamp(at)
			first["message"] = fmt.Sprintf("checked at %s", stamp(at))
		}
	}
}
