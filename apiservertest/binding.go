package apiservertest

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace-dev/millrace/object"
)

var bindingKind = corev1.SchemeGroupVersion.WithKind("Binding")

// bind assigns a pod to a node on behalf of a scheduler. It does not check that the node exists.
func (c *call) bind() error {
	binding := &corev1.Binding{}
	if err := c.bodyOf(bindingKind, binding); err != nil {
		return err
	}
	if binding.Name != c.name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateTarget(binding.Target); len(errs) > 0 {
		return unclassified(errs.ToAggregate().Error())
	}
	if _, err := c.storeUpdate(func(cur object.Object) (object.Object, error) { return c.bound(cur, binding) }); err != nil {
		return err
	}
	return c.sendDone()
}

func validateTarget(target corev1.ObjectReference) (errs field.ErrorList) {
	if target.Kind != "" && target.Kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), target.Kind, []string{"Node", "<empty>"}))
	}
	if target.Name == "" {
		errs = append(errs, field.Required(field.NewPath("target", "name"), ""))
	}
	return errs
}

// bound returns the pod bound to its node.
func (c *call) bound(cur object.Object, binding *corev1.Binding) (object.Object, error) {
	pod := cur.(*corev1.Pod)
	refuse := func(format string, args ...any) error {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name, fmt.Errorf(format, args...))
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return nil, refuse("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return nil, refuse("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return nil, refuse("pod %s has non-empty .spec.schedulingGates", pod.Name)
	}
	if uid := binding.UID; uid != "" && uid != pod.UID {
		return nil, c.otherUID(uid, pod.UID)
	}
	if rv := binding.ResourceVersion; rv != "" && rv != pod.ResourceVersion {
		return nil, conflict(c.coll, c.name)
	}
	pod.Spec.NodeName = binding.Target.Name
	pod.Annotations = with(pod.Annotations, binding.Annotations)
	pod.Labels = with(pod.Labels, binding.Labels)
	setScheduled(&pod.Status)
	return pod, nil
}

// with merges the entries of more into has.
func with(has, more map[string]string) map[string]string {
	if has == nil && len(more) > 0 {
		has = map[string]string{}
	}
	maps.Copy(has, more)
	return has
}

func setScheduled(status *corev1.PodStatus) {
	scheduled := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: time.Now().Truncate(time.Second)},
	}
	for i := range status.Conditions {
		if status.Conditions[i].Type == scheduled.Type {
			status.Conditions[i] = scheduled
			return
		}
	}
	status.Conditions = append(status.Conditions, scheduled)
}
