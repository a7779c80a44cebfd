package deployment

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReplicaSet annotations that record the Deployment's size at the time when the ReplicaSet's own size
// was chosen: the number of Pods, and the maximum including the surge.
const (
	desiredAnnotation = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation     = "deployment.kubernetes.io/max-replicas"
)

// sizedFor returns the number in an annotation, or 0 if there is none.
func sizedFor(rs *appsv1.ReplicaSet, annotation string) int32 {
	n, err := strconv.ParseInt(rs.Annotations[annotation], 10, 32)
	if err != nil {
		return 0 // absent or not a number
	}
	return int32(n)
}

// most returns the maximum allowed number of Pods.
func (r *rollout) most() int32 {
	if r.replicas == 0 {
		return 0
	}
	return r.replicas + r.maxSurge
}

// active returns the ReplicaSets that should have Pods, with the current one last.
func (r *rollout) active() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(r.all(), func(rs *appsv1.ReplicaSet) bool { return wanted(rs) == 0 })
}

// resized reports whether the ReplicaSets were sized for a different number of Pods than the Deployment
// now requests. It returns false for the Recreate strategy, which does not use proportions.
func (r *rollout) resized() bool {
	return r.deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType &&
		slices.ContainsFunc(r.active(), func(rs *appsv1.ReplicaSet) bool {
			_, said := rs.Annotations[desiredAnnotation]
			return said && sizedFor(rs, desiredAnnotation) != r.replicas
		})
}

// resize adapts to a changed number of Pods without advancing the rollout. A single ReplicaSet gets all
// of them; several ReplicaSets get their shares.
func (r *rollout) resize() map[types.UID]int32 {
	switch active := r.active(); {
	case len(active) == 1:
		return map[types.UID]int32{active[0].UID: r.replicas}
	case len(active) == 0 && r.current != nil:
		return map[types.UID]int32{r.current.UID: r.replicas}
	case r.resized():
		return r.spread(active)
	}
	return nil
}

// spread scales the ReplicaSets in proportion to their sizes so that they add up to the maximum allowed
// number of Pods. A rollout that is in progress or stuck thus keeps its proportions. The largest
// ReplicaSet absorbs the rounding difference.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#proportional-scaling
func (r *rollout) spread(sets []*appsv1.ReplicaSet) map[types.UID]int32 {
	total := int32(0)
	for _, rs := range sets {
		total += wanted(rs)
	}
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(wanted(b), wanted(a)) })
	targets, left := map[types.UID]int32{}, r.most()-total
	for _, rs := range sets {
		before := cmp.Or(sizedFor(rs, maxAnnotation), total)
		due := int32(math.Round(float64(wanted(rs))*float64(r.most())/float64(before))) - wanted(rs)
		if left > 0 {
			due = min(max(due, 0), left)
		} else {
			due = max(min(due, 0), left)
		}
		targets[rs.UID] = wanted(rs) + due
		left -= due
	}
	targets[sets[0].UID] = max(0, targets[sets[0].UID]+left)
	return targets
}
