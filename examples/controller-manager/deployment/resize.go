package deployment

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations of a ReplicaSet that say for how many Pods of the Deployment its size
// was chosen, and for how many at most, the surge included.
const (
	desiredAnnotation = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation     = "deployment.kubernetes.io/max-replicas"
)

// sizedFor reads an annotation that has a number; 0 if it has not.
func sizedFor(rs *appsv1.ReplicaSet, annotation string) int32 {
	n, err := strconv.ParseInt(rs.Annotations[annotation], 10, 32)
	if err != nil {
		return 0 // nobody has said it, or somebody wrote something else there
	}
	return int32(n)
}

// most is how many Pods there may be.
func (r *rollout) most() int32 {
	if r.replicas == 0 {
		return 0
	}
	return r.replicas + r.maxSurge
}

// active are the ReplicaSets that are to have Pods, the current one last.
func (r *rollout) active() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(r.all(), func(rs *appsv1.ReplicaSet) bool { return wanted(rs) == 0 })
}

// resized reports whether the ReplicaSets were sized for another number of Pods than
// the Deployment asks for now. Recreate has no use for proportions.
func (r *rollout) resized() bool {
	return r.deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType &&
		slices.ContainsFunc(r.active(), func(rs *appsv1.ReplicaSet) bool {
			_, said := rs.Annotations[desiredAnnotation]
			return said && sizedFor(rs, desiredAnnotation) != r.replicas
		})
}

// resize follows the Deployment to another number of Pods without rolling on: one
// ReplicaSet alone gets all, several get what is due to them.
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

// spread brings ReplicaSets to as many Pods as there may be, each in proportion to its
// size, so that a roll-out that is under way or stuck neither wins nor loses ground.
// What does not come out even is the largest one's.
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
