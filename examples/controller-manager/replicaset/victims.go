package replicaset

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// victims sorts Pods in the order in which to delete them: the least useful first, and among equally
// useful ones
//
//   - the one with the lowest deletion cost,
//   - the one whose node runs more of these Pods,
//   - the one that became ready more recently,
//   - the one with more restarts,
//   - the younger one.
func victims(pods []*corev1.Pod) []*corev1.Pod {
	beside := map[string]int{} // by node
	for _, p := range pods {
		beside[p.Spec.NodeName]++
	}
	return slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(worth(a), worth(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(beside[b.Spec.NodeName], beside[a.Spec.NodeName]),
			readySince(b).Compare(readySince(a)),
			cmp.Compare(restarts(b), restarts(a)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
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

// deletionCost returns the deletion cost set by the user, or 0 if it is not set or not a number.
// https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost
func deletionCost(p *corev1.Pod) int32 {
	cost, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// restarts returns the highest restart count of the Pod's containers.
func restarts(p *corev1.Pod) (most int32) {
	for _, c := range p.Status.ContainerStatuses {
		most = max(most, c.RestartCount)
	}
	return most
}

// ready returns the Ready condition if it is true, and nil otherwise.
func ready(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// readySince returns when a Pod became ready, or the zero time if it is not ready.
func readySince(p *corev1.Pod) time.Time {
	if c := ready(p); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}
