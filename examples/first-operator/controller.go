package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/sandbox/api/v1"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd rbac:roleName=sandbox paths=./... output:crd:dir=deploy output:rbac:dir=deploy

// +kubebuilder:rbac:groups=dev.example.com,resources=sandboxes,verbs=list;watch;delete
// +kubebuilder:rbac:groups=dev.example.com,resources=sandboxes/status,verbs=patch
// +kubebuilder:rbac:groups=dev.example.com,resources=sandboxes/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces;resourcequotas,verbs=list;watch;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=list;watch;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=edit,verbs=bind
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update,namespace=sandbox-operator

// sandboxes is the controller for Sandboxes.
type sandboxes struct {
	sandboxes  *controller.Client[*v1.Sandbox]
	namespaces *controller.Client[*corev1.Namespace]
	quotas     *controller.Client[*corev1.ResourceQuota]
	bindings   *controller.Client[*rbacv1.RoleBinding]
	events     *events.Recorder
}

func addController(m *manager.Manager) error {
	s := &sandboxes{
		sandboxes:  manager.Client[*v1.Sandbox](m),
		namespaces: manager.Client[*corev1.Namespace](m),
		quotas:     manager.Client[*corev1.ResourceQuota](m),
		bindings:   manager.Client[*rbacv1.RoleBinding](m),
		events:     m.Events("dev.example.com/sandbox"),
	}
	return manager.ControllerFor[*v1.Sandbox](m).Owns(s.namespaces, s.quotas, s.bindings).Complete(s.reconcile)
}

// reconcile is called with a copy of a Sandbox when it or one of its objects has changed.
func (c *sandboxes) reconcile(ctx context.Context, s *v1.Sandbox) (controller.Result, error) {
	if s.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	expires := s.CreationTimestamp.Add(time.Duration(s.Spec.Hours) * time.Hour)
	if !time.Now().Before(expires) {
		c.events.Recordf(s, corev1.EventTypeNormal, "Expired", "Delete", "its %d hours are over", s.Spec.Hours)
		return controller.Result{}, c.sandboxes.Delete(ctx, s)
	}
	again := time.Until(expires)

	name := "sandbox-" + s.Name
	ready := metav1.Condition{Type: v1.Ready, Status: metav1.ConditionTrue, Reason: "Made", Message: "the owner can work", ObservedGeneration: s.Generation}
	if ns, exists := c.namespaces.Get(object.Key{Name: name}); exists && !controller.Controls(s, ns) {
		ready.Status, ready.Reason = metav1.ConditionFalse, "NamespaceTaken"
		ready.Message = fmt.Sprintf("the namespace %s belongs to somebody else: delete it, or choose another name", name)
		again = min(again, time.Minute)
	} else if err := c.make(ctx, s, name); err != nil {
		return controller.Result{}, err
	}
	_, err := controller.PatchStatus(ctx, c.sandboxes, s, func(s *v1.Sandbox) error {
		s.Status.Namespace, s.Status.Expires = name, metav1.NewTime(expires)
		meta.SetStatusCondition(&s.Status.Conditions, ready)
		return nil
	})
	return controller.Result{RequeueAfter: again}, err
}

// make creates or updates a Sandbox's objects.
func (c *sandboxes) make(ctx context.Context, s *v1.Sandbox, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, _, err := controller.CreateOrUpdate(ctx, c.namespaces.OwnedBy(s), ns, func(*corev1.Namespace) error { return nil })
	if err != nil {
		return err
	}
	in := metav1.ObjectMeta{Namespace: name, Name: "sandbox"}
	_, _, err = controller.CreateOrUpdate(ctx, c.quotas.OwnedBy(s), &corev1.ResourceQuota{ObjectMeta: in}, func(q *corev1.ResourceQuota) error {
		q.Spec.Hard = s.Spec.Quota
		return nil
	})
	if err != nil {
		return err
	}
	_, _, err = controller.CreateOrUpdate(ctx, c.bindings.OwnedBy(s), &rbacv1.RoleBinding{ObjectMeta: in}, func(b *rbacv1.RoleBinding) error {
		b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}
		b.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: s.Spec.Owner}}
		return nil
	})
	return err
}
