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

// Round is by how much the resource version of an object grows from one
// version to the next, so that a change of any object in round n is newer than
// every change of round n-1, as long as there are fewer objects than that. The
// i-th object has Round + i at first.
const Round = 1_000_000

// Next is a copy of obj as its n-th MODIFIED event would bring it; obj is not
// altered. See [Touch].
func Next[T object.Object](obj T, n int) T {
	next := obj.DeepCopyObject().(T) // a copy has the type of what was copied
	Touch(next, n)
	return next
}

// Touch makes of obj its n-th version, n counting from 1. Everything that is
// not named here stays as it is:
//
//   - the resource version (see [Round]), and the time of the last manager;
//   - a pod's first container restarts, and the pod is not ready at odd n, and
//     ready again at even n;
//   - a deployment has one available replica less at odd n;
//   - a widget's heartbeat, and its first condition at odd and even n.
func Touch(obj object.Object, n int) {
	rv, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // an object without one is the first
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
