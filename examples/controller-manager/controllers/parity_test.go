package controllers_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/examples/controller-manager/life"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// What users of kube-controller-manager know, beyond the life of a Deployment.

// A roll-out that is stuck keeps its proportions when the Deployment grows, as in the
// example of the documentation of Kubernetes, also while it is paused.
func TestScalingInProportion(t *testing.T) {
	for _, paused := range []bool{false, true} {
		controllertest.Run(t, func(e *controllertest.Env) {
			start(e)
			d := deployment(10)
			*d.Spec.Strategy.RollingUpdate.MaxSurge, *d.Spec.Strategy.RollingUpdate.MaxUnavailable = intOrString(3), intOrString(2)
			controllertest.Put(e, d)
			e.Settle(time.Minute)
			setImage(e, life.Broken)
			e.Settle(time.Minute)
			require.Equal(t, map[string]int{"one:1": 8, life.Broken: 5}, images(e))
			scale := func(replicas int32) {
				change(e, func(d *appsv1.Deployment) { d.Spec.Replicas, d.Spec.Paused = &replicas, paused })
				e.Settle(time.Minute)
			}
			scale(15)
			require.Equal(t, map[string]int{"one:1": 11, life.Broken: 7}, images(e))
			scale(10)
			require.Equal(t, map[string]int{"one:1": 8, life.Broken: 5}, images(e))
			scale(11)
			require.Equal(t, map[string]int{"one:1": 9, life.Broken: 5}, images(e))
			change(e, func(d *appsv1.Deployment) { d.Spec.Paused = false })
			setImage(e, "two:2")
			e.Settle(time.Minute)
			require.Equal(t, map[string]int{"two:2": 11}, images(e), "and it goes on")
		})
	}
}

// Recreate waits until the last old Pod has ended, however long that takes.
func TestRecreateWaitsForTerminatingPods(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		d := deployment(3)
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		d.Spec.Template.Finalizers = []string{"example.com/hold"}
		controllertest.Put(e, d)
		e.Settle(time.Minute)
		change(e, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image, d.Spec.Template.Finalizers = "two:2", nil
		})
		for _, p := range controllertest.All[*corev1.Pod](e) {
			e.Settle(time.Hour)
			require.NotContains(t, images(e), "two:2")
			s := controllertest.Get[*appsv1.Deployment](e, web).Status
			require.EqualValues(t, len(controllertest.All[*corev1.Pod](e)), *s.TerminatingReplicas)
			p = controllertest.Get[*corev1.Pod](e, object.KeyOf(p)).DeepCopy()
			require.NotNil(t, p.DeletionTimestamp)
			p.Finalizers = nil
			_, err := rest.ResourceFor[*corev1.Pod](e.Client).Update(e.Context(), p, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
		e.Settle(time.Minute)
		require.Equal(t, map[string]int{"two:2": 3}, images(e))
	})
}

// Of equal Pods those go whose deletion is said to cost the least.
func TestDeletionCost(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		controllertest.Put(e, deployment(5))
		e.Settle(time.Minute)
		keep := map[string]bool{}
		for n, p := range controllertest.All[*corev1.Pod](e) {
			p = p.DeepCopy()
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, corev1.PodDeletionCost, strconv.Itoa(n%3))
			controllertest.Put(e, p)
			if n%3 == 2 {
				keep[p.Name] = true
			}
		}
		change(e, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(len(keep))) })
		e.Settle(time.Minute)
		for _, p := range controllertest.All[*corev1.Pod](e) {
			require.True(t, keep[p.Name], p.Annotations)
		}
		require.Len(t, controllertest.All[*corev1.Pod](e), len(keep))
	})
}

// Where no Pod can be created, each attempt costs one call, however many are wanted.
func TestSlowStart(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		quota := e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Message: "exceeded quota"}}})
		start(e)
		controllertest.Put(e, deployment(50))
		e.Settle(10 * time.Second)
		require.Less(t, e.Server.Stats().Requests("create", "pods"), 20, "one with each back-off, which are 5 ms and twice as long each time")
		e.Server.Faults().Remove(quota)
		e.Settle(time.Minute)
		require.Len(t, controllertest.All[*corev1.Pod](e), 50)
	})
}

// What the controllers do stands in events, under the names that kubectl's users know.
func TestEvents(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "pods", Count: 3, Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Message: "exceeded quota"}}})
		start(e)
		controllertest.Put(e, deployment(2))
		e.Settle(time.Minute)
		change(e, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) })
		e.Settle(10 * time.Minute)
		set := controllertest.All[*appsv1.ReplicaSet](e)[0]
		count := map[string]int32{}
		for _, event := range controllertest.All[*eventsv1.Event](e) {
			n := int32(1)
			if event.Series != nil {
				n = event.Series.Count
			}
			count[fmt.Sprintf("%s %s %s: %s", event.ReportingController, event.Type, event.Regarding.Kind, event.Reason)] += n
			switch event.Reason {
			case "ScalingReplicaSet":
				require.Contains(t, []string{"Scaled up replica set " + set.Name + " from 0 to 2", "Scaled down replica set " + set.Name + " from 2 to 1"}, event.Note)
			case "FailedCreate":
				require.Contains(t, event.Note, "Error creating: ")
				require.Contains(t, event.Note, "exceeded quota")
			default:
				require.Regexp(t, "^(Created|Deleted) pod: "+event.Related.Name+"$", event.Note)
			}
		}
		require.Equal(t, map[string]int32{
			"deployment-controller Normal Deployment: ScalingReplicaSet": 2,
			"replicaset-controller Warning ReplicaSet: FailedCreate":     3,
			"replicaset-controller Normal ReplicaSet: SuccessfulCreate":  2,
			"replicaset-controller Normal ReplicaSet: SuccessfulDelete":  1,
		}, count)
	})
}
