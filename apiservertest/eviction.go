package apiservertest

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var evictionKind = policyv1.SchemeGroupVersion.WithKind("Eviction")

// evict deletes a pod if its disruption budget's status allows it. In a real cluster a controller computes
// the status; here the test writes it.
func (c *call) evict() error {
	eviction := &policyv1.Eviction{}
	if err := c.bodyOf(evictionKind, eviction); err != nil {
		return err
	}
	if eviction.Name != c.name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	opts := eviction.DeleteOptions
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	asked := c.r.URL.Query()["dryRun"]
	switch {
	case len(opts.DryRun) == 0:
		opts.DryRun = asked
	case len(asked) > 0 && !slices.Equal(asked, opts.DryRun):
		return unclassified(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", asked, opts.DryRun))
	}
	if err := c.evictPod(opts); err != nil {
		return err
	}
	return c.sendDone()
}

func (c *call) evictPod(opts *metav1.DeleteOptions) error {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	cur, err := c.coll.stored(c.key())
	if err != nil {
		return err
	}
	pod := cur.obj.(*corev1.Pod)
	dry := len(opts.DryRun) > 0
	if !needsNoBudget(pod) {
		budget, err := s.budgetOf(pod)
		if err != nil {
			return err
		}
		if err := s.spend(budget, pod, dry); err != nil {
			return err
		}
	}
	// The budget has been spent, even if the deletion now fails.
	if err := checkDeleteOptions(opts); err != nil {
		return err
	}
	if err := c.checkPreconditions(opts.Preconditions, cur.obj); err != nil {
		return err
	}
	s.releaseMarked(c.coll, cur, dry)
	return nil
}

// needsNoBudget reports whether a pod may be evicted regardless of what its budget allows.
func needsNoBudget(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return true
	}
	return pod.DeletionTimestamp != nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// budgetOf returns the budget that protects a pod, or nil. The caller must hold the mutex.
func (s *cluster) budgetOf(pod *corev1.Pod) (*version, error) {
	budgets := s.collections[policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")]
	if budgets == nil {
		return nil, nil
	}
	var found *version
	for _, v := range budgets.now("", pod.Namespace+"/") {
		selector, err := metav1.LabelSelectorAsSelector(v.obj.(*policyv1.PodDisruptionBudget).Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue // a real server skips unreadable selectors too
		}
		if found != nil {
			return nil, unclassified("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		}
		found = v
	}
	return found, nil
}

// spend takes one disruption from a pod's budget. The caller must hold the mutex.
func (s *cluster) spend(budget *version, pod *corev1.Pod, dry bool) error {
	if budget == nil {
		return nil
	}
	pdb := clone(budget.obj).(*policyv1.PodDisruptionBudget)
	policy := pdb.Spec.UnhealthyPodEvictionPolicy
	switch {
	case isReady(pod):
	case policy != nil && *policy == policyv1.AlwaysAllow:
		return nil
	case pdb.Status.CurrentHealthy >= pdb.Status.DesiredHealthy && pdb.Status.DesiredHealthy > 0:
		return nil
	}
	switch {
	case pdb.Status.ObservedGeneration < pdb.Generation:
		return overBudget(10, "The disruption budget %s is still being processed by the server.", pdb.Name)
	case pdb.Status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), pdb.Name, fmt.Errorf("pdb disruptions allowed is negative"))
	case pdb.Status.DisruptionsAllowed == 0 && pdb.Status.CurrentHealthy > pdb.Status.DesiredHealthy:
		return overBudget(0, "The disruption budget %s does not allow evicting pods currently", pdb.Name)
	case pdb.Status.DisruptionsAllowed == 0:
		return overBudget(0, "The disruption budget %s needs %d healthy pods and has %d currently", pdb.Name, pdb.Status.DesiredHealthy, pdb.Status.CurrentHealthy)
	case dry:
		return nil
	}
	pdb.Status.DisruptionsAllowed--
	if pdb.Status.DisruptedPods == nil {
		pdb.Status.DisruptedPods = map[string]metav1.Time{}
	}
	pdb.Status.DisruptedPods[pod.Name] = metav1.Time{Time: time.Now().Truncate(time.Second)}
	allowed := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue, Reason: policyv1.SufficientPodsReason, ObservedGeneration: pdb.Generation}
	if pdb.Status.DisruptionsAllowed == 0 {
		allowed.Status, allowed.Reason = metav1.ConditionFalse, policyv1.InsufficientPodsReason
	}
	meta.SetStatusCondition(&pdb.Status.Conditions, allowed)
	c, err := s.collectionOf(pdb)
	if err == nil {
		s.replace(c, budget, "status", pdb)
	}
	return err
}

// overBudget returns the error for an eviction that the budget does not currently allow.
func overBudget(retryAfter int, why string, args ...any) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(why, args...),
	})
	return err
}
