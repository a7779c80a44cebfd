// Package life takes a Deployment through its whole lifecycle, as a test of the controllers in
// examples/controller-manager. It works with both the simulated server and a real one.
package life

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// World is a Deployment's environment.
type World struct {
	testing.TB
	Client    *rest.Client
	Namespace string

	// Until waits until reached returns nil. If that takes too long, it fails the test with the last error.
	Until func(reached func() error)
}

// Replicas is the number of Pods that Run requests. During a rollout there is at most one extra Pod, and
// the number of available Pods never drops below Replicas.
const Replicas = 6

// Run takes a Deployment through its lifecycle: create, scale, roll out an image, get stuck with a broken
// one, roll back, delete old revisions, adopt, delete.
func Run(w World) {
	w.Helper()
	w.create()
	w.settled("one:1", 3, "1")

	w.change("scale up", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(Replicas)) })
	first := w.settled("one:1", Replicas, "1")

	w.change("roll out", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "two:2" })
	w.settled("two:2", Replicas, "2")

	w.change("get stuck", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = Broken + ":3" })
	w.Until(func() error {
		images := w.images()
		if images["two:2"] != Replicas || images[Broken+":3"] != 1 {
			return fmt.Errorf("stuck with %v", images)
		}
		return nil
	})

	w.change("roll back", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "one:1" })
	back := w.settled("one:1", Replicas, "4")
	if back.Name != first.Name || back.Annotations["deployment.kubernetes.io/revision-history"] != "1" {
		w.Fatalf("rolled back to %s with %v, want %s", back.Name, back.Annotations, first.Name)
	}

	w.change("forget", func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(1)) })
	w.Until(func() error {
		if sets := w.sets(); len(sets) != 2 {
			return fmt.Errorf("%d ReplicaSets", len(sets))
		}
		return nil
	})

	w.adopt()
	w.settled("one:1", Replicas, "4")

	w.change("scale down", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
	w.settled("one:1", 2, "4")

	background := metav1.DeletePropagationBackground
	if err := w.deployments().Delete(w.Context(), w.key(), metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		w.Fatal(err)
	}
	w.Until(func() error {
		if sets, pods := w.sets(), w.pods(); len(sets) > 0 || len(pods) > 0 {
			return fmt.Errorf("%d ReplicaSets and %d Pods remain", len(sets), len(pods))
		}
		return nil
	})
}

func (w World) key() object.Key { return object.Key{Namespace: w.Namespace, Name: "web"} }

func (w World) deployments() *rest.Resource[*appsv1.Deployment] {
	return rest.ResourceFor[*appsv1.Deployment](w.Client)
}

func (w World) create() {
	w.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "one:1"}}},
			},
		},
	}
	if _, err := w.deployments().Create(w.Context(), d, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// change updates the Deployment, retrying on conflicts.
func (w World) change(what string, change func(*appsv1.Deployment)) {
	w.Helper()
	w.Log(what)
	for {
		d, err := w.deployments().Get(w.Context(), w.key(), metav1.GetOptions{})
		if err != nil {
			w.Fatal(what, err)
		}
		change(d)
		_, err = w.deployments().Update(w.Context(), d, metav1.UpdateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			w.Fatal(what, err)
		}
	}
}

// adopt changes a label so that the ReplicaSet loses a Pod, and restores it once a replacement exists.
func (w World) adopt() {
	w.Helper()
	w.Log("lose a Pod and adopt it again")
	taken := object.KeyOf(w.pods()[0])
	label := func(app string) {
		pods := rest.ResourceFor[*corev1.Pod](w.Client)
		for {
			p, err := pods.Get(w.Context(), taken, metav1.GetOptions{})
			if err != nil {
				w.Fatal(err)
			}
			p.Labels["app"] = app
			if _, err = pods.Update(w.Context(), p, metav1.UpdateOptions{}); err == nil {
				return
			} else if !apierrors.IsConflict(err) {
				w.Fatal(err)
			}
		}
	}
	owned := func(want int, free bool) func() error {
		return func() error {
			n := 0
			for _, p := range w.pods() {
				controlled := metav1.GetControllerOf(p) != nil
				if controlled {
					n++
				}
				if object.KeyOf(p) == taken && controlled == free {
					return fmt.Errorf("the Pod is controlled: %t", controlled)
				}
			}
			if n != want {
				return fmt.Errorf("%d Pods are controlled, want %d", n, want)
			}
			return nil
		}
	}
	label("lost")
	w.Until(owned(Replicas, true))
	label("web")
	w.Until(owned(Replicas, false)) // the Pod is adopted, and then there is one Pod too many
}

// settled waits until all Pods are ready and run the image, and the Deployment's status agrees. It returns
// their ReplicaSet.
func (w World) settled(image string, n int32, revision string) (current *appsv1.ReplicaSet) {
	w.Helper()
	w.Until(func() error {
		current = nil
		d, err := w.deployments().Get(w.Context(), w.key(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, rs := range w.sets() {
			if rs.Spec.Template.Spec.Containers[0].Image == image {
				current = rs
			} else if *rs.Spec.Replicas != 0 {
				return fmt.Errorf("%s has %d", rs.Name, *rs.Spec.Replicas)
			}
		}
		s := d.Status
		done := slices.ContainsFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable"
		})
		got, want := w.images(), map[string]int32{image: n}
		if len(got) != 1 || got[image] != n || current == nil || !done || d.Annotations["deployment.kubernetes.io/revision"] != revision ||
			s.ObservedGeneration != d.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			return fmt.Errorf("want %v and revision %s, got %v and %+v, %v", want, revision, got, s, d.Annotations)
		}
		return nil
	})
	return current
}

// images counts the Pods per image, except those being deleted.
func (w World) images() map[string]int32 {
	images := map[string]int32{}
	for _, p := range w.pods() {
		if p.DeletionTimestamp == nil {
			images[p.Spec.Containers[0].Image]++
		}
	}
	return images
}

func (w World) pods() []*corev1.Pod        { return list[*corev1.Pod](w) }
func (w World) sets() []*appsv1.ReplicaSet { return list[*appsv1.ReplicaSet](w) }

func list[T object.Object](w World) []T {
	w.Helper()
	var all []T
	for o, err := range rest.ResourceFor[T](w.Client).Namespace(w.Namespace).List(w.Context(), metav1.ListOptions{}).Items {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}
