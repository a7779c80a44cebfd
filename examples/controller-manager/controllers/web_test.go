package controllers_test

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/object"
)

// web is the Deployment of the tests.
var web = object.Key{Namespace: "shop", Name: "web"}

func intOrString(n int) intstr.IntOrString { return intstr.FromInt32(int32(n)) }

func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intOrString(1)), MaxUnavailable: new(intOrString(0))}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "one:1"}}},
			},
		},
	}
}

func change(e *controllertest.Env, change func(d *appsv1.Deployment)) {
	e.Helper()
	d := controllertest.Get[*appsv1.Deployment](e, web).DeepCopy()
	change(d)
	d.Generation++ // the test writes past the API
	controllertest.Put(e, d)
}

func setImage(e *controllertest.Env, image string) {
	e.Helper()
	change(e, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

func images(e *controllertest.Env) map[string]int {
	e.Helper()
	images := map[string]int{}
	for _, p := range controllertest.All[*corev1.Pod](e) {
		images[p.Spec.Containers[0].Image]++
	}
	return images
}

// progress is the reason of the condition Progressing.
func progress(e *controllertest.Env) string {
	e.Helper()
	for _, c := range controllertest.Get[*appsv1.Deployment](e, web).Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c.Reason
		}
	}
	return ""
}
