package objects

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Deployment returns the i-th deployment: rolled out and available, 5 to 6 KB as JSON. Deployments of
// the same application look like many installations of the same chart: they differ in name, UID,
// resource version and times.
func Deployment(seed uint64, i int, o Options) *appsv1.Deployment {
	a := newApp(seed, "deployment", i, o)
	s := newSource(seed, "deployment", i, o.Hostile)
	created := s.created()
	replicas := a.s.number(3)
	template := map[string]string{a.s.fixed("app"): a.name, a.s.fixed("tier"): a.s.pick("front", "back")}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:              a.name + "-" + suffix(i),
			Namespace:         a.namespace,
			UID:               s.uid(),
			ResourceVersion:   version(i, 0),
			Generation:        int64(s.number(2)),
			CreationTimestamp: created,
			Labels:            a.labels,
			Annotations:       map[string]string{a.s.fixed("deployment.kubernetes.io/revision"): fmt.Sprint(a.s.number(2))},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: template},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(template)},
				Spec:       a.template(),
			},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromInt32(a.s.number(0))),
					MaxSurge:       new(intstr.FromInt32(a.s.number(1))),
				},
			},
			RevisionHistoryLimit:    new(a.s.number(10)),
			ProgressDeadlineSeconds: new(a.s.number(600)),
		},
	}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		Replicas:           replicas,
		UpdatedReplicas:    replicas,
		ReadyReplicas:      replicas,
		AvailableReplicas:  replicas,
		Conditions: []appsv1.DeploymentCondition{
			deploymentCondition(appsv1.DeploymentAvailable, "MinimumReplicasAvailable", "Deployment has minimum availability.", after(created, 9)),
			deploymentCondition(appsv1.DeploymentProgressing, "NewReplicaSetAvailable",
				fmt.Sprintf("ReplicaSet %q has successfully progressed.", d.Name+"-"+a.hash), after(created, 9)),
		},
	}
	d.ManagedFields = []metav1.ManagedFieldsEntry{
		managed("helm", "", "apps/v1", created, ownedByHelm(d)),
		managed("kube-controller-manager", "status", "apps/v1", after(created, 9), ownedByDeploymentController(s)),
	}
	return d
}

func deploymentCondition(kind appsv1.DeploymentConditionType, reason, message string, at metav1.Time) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: at, LastTransitionTime: at,
	}
}

func ownedByHelm(d *appsv1.Deployment) string {
	var f fields
	f.labelsAndOwner(&d.ObjectMeta)
	f.open("f:spec", false)
	f.leaf("f:progressDeadlineSeconds", "f:replicas", "f:revisionHistoryLimit", "f:selector", "f:strategy")
	f.open("f:template", false)
	f.podSpec(&d.Spec.Template.Spec)
	f.shut()
	f.shut()
	return f.done()
}

func ownedByDeploymentController(s *source) string {
	var f fields
	f.open("f:status", false)
	f.leaf("f:availableReplicas")
	f.open("f:conditions", true)
	for _, kind := range []string{"Available", "Progressing"} {
		f.condition(s, kind, "f:lastTransitionTime", "f:lastUpdateTime", "f:message", "f:reason", "f:status", "f:type")
	}
	f.shut()
	f.leaf("f:observedGeneration", "f:readyReplicas", "f:replicas", "f:updatedReplicas")
	f.shut()
	return f.done()
}
