package apiservertest

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
)

// owned returns resources that controllers commonly create for their objects. The server treats them like
// any other. A Job deleted without a propagation policy is removed immediately, whereas the real server
// first marks it for orphaning its Pods.
func owned() []Resource {
	of := func(group schema.GroupVersion, resource, kind string, new func() object.Object, short ...string) Resource {
		return Resource{GVR: group.WithResource(resource), Kind: kind, Namespaced: true, New: new, ShortNames: short,
			statusLabels: group == corev1.SchemeGroupVersion, statusAnnotations: true}
	}
	withStatus := func(r Resource) Resource { r.Status = true; return r }
	counted := func(r Resource) Resource { r.Generation = true; return r }
	inAll := func(r Resource) Resource { r.Categories = []string{"all"}; return r }
	upserted := func(r Resource) Resource { r.createsOnUpdate = true; return r }
	versioned := func(r Resource) Resource { r.needsVersion = true; return r }
	ofCluster := func(r Resource) Resource { r.Namespaced = false; return r }
	scaled := func(r Resource) Resource { r.Scale = scaleOfWorkload; return r }
	label := func(r Resource) Resource { r.validName = validation.NameIsDNSLabel; return r }
	anyName := func(r Resource) Resource { r.validName = path.ValidatePathSegmentName; return r }
	selected := func(r Resource, by func(object.Object) fields.Set) Resource { r.Fields = by; return r }
	handedBack := func(r Resource) Resource { r.returnsDeleted = true; return r }

	core, apps, batch := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	networking, policy, rbac := networkingv1.SchemeGroupVersion, policyv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion
	return []Resource{
		handedBack(of(core, "serviceaccounts", "ServiceAccount", func() object.Object { return &corev1.ServiceAccount{} }, "sa")),
		handedBack(withStatus(of(core, "persistentvolumeclaims", "PersistentVolumeClaim", func() object.Object { return &corev1.PersistentVolumeClaim{} }, "pvc"))),
		handedBack(withStatus(of(core, "resourcequotas", "ResourceQuota", func() object.Object { return &corev1.ResourceQuota{} }, "quota"))),
		upserted(of(core, "limitranges", "LimitRange", func() object.Object { return &corev1.LimitRange{} }, "limits")),
		label(inAll(scaled(counted(withStatus(of(apps, "statefulsets", "StatefulSet", func() object.Object { return &appsv1.StatefulSet{} }, "sts")))))),
		inAll(counted(withStatus(of(apps, "daemonsets", "DaemonSet", func() object.Object { return &appsv1.DaemonSet{} }, "ds")))),
		selected(inAll(counted(withStatus(of(batch, "jobs", "Job", func() object.Object { return &batchv1.Job{} })))), jobFields),
		inAll(counted(withStatus(of(batch, "cronjobs", "CronJob", func() object.Object { return &batchv1.CronJob{} }, "cj")))),
		counted(withStatus(of(networking, "ingresses", "Ingress", func() object.Object { return &networkingv1.Ingress{} }, "ing"))),
		counted(of(networking, "networkpolicies", "NetworkPolicy", func() object.Object { return &networkingv1.NetworkPolicy{} }, "netpol")),
		versioned(counted(withStatus(of(policy, "poddisruptionbudgets", "PodDisruptionBudget", func() object.Object { return &policyv1.PodDisruptionBudget{} }, "pdb")))),
		anyName(upserted(of(rbac, "roles", "Role", func() object.Object { return &rbacv1.Role{} }))),
		anyName(upserted(of(rbac, "rolebindings", "RoleBinding", func() object.Object { return &rbacv1.RoleBinding{} }))),
		anyName(upserted(ofCluster(of(rbac, "clusterroles", "ClusterRole", func() object.Object { return &rbacv1.ClusterRole{} })))),
		anyName(upserted(ofCluster(of(rbac, "clusterrolebindings", "ClusterRoleBinding", func() object.Object { return &rbacv1.ClusterRoleBinding{} })))),
	}
}
