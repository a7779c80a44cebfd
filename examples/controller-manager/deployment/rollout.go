package deployment

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// rollout determines the next step for a Deployment and its ReplicaSets. It sends no requests.
type rollout struct {
	deployment *appsv1.Deployment
	current    *appsv1.ReplicaSet   // has the Deployment's template; nil if there is none
	old        []*appsv1.ReplicaSet // the others, sorted by revision

	replicas       int32 // requested
	maxSurge       int32 // Pods above replicas
	maxUnavailable int32 // Pods below replicas
	history        int   // number of old ReplicaSets without Pods to keep
}

func newRollout(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) *rollout {
	r := &rollout{deployment: d, replicas: 1, history: 10}
	if d.Spec.Replicas != nil {
		r.replicas = *d.Spec.Replicas
	}
	if d.Spec.RevisionHistoryLimit != nil {
		r.history = int(*d.Spec.RevisionHistoryLimit)
	}
	r.maxSurge, r.maxUnavailable = limits(d.Spec.Strategy.RollingUpdate, r.replicas)
	sets = slices.SortedFunc(slices.Values(sets), byRevision)
	for _, rs := range sets {
		if r.current == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			r.current = rs
			continue
		}
		r.old = append(r.old, rs)
	}
	return r
}

// limits returns maxSurge and maxUnavailable as Pod counts. If both are 0, it allows one Pod to be
// unavailable, because the rollout could not progress otherwise.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment
func limits(u *appsv1.RollingUpdateDeployment, replicas int32) (maxSurge, maxUnavailable int32) {
	quarter := intstr.FromString("25%")
	surge, unavailable := &quarter, &quarter
	if u != nil && u.MaxSurge != nil {
		surge = u.MaxSurge
	}
	if u != nil && u.MaxUnavailable != nil {
		unavailable = u.MaxUnavailable
	}
	maxSurge, maxUnavailable = share(surge, replicas, true), share(unavailable, replicas, false)
	if maxSurge == 0 && maxUnavailable == 0 {
		maxUnavailable = 1
	}
	return maxSurge, min(maxUnavailable, replicas)
}

// share returns a number unchanged, and a percentage as that fraction of all. The server rejects any
// other value.
func share(v *intstr.IntOrString, all int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(all), up)
	if err != nil {
		return 0
	}
	return int32(max(n, 0))
}

// all returns every ReplicaSet, with the current one last.
func (r *rollout) all() []*appsv1.ReplicaSet {
	if r.current == nil {
		return slices.Clone(r.old)
	}
	return append(slices.Clone(r.old), r.current)
}

// replace stores the server's version of a ReplicaSet.
func (r *rollout) replace(rs *appsv1.ReplicaSet) {
	if r.current != nil && r.current.UID == rs.UID {
		r.current = rs
		return
	}
	for i, o := range r.old {
		if o.UID == rs.UID {
			r.old[i] = rs
		}
	}
}

// newRevision returns the revision following those of the old ReplicaSets.
func (r *rollout) newRevision() int64 {
	revision := int64(0)
	for _, rs := range r.old {
		revision = max(revision, revisionOf(rs))
	}
	return revision + 1
}

// step returns the next size for each ReplicaSet, by UID.
func (r *rollout) step() map[types.UID]int32 {
	if r.deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return r.recreate()
	}
	return r.roll()
}

// recreate removes the Pods of all old ReplicaSets, and starts the current one once the last of these
// Pods has terminated. API servers before 1.35 do not store the number of terminating Pods, so with
// those, terminating Pods are counted as already removed.
func (r *rollout) recreate() map[types.UID]int32 {
	targets := map[types.UID]int32{}
	left := false
	for _, rs := range r.old {
		targets[rs.UID] = 0
		left = left || wanted(rs) > 0 || rs.Status.Replicas > 0 || terminating(rs) > 0
	}
	if !left {
		targets[r.current.UID] = r.replicas
	}
	return targets
}

// roll moves Pods from the old ReplicaSets to the current one:
//
//  1. The current one grows until there are maxSurge more Pods than requested.
//  2. Unavailable old Pods are deleted first, because that does not reduce availability, then others,
//     oldest template first, until maxUnavailable fewer Pods than requested are available. Pods of the
//     current one that are not available yet already count as unavailable.
//
// roll counts changes in progress pessimistically. Pods being created or deleted count towards maxSurge,
// and Pods being deleted do not count as available.
func (r *rollout) roll() map[types.UID]int32 {
	targets := map[types.UID]int32{}
	total, there := int32(0), int32(0)
	for _, rs := range r.all() {
		targets[rs.UID] = wanted(rs)
		total += wanted(rs)
		there += max(wanted(rs), rs.Status.Replicas)
	}
	current := wanted(r.current)
	targets[r.current.UID] = min(current+max(0, r.replicas+r.maxSurge-there), r.replicas)

	spare := max(0, total-(r.replicas-r.maxUnavailable)-(current-available(r.current)))
	for _, rs := range r.old {
		n := min(spare, wanted(rs)-available(rs))
		targets[rs.UID] -= n
		spare -= n
	}
	for _, rs := range r.old { // only available Pods are left; the unavailable ones have been deducted
		n := min(spare, targets[rs.UID])
		targets[rs.UID] -= n
		spare -= n
	}
	return targets
}

func wanted(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

// available returns the number of a ReplicaSet's available Pods that will stay.
func available(rs *appsv1.ReplicaSet) int32 { return min(wanted(rs), rs.Status.AvailableReplicas) }

// terminating returns the number of a ReplicaSet's Pods that are being deleted.
func terminating(rs *appsv1.ReplicaSet) int32 {
	if rs.Status.TerminatingReplicas == nil {
		return 0
	}
	return *rs.Status.TerminatingReplicas
}

// complete reports whether all Pods are available and have the current template.
func (r *rollout) complete() bool {
	if r.current == nil || r.current.Status.ObservedGeneration < r.current.Generation {
		return false
	}
	for _, rs := range r.old {
		if wanted(rs) > 0 || rs.Status.Replicas > 0 {
			return false
		}
	}
	s := r.current.Status
	return wanted(r.current) == r.replicas && s.Replicas == r.replicas && s.AvailableReplicas == r.replicas
}

// untilDeadline returns the time until a stuck rollout is considered failed, or 0 if it never is.
func (r *rollout) untilDeadline(now time.Time) time.Duration {
	seconds := r.deployment.Spec.ProgressDeadlineSeconds
	if seconds == nil || r.deployment.Spec.Paused || r.complete() {
		return 0
	}
	last := now
	if c := condition(r.deployment.Status.Conditions, appsv1.DeploymentProgressing); c != nil {
		if c.Reason == deadlineExceeded {
			return 0
		}
		last = c.LastUpdateTime.Time
	}
	return max(time.Second, last.Add(time.Duration(*seconds)*time.Second).Sub(now)+time.Second)
}
