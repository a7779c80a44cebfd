package controllers_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/examples/controller-manager/controllers"
	"github.com/millrace-dev/millrace/examples/controller-manager/life"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// readyAfter is how long Pods take.
const readyAfter = 3 * time.Second

func start(e *controllertest.Env) {
	e.Helper()
	registry, err := controllers.Registry()
	require.NoError(e, err)
	m, err := controllermanager.New(registry, e.Factory, controllermanager.Options{})
	require.NoError(e, err)
	kubelet, err := life.Kubelet(e.Factory, readyAfter)
	require.NoError(e, err)
	e.Start(m, kubelet)
	e.Settle(10 * time.Second) // they start one after the other
	require.NoError(e, m.Ready())
}

// census counts Pods, and remembers how many and how few there were.
type census struct {
	mu    sync.Mutex          // guards all below
	ready map[object.Key]bool // of each Pod that is not being deleted
	most  int                 // Pods
	least int                 // ready ones
}

func (c *census) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most, c.least = 0, len(c.ready)
	c.count()
}

// count is called under mu.
func (c *census) count() {
	n := 0
	for _, ready := range c.ready {
		if ready {
			n++
		}
	}
	c.most, c.least = max(c.most, len(c.ready)), min(c.least, n)
}

func (c *census) see(p *corev1.Pod, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone || p.DeletionTimestamp != nil || metav1.GetControllerOf(p) == nil {
		delete(c.ready, object.KeyOf(p))
	} else {
		c.ready[object.KeyOf(p)] = len(p.Status.Conditions) > 0
	}
	c.count()
}

func TestLife(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		life.Run(life.World{TB: e.TB, Client: e.Client, Namespace: "shop", Until: func(reached func() error) {
			e.Helper()
			e.Settle(time.Minute)
			require.NoError(e, reached())
		}})
	})
}

// A roll-out keeps to its limits at every moment, not only in the end.
func TestRollOutKeepsItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		surge, unavailable int
		most, least        int
	}{
		"surge":       {1, 0, 7, 6},
		"unavailable": {0, 2, 6, 4},
		"both":        {3, 2, 9, 4},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				pods := &census{ready: map[object.Key]bool{}}
				factory.Informer[*corev1.Pod](e.Factory).AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(_ context.Context, e sharedinformer.Event[*corev1.Pod]) error {
					pods.see(e.Object, e.Type == sharedinformer.Delete)
					return nil
				}))
				start(e)
				d := deployment(6)
				*d.Spec.Strategy.RollingUpdate.MaxSurge = intOrString(c.surge)
				*d.Spec.Strategy.RollingUpdate.MaxUnavailable = intOrString(c.unavailable)
				controllertest.Put(e, d)
				e.Settle(time.Minute)
				pods.begin()
				require.Equal(t, 6, pods.least)
				setImage(e, "two:2")
				e.Settle(time.Minute)
				require.Equal(t, []int{c.most, c.least}, []int{pods.most, pods.least})
				require.EqualValues(t, 6, controllertest.Get[*appsv1.Deployment](e, web).Status.UpdatedReplicas)
			})
		})
	}
}

func TestRecreate(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Tick: time.Millisecond}, func(e *controllertest.Env) {
		start(e)
		d := deployment(3)
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		controllertest.Put(e, d)
		e.Settle(time.Minute)
		setImage(e, "two:2")
		require.Equal(t, map[string]int{"two:2": 3}, images(e))
		require.Zero(t, controllertest.Get[*appsv1.Deployment](e, web).Status.AvailableReplicas)
		e.Settle(time.Minute)
		require.EqualValues(t, 3, controllertest.Get[*appsv1.Deployment](e, web).Status.AvailableReplicas)
	})
}

// A paused Deployment does not roll out, but scales.
func TestPaused(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		controllertest.Put(e, deployment(2))
		e.Settle(time.Minute)
		change(e, func(d *appsv1.Deployment) {
			d.Spec.Paused = true
			d.Spec.Replicas = new(int32(4))
			d.Spec.Template.Spec.Containers[0].Image = "two:2"
		})
		e.Settle(time.Minute)
		require.Equal(t, map[string]int{"one:1": 4}, images(e))
		change(e, func(d *appsv1.Deployment) { d.Spec.Paused = false })
		e.Settle(time.Minute)
		require.Equal(t, map[string]int{"two:2": 4}, images(e))
	})
}

// A roll-out that does not get on is called failed at its deadline, and no longer
// when it gets on.
func TestDeadline(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		d := deployment(2)
		d.Spec.ProgressDeadlineSeconds = new(int32(60))
		controllertest.Put(e, d)
		e.Settle(2 * time.Minute)
		require.Equal(t, "NewReplicaSetAvailable", progress(e))
		setImage(e, life.Broken)
		e.Settle(50 * time.Second)
		require.Equal(t, "ReplicaSetUpdated", progress(e))
		e.Settle(15 * time.Second)
		require.Equal(t, "ProgressDeadlineExceeded", progress(e))
		e.Settle(time.Hour)
		require.Equal(t, "ProgressDeadlineExceeded", progress(e))
		setImage(e, "two:2")
		require.Equal(t, "ReplicaSetUpdated", progress(e))
		e.Settle(time.Minute)
		require.Equal(t, "NewReplicaSetAvailable", progress(e))
	})
}

