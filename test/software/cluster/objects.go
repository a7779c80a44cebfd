package cluster

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// template returns a Pod template with a label.
func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels(app)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "server", Image: "example.com/server:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Env: []corev1.EnvVar{{Name: "APP", Value: app}, {Name: "LOG_LEVEL", Value: "info"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
		}}},
	}
}

func labels(app string) map[string]string { return map[string]string{"app": app} }

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels(app)}
}

func deployment(namespace, app string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(namespace, app), Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: selector(app), Template: template(app),
	}}
}

func statefulSet(namespace, app string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta(namespace, app), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: selector(app), Template: template(app), ServiceName: app,
	}}
}

func daemonSet(namespace, app string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: meta(namespace, app), Spec: appsv1.DaemonSetSpec{
		Selector: selector(app), Template: template(app),
	}}
}

func job(namespace, app string, completions int32) *batchv1.Job {
	t := template(app)
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: meta(namespace, app), Spec: batchv1.JobSpec{
		Completions: &completions, Parallelism: new(int32(2)), Template: t,
	}}
}

func service(namespace, app string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(namespace, app), Spec: corev1.ServiceSpec{
		Selector: labels(app), Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
	}}
}

func budget(namespace, app string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: meta(namespace, app), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: selector(app),
	}}
}

func quota(namespace string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: meta(namespace, "limits"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("200"), corev1.ResourceServices: resource.MustParse("20"),
		corev1.ResourceConfigMaps: resource.MustParse("200"), "count/deployments.apps": resource.MustParse("20"),
	}}}
}

// owned returns a ConfigMap that is deleted together with its owner.
func owned(owner *corev1.ConfigMap, n int) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: meta(owner.Namespace, fmt.Sprint(owner.Name, "-", n)), Data: map[string]string{"n": fmt.Sprint(n)}}
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: new(true),
	}}
	return m
}
