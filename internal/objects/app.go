package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// app contains the values that an application's replicas have in common. Each replica generates its own
// copy, so they are equal but share no memory.
type app struct {
	s         *source
	name      string
	namespace string
	hash      string // hash of the pod template
	owner     types.UID
	labels    map[string]string
	images    [2]string
	digests   [2]string
}

// NamespaceNames returns the namespaces of objects that are not hostile.
func NamespaceNames() []string {
	names := make([]string, Namespaces)
	for n := range names {
		names[n] = namespaceName(n)
	}
	return names
}

func namespaceName(n int) string { return fmt.Sprintf("team-%02d", n) }

func newApp(seed uint64, kind string, i int, o Options) *app {
	s := appSource(seed, kind, i, o)
	a := &app{s: s, namespace: namespaceName(i % Namespaces)}
	a.name = s.pick("billing", "catalog", "checkout", "gateway", "ingest", "orders", "search", "session") + "-" + s.token(4)
	if o.Hostile {
		a.namespace += "-" + s.token(4)
	}
	a.hash = s.token(10)
	a.owner = s.uid()
	a.labels = map[string]string{
		s.fixed("app"):               a.name,
		s.fixed("component"):         s.pick("api", "worker", "frontend"),
		s.fixed("part-of"):           s.pick("shop", "platform", "data"),
		s.fixed("managed-by"):        s.fixed("helm"),
		s.fixed("pod-template-hash"): a.hash,
	}
	for c := range a.images {
		a.images[c] = "ghcr.io/" + s.pick("shop", "platform") + "/" + s.token(6) + ":v1." + fmt.Sprint(s.r.IntN(40)) + "." + fmt.Sprint(s.r.IntN(10))
		a.digests[c] = "ghcr.io/" + s.token(6) + "@sha256:" + s.hex(32)
	}
	return a
}

// template returns the pod specification as it appears in the template, without the fields added by the
// API server and the scheduler.
func (a *app) template() corev1.PodSpec {
	s := a.s
	grace := int64(s.number(30))
	containers := []corev1.Container{a.container(0, "app"), a.container(1, "proxy")}
	containers[0].LivenessProbe = a.probe("/healthz", 10)
	return corev1.PodSpec{
		Containers:                    containers,
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: &grace,
		DNSPolicy:                     corev1.DNSClusterFirst,
		ServiceAccountName:            a.name,
		SchedulerName:                 s.fixed("default-scheduler"),
	}
}

func (a *app) container(c int, name string) corev1.Container {
	s := a.s
	return corev1.Container{
		Name:  s.fixed(name),
		Image: a.images[c],
		Args:  []string{"--config=/etc/" + s.token(6) + ".yaml"},
		Ports: []corev1.ContainerPort{{Name: s.fixed("http"), ContainerPort: s.number(int32(8080 + c)), Protocol: corev1.ProtocolTCP}},
		Env:   a.env(),
		Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{
				corev1.ResourceMemory: s.quantity("256Mi", "512Mi", "1Gi"),
			},
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    s.quantity("100m", "250m", "500m"),
				corev1.ResourceMemory: s.quantity("128Mi", "256Mi", "512Mi"),
			},
		},
		ReadinessProbe:  a.probe("/readyz", 5),
		ImagePullPolicy: corev1.PullIfNotPresent,
	}
}

// env returns eleven environment variables: ten values and a reference to a pod field.
func (a *app) env() []corev1.EnvVar {
	s := a.s
	values := [...][2]string{
		{"LOG_LEVEL", s.pick("info", "warn", "debug")},
		{"LOG_FORMAT", s.fixed("json")},
		{"DB_HOST", "db-" + s.token(4) + ".svc"},
		{"DB_NAME", a.name},
		{"CACHE_URL", "redis://" + s.token(8) + ":6379"},
		{"OTEL_SERVICE", a.name},
		{"FEATURES", s.token(8) + "," + s.token(8)},
		{"GOMAXPROCS", fmt.Sprint(s.number(2))},
		{"REVISION", s.hex(6)},
		{"REGION", s.pick("eu-1", "us-2")},
	}
	env := make([]corev1.EnvVar, 0, len(values)+1)
	for _, v := range values {
		env = append(env, corev1.EnvVar{Name: s.fixed(v[0]), Value: v[1]})
	}
	path := "metadata.name"
	if s.hostile {
		path = fmt.Sprintf("metadata.annotations['%s']", s.token(7))
	}
	return append(env, corev1.EnvVar{Name: s.fixed("POD_NAME"), ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}})
}

func (a *app) probe(path string, period int32) *corev1.Probe {
	s := a.s
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path:   s.fixed(path),
			Port:   intstr.FromString(s.fixed("http")),
			Scheme: corev1.URISchemeHTTP,
		}},
		TimeoutSeconds:   s.number(1),
		PeriodSeconds:    s.number(period),
		SuccessThreshold: s.number(1),
		FailureThreshold: s.number(3),
	}
}

// replicaSet returns a pod's owner.
func (a *app) replicaSet() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion:         "apps/v1",
		Kind:               "ReplicaSet",
		Name:               a.name + "-" + a.hash,
		UID:                a.owner,
		Controller:         new(true),
		BlockOwnerDeletion: new(true),
	}
}