// Another object that has the name already is left alone.
func TestNameIsTaken(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		controllertest.Put(e, deployment(1))
		mine := controllertest.All[*appsv1.ReplicaSet](e)[0].DeepCopy()
		controllertest.Delete[*appsv1.Deployment](e, web)
		e.Settle(time.Minute)
		require.Empty(t, controllertest.All[*appsv1.ReplicaSet](e))

		other := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: mine.Namespace, Name: mine.Name}, Spec: *mine.Spec.DeepCopy()}
		other.Spec.Replicas = new(int32)
		other.Spec.Template.Labels["app"], other.Spec.Selector.MatchLabels["app"] = "other", "other"
		controllertest.Put(e, other)
		controllertest.Put(e, deployment(1))
		e.Settle(time.Minute)
		d := controllertest.Get[*appsv1.Deployment](e, web)
		require.EqualValues(t, 1, *d.Status.CollisionCount)
		require.EqualValues(t, 1, d.Status.AvailableReplicas)
		require.Len(t, controllertest.All[*appsv1.ReplicaSet](e), 2)
	})
}

// What keeps a ReplicaSet from its Pods stands in its status, as long as it does.
func TestReplicaFailure(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "pods", Count: 6, Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Message: "exceeded quota"}}})
		start(e)
		controllertest.Put(e, deployment(2))
		set := controllertest.All[*appsv1.ReplicaSet](e)[0]
		require.Len(t, set.Status.Conditions, 1)
		require.Contains(t, set.Status.Conditions[0].Message, "exceeded quota")
		e.Settle(time.Minute)
		set = controllertest.All[*appsv1.ReplicaSet](e)[0]
		require.Empty(t, set.Status.Conditions)
		require.EqualValues(t, 2, set.Status.AvailableReplicas)
	})
}

// A Pod that is ready is available MinReadySeconds later.
func TestMinReadySeconds(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		d := deployment(2)
		d.Spec.MinReadySeconds = 30
		controllertest.Put(e, d)
		e.Settle(20 * time.Second)
		s := controllertest.Get[*appsv1.Deployment](e, web).Status
		require.EqualValues(t, []int32{2, 0}, []int32{s.ReadyReplicas, s.AvailableReplicas})
		e.Settle(20 * time.Second)
		require.EqualValues(t, 2, controllertest.Get[*appsv1.Deployment](e, web).Status.AvailableReplicas)
		change(e, func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 600 })
		e.Settle(time.Second)
		require.Zero(t, controllertest.Get[*appsv1.Deployment](e, web).Status.AvailableReplicas)
	})
}

// A Pod that is being deleted is replaced at once, whatever holds it.
func TestTerminatingPodIsReplaced(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		d := deployment(2)
		d.Spec.Template.Finalizers = []string{"example.com/hold"}
		controllertest.Put(e, d)
		e.Settle(time.Minute)
		controllertest.Delete[*corev1.Pod](e, object.KeyOf(controllertest.All[*corev1.Pod](e)[0]))
		e.Settle(time.Minute)
		require.Len(t, controllertest.All[*corev1.Pod](e), 3)
		require.EqualValues(t, 2, controllertest.Get[*appsv1.Deployment](e, web).Status.AvailableReplicas)
	})
}

// A Pod without a controller is adopted where it fits, but not one that is going.
func TestADyingOrphanIsNotAdopted(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		controllertest.Put(e, deployment(1))
		e.Settle(time.Minute)
		set := controllertest.All[*appsv1.ReplicaSet](e)[0]
		fits := func(name string) *corev1.Pod {
			controllertest.Put(e, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name, Finalizers: []string{"example.com/hold"}}, Spec: set.Spec.Template.Spec,
			})
			if name == "dying" {
				controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: set.Namespace, Name: name})
			}
			p := controllertest.Get[*corev1.Pod](e, object.Key{Namespace: set.Namespace, Name: name}).DeepCopy()
			p.Labels = set.Spec.Template.Labels
			controllertest.Put(e, p)
			e.Settle(time.Minute)
			return controllertest.Get[*corev1.Pod](e, object.KeyOf(p))
		}
		require.True(t, metav1.IsControlledBy(fits("living"), set))
		dying := fits("dying")
		require.NotNil(t, dying.DeletionTimestamp)
		require.Empty(t, dying.OwnerReferences)
	})
}

// The garbage controllers delete what has lost an owner of their kind, and leave alone
// what another kind of that name controls, whether that is there or not.
func TestGarbageCollectionChecksTheKind(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		start(e)
		for name, owner := range map[string]metav1.OwnerReference{
			"gone":          {APIVersion: "apps/v1", Kind: "ReplicaSet"},
			"another-kind":  {APIVersion: "apps/v1", Kind: "StatefulSet"},
			"another-group": {APIVersion: "example.com/v1", Kind: "ReplicaSet"},
		} {
			owner.Name, owner.UID, owner.Controller = "web", types.UID(name), new(true)
			controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: []metav1.OwnerReference{owner}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "one:1"}}}})
		}
		e.Settle(time.Hour)
		left := map[string]bool{}
		for _, p := range controllertest.All[*corev1.Pod](e) {
			left[p.Name] = true
		}
		require.Equal(t, map[string]bool{"another-kind": true, "another-group": true}, left)
	})
}
