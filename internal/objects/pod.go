package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod returns the i-th pod: running and ready, with two containers of eleven environment variables
// each, probes, resources, five labels, two entries in managedFields and a full status; 6 to 7 KB as
// JSON, about 4.5 KB as protobuf.
func Pod(seed uint64, i int, o Options) *corev1.Pod {
	a := newApp(seed, "pod", i, o)
	s := newSource(seed, "pod", i, o.Hostile)
	created := s.created()
	if o.Alike {
		created = newSource(seed, "rollout", i%Apps, false).created()
	}
	prefix := a.name + "-" + a.hash + "-"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              prefix + suffix(i),
			GenerateName:      prefix,
			Namespace:         a.namespace,
			UID:               s.uid(),
			ResourceVersion:   version(i, 0),
			Generation:        1,
			CreationTimestamp: created,
			Labels:            a.labels,
			OwnerReferences:   []metav1.OwnerReference{a.replicaSet()},
		},
		Spec: a.template(),
	}
	node := s.r.IntN(Nodes)
	admit(&pod.Spec, a.s, "kube-api-access-"+s.token(5))
	pod.Spec.NodeName = fmt.Sprintf("node-%04d", node)
	if o.Hostile {
		pod.Spec.NodeName += "-" + s.token(7)
	}
	status(pod, a, s, i, node)
	pod.ManagedFields = []metav1.ManagedFieldsEntry{
		managed("kube-controller-manager", "", "v1", created, ownedByController(pod)),
		managed("kubelet", "status", "v1", after(created, 8), ownedByKubelet(s, pod, o)),
	}
	return pod
}

// suffix returns the suffix of the i-th name: five letters, like the API server's random suffixes, but
// unique for 27^5 names.
func suffix(i int) string {
	const base = len(letters)
	const all = base * base * base * base * base
	n := (i*7_654_321 + 1_234_567) % all // the factor and all are coprime
	b := make([]byte, 5)
	for at := range b {
		b[at] = letters[n%base]
		n /= base
	}
	return string(b)
}

// admit adds the fields that the API server adds to every pod: the service account's volume, mounted in
// each container, and two tolerations.
func admit(spec *corev1.PodSpec, s *source, volume string) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(s.number(420)), Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(s.number(3607))), Path: s.fixed("token")}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: s.fixed("kube-root-ca.crt")},
				Items:                []corev1.KeyToPath{{Key: s.fixed("ca.crt"), Path: s.fixed("ca.crt")}},
			}},
		}},
	}})
	for c := range spec.Containers {
		spec.Containers[c].VolumeMounts = append(spec.Containers[c].VolumeMounts, corev1.VolumeMount{
			Name: volume, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/" + s.fixed("serviceaccount"),
		})
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: s.fixed(key), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(s.number(300))),
		})
	}
}

// status fills in the status of a running pod.
func status(pod *corev1.Pod, a *app, s *source, i, node int) {
	created := pod.CreationTimestamp
	ready := after(created, 8)
	host := fmt.Sprintf("172.16.%d.%d", node>>8, node&255)
	if s.hostile {
		host = fmt.Sprintf("172.%d.%d.%d", 16+i>>16, i>>8&255, i&255)
	}
	ip := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	pod.Status = corev1.PodStatus{
		Phase:     corev1.PodRunning,
		HostIP:    host,
		PodIP:     ip,
		PodIPs:    []corev1.PodIP{{IP: ip}},
		StartTime: &created,
		QOSClass:  corev1.PodQOSBurstable,
	}
	for _, c := range []struct {
		kind corev1.PodConditionType
		at   metav1.Time
	}{
		{corev1.PodInitialized, created},
		{corev1.PodReady, ready},
		{corev1.ContainersReady, ready},
		{corev1.PodScheduled, created},
	} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: c.kind, Status: corev1.ConditionTrue, LastTransitionTime: c.at,
		})
	}
	for c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name:        pod.Spec.Containers[c].Name,
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: after(created, 2+c)}},
			Ready:       true,
			Image:       a.images[c],
			ImageID:     a.digests[c],
			ContainerID: "containerd://" + s.hex(32),
			Started:     new(true),
		})
	}
}
