package objects

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace-dev/millrace/object"
)

// Kind generates the objects of one kind.
type Kind struct {
	Resource object.GVR
	New      func(seed uint64, i int, o Options) object.Object
}

// Kinds returns the kinds that a controller for applications might watch: widgets, and nine built-in kinds.
func Kinds() []Kind {
	core, apps, batch := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	return []Kind{
		{WidgetVersion().WithResource(WidgetPlural), func(seed uint64, i int, o Options) object.Object { return Widget(seed, i, o) }},
		{core.WithResource("pods"), func(seed uint64, i int, o Options) object.Object { return Pod(seed, i, o) }},
		{core.WithResource("configmaps"), configMap},
		{core.WithResource("secrets"), secret},
		{core.WithResource("services"), service},
		{apps.WithResource("deployments"), func(seed uint64, i int, o Options) object.Object { return Deployment(seed, i, o) }},
		{apps.WithResource("replicasets"), replicaSet},
		{apps.WithResource("statefulsets"), statefulSet},
		{apps.WithResource("daemonsets"), daemonSet},
		{batch.WithResource("jobs"), job},
	}
}

// meta returns the metadata of an object without a status, and the source of its content.
func (a *app) meta(seed uint64, kind string, i int, o Options) (metav1.ObjectMeta, *source) {
	s := newSource(seed, kind, i, o.Hostile)
	m := metav1.ObjectMeta{
		Name: a.name + "-" + suffix(i), Namespace: a.namespace, UID: s.uid(), ResourceVersion: version(i, 0),
		CreationTimestamp: s.created(), Labels: a.labels,
	}
	var f fields
	f.labelsAndOwner(&m)
	m.ManagedFields = []metav1.ManagedFieldsEntry{managed("helm", "", "v1", m.CreationTimestamp, f.done())}
	return m, s
}

func configMap(seed uint64, i int, o Options) object.Object {
	a := newApp(seed, "configmap", i, o)
	m, s := a.meta(seed, "configmap", i, o)
	return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{
		a.s.fixed("config.yaml"): a.s.token(800), a.s.fixed("revision"): s.hex(20),
	}}
}

// LargeConfigMap returns a ConfigMap of 10 KB that has its own content, such as a Helm release or a dashboard.
func LargeConfigMap(seed uint64, i int, o Options) *corev1.ConfigMap {
	a := newApp(seed, "large-configmap", i, o)
	m, s := a.meta(seed, "large-configmap", i, o)
	return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{a.s.fixed("release"): s.token(10_000)}}
}

func secret(seed uint64, i int, o Options) object.Object {
	a := newApp(seed, "secret", i, o)
	m, s := a.meta(seed, "secret", i, o)
	return &corev1.Secret{ObjectMeta: m, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
		a.s.fixed("username"): []byte(a.name), a.s.fixed("password"): []byte(s.token(32)),
	}}
}

func service(seed uint64, i int, o Options) object.Object {
	a := newApp(seed, "service", i, o)
	m, s := a.meta(seed, "service", i, o)
	return &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{
			{Name: a.s.fixed("http"), Protocol: corev1.ProtocolTCP, Port: a.s.number(80), TargetPort: intstr.FromString(a.s.fixed("http"))},
		},
		Selector:  map[string]string{a.s.fixed("app"): a.name},
		Type:      corev1.ServiceTypeClusterIP,
		ClusterIP: fmt.Sprintf("10.%d.%d.%d", s.r.IntN(256), s.r.IntN(256), s.r.IntN(256)),
	}}
}

// workload returns a Deployment from whose metadata and template an object of another kind is built. It
// already has that object's UID.
func workload(seed uint64, kind string, i int, o Options) *appsv1.Deployment {
	d := Deployment(seed, i, o)
	d.UID = newSource(seed, kind, i, o.Hostile).uid()
	return d
}

func replicaSet(seed uint64, i int, o Options) object.Object {
	d := workload(seed, "replicaset", i, o)
	return &appsv1.ReplicaSet{
		ObjectMeta: d.ObjectMeta,
		Spec:       appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
		Status:     appsv1.ReplicaSetStatus{Replicas: d.Status.Replicas, ReadyReplicas: d.Status.Replicas, AvailableReplicas: d.Status.Replicas},
	}
}

func statefulSet(seed uint64, i int, o Options) object.Object {
	d := workload(seed, "statefulset", i, o)
	return &appsv1.StatefulSet{
		ObjectMeta: d.ObjectMeta,
		Spec:       appsv1.StatefulSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template, ServiceName: d.Name},
		Status:     appsv1.StatefulSetStatus{Replicas: d.Status.Replicas, ReadyReplicas: d.Status.Replicas, AvailableReplicas: d.Status.Replicas},
	}
}

func daemonSet(seed uint64, i int, o Options) object.Object {
	d := workload(seed, "daemonset", i, o)
	return &appsv1.DaemonSet{
		ObjectMeta: d.ObjectMeta,
		Spec:       appsv1.DaemonSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
		Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: d.Status.Replicas, NumberReady: d.Status.Replicas, NumberAvailable: d.Status.Replicas},
	}
}

func job(seed uint64, i int, o Options) object.Object {
	d := workload(seed, "job", i, o)
	return &batchv1.Job{
		ObjectMeta: d.ObjectMeta,
		Spec:       batchv1.JobSpec{Completions: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
		Status:     batchv1.JobStatus{Succeeded: d.Status.Replicas},
	}
}
