package controller_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/wire"
)

// Without a resource version, a list or a zero field in a patch would replace other writers' values.
func TestPatchesOfObjectsThatWereNotRead(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods, budgets := controller.ClientFor[*corev1.Pod](e.Factory), controller.ClientFor[*policyv1.PodDisruptionBudget](e.Factory)
		e.Start()
		controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/other"} }))
		controllertest.Put(e, budget)
		const want = " shop/a: the object has no resource version, so the patch could overwrite changes by others: read it first"
		own := func(p *corev1.Pod) error { controller.AddFinalizer(p, finalizer); return nil }
		label := func(p *corev1.Pod) error { p.Labels = map[string]string{"a": "b"}; return nil }
		_, err := pods.Finalize(e.Context(), pod("a"), finalizer, func(context.Context, *corev1.Pod) (bool, error) { return true, nil })
		require.ErrorContains(t, err, "patch pods"+want)
		_, err = controller.Patch(e.Context(), pods, pod("a"), own)
		require.ErrorContains(t, err, "patch pods"+want)
		_, err = controller.PatchLocked(e.Context(), pods, pod("a"), label)
		require.ErrorContains(t, err, "patch pods"+want)
		_, err = controller.PatchStatusLocked(e.Context(), pods, pod("a"), func(p *corev1.Pod) error { p.Status.Reason = "r"; return nil })
		require.ErrorContains(t, err, "patch the status of pods"+want)
		_, err = controller.SetCondition(e.Context(), budgets, budget, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Computed"})
		require.ErrorContains(t, err, "shop/b: the object has no resource version")
		sets := controller.ClientFor[*appsv1.ReplicaSet](e.Factory)
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
		_, err = controller.PatchStatus(e.Context(), sets, set, func(s *appsv1.ReplicaSet) error { s.Status.ReadyReplicas = 1; return nil })
		require.ErrorContains(t, err, "patch the status of replicasets.apps"+want)
		_, err = controller.Patch(e.Context(), sets, set, func(s *appsv1.ReplicaSet) error { s.Spec.MinReadySeconds = 1; return nil })
		require.ErrorContains(t, err, "patch replicasets.apps"+want)
		require.Zero(t, e.Server.Stats().Requests("patch", "pods")+e.Server.Stats().Requests("patch", "replicasets"))
		p, err := controller.Patch(e.Context(), pods, pod("a"), label)
		require.NoError(t, err, "a map needs no version")
		require.Equal(t, []string{"example.com/other"}, p.Finalizers)
	})
}

func TestPatchSendsOnlyDifferences(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		ctx, maps := e.Context(), controller.ClientFor[*corev1.ConfigMap](e.Factory)
		e.Start()
		stale := controllertest.Put(e, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"a": "1"}},
			Data:       map[string]string{"a": "1", "b": "1"},
		})
		newer := stale.DeepCopy()
		newer.Data["b"] = "theirs"
		controllertest.Put(e, newer)
		write := func(m *corev1.ConfigMap) error { m.Data["a"] = "2"; delete(m.Labels, "a"); return nil }

		_, err := controller.PatchLocked(ctx, maps, stale, write)
		require.True(e, apierrors.IsConflict(err), "%v", err)

		m, err := controller.Patch(ctx, maps, stale, write)
		require.NoError(e, err)
		require.Equal(e, map[string]string{"a": "2", "b": "theirs"}, m.Data)
		require.Empty(e, m.Labels)
		require.Equal(e, "1", stale.Data["a"], "what was given is not changed")

		before := e.Server.RV()
		same, err := controller.PatchLocked(ctx, maps, m, write)
		require.NoError(e, err)
		require.Same(e, m, same)
		require.Equal(e, before, e.Server.RV())

		_, err = controller.PatchLocked(ctx, maps, m, func(m *corev1.ConfigMap) error { m.Data["a"] = "3"; return nil })
		require.NoError(e, err, "the latest may be patched")
		_, err = controller.Patch(ctx, maps, m, func(m *corev1.ConfigMap) error { m.Name = "other"; return nil })
		require.ErrorContains(e, err, "change altered the key to shop/other")
		_, err = controller.Patch(ctx, maps, nil, write)
		require.ErrorContains(e, err, "patch configmaps: the object is nil")
	})
}

// A reconcile sees its own patches.
func TestAPatchIsSeenByTheNextReconcile(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		maps := controller.ClientFor[*corev1.ConfigMap](e.Factory)
		var seen []string
		c, err := controller.New("patcher", controller.Objects(maps, func(ctx context.Context, m *corev1.ConfigMap) (controller.Result, error) {
			seen = append(seen, m.Data["a"])
			patched, err := controller.Patch(ctx, maps, m, func(m *corev1.ConfigMap) error { m.Data = map[string]string{"a": "mine"}; return nil })
			return controller.Result{Requeue: patched != m}, err
		}), controller.Options{})
		require.NoError(e, err)
		c.Watch(controller.For(maps.Informer()))
		controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		e.Start(c)
		require.Equal(e, "", seen[0])
		for _, later := range seen[1:] {
			require.Equal(e, "mine", later)
		}
		require.Greater(e, len(seen), 1)
	})
}

// If the cache holds only parts of an object, only complete parts are sent.
func TestAPatchOfAnObjectInPart(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		ctx := e.Context()
		nodes := controller.ClientWith(e.Factory, factory.For[*corev1.Node]{Keep: wire.Only("metadata.labels", "metadata.finalizers", "spec.taints.key")})
		e.Start()
		controllertest.Put(e, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Finalizers: []string{"example.com/a"}},
			Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/8", Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}},
		})
		n, ok := nodes.Get(object.Key{Name: "n"})
		require.True(e, ok)
		patched, err := controller.PatchLocked(ctx, nodes, n, func(n *corev1.Node) error {
			n.Labels = map[string]string{"a": "b"}
			n.Finalizers = append(n.Finalizers, "example.com/b")
			return nil
		})
		require.NoError(e, err)
		require.Len(e, patched.Finalizers, 2)
		whole := controllertest.Get[*corev1.Node](e, object.Key{Name: "n"})
		require.Equal(e, "10.0.0.0/8", whole.Spec.PodCIDR)
		require.Equal(e, "v", whole.Spec.Taints[0].Value)

		_, err = controller.Patch(ctx, nodes, patched, func(n *corev1.Node) error {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "other"})
			return nil
		})
		require.ErrorContains(e, err, "the cached spec.taints may be incomplete")
	})
}

// Fields that were not read are zero in the object as read, but not on the server.
func TestAPatchOfAnObjectInPartErasesNothing(t *testing.T) {
	suspend := func(j *batchv1.CronJob) error { j.Spec.Suspend = new(true); return nil }
	for name, of := range map[string]factory.For[*batchv1.CronJob]{
		"kept": {Keep: wire.Only("spec.suspend")},
		"transformed": {Transform: func(j *batchv1.CronJob) (*batchv1.CronJob, error) {
			j.Spec = batchv1.CronJobSpec{Suspend: j.Spec.Suspend}
			return j, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				jobs := controller.ClientWith(e.Factory, of)
				e.Start()
				before := controllertest.Put(e, &batchv1.CronJob{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"},
					Spec:       batchv1.CronJobSpec{Schedule: "* * * * *", Suspend: new(false)},
				})
				e.Settle(0)
				j, ok := jobs.Get(object.KeyOf(before))
				require.True(e, ok)
				require.Empty(e, j.Spec.Schedule)
				_, err := controller.Patch(e.Context(), jobs, j, suspend)
				require.NoError(e, err)
				after := controllertest.Get[*batchv1.CronJob](e, object.KeyOf(before))
				require.True(e, *after.Spec.Suspend)
				require.Equal(e, before.Spec.Schedule, after.Spec.Schedule)
			})
		})
	}
	t.Run("without a cache", func(t *testing.T) {
		controllertest.Run(t, func(e *controllertest.Env) {
			jobs := controller.NewClient(nil, rest.ResourceFor[*batchv1.CronJob](e.Client).Keep(wire.Only("spec.suspend")))
			before := controllertest.Put(e, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: batchv1.CronJobSpec{Schedule: "* * * * *"}})
			j, err := jobs.Read(e.Context(), object.KeyOf(before))
			require.NoError(e, err)
			_, err = controller.Patch(e.Context(), jobs, j, suspend)
			require.NoError(e, err)
			require.Equal(e, before.Spec.Schedule, controllertest.Get[*batchv1.CronJob](e, object.KeyOf(before)).Spec.Schedule)
		})
	})
}

// A patch of finalizers or owner references that is based on an old state never drops other writers'
// entries. It fails with a conflict.
func TestPatchOfASharedListUsesOptimisticLocking(t *testing.T) {
	owner := func(p *corev1.Pod, name string) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)})
	}
	for what, add := range map[string]func(p *corev1.Pod, name string){
		"finalizers": func(p *corev1.Pod, name string) { controller.AddFinalizer(p, "example.com/"+name) },
		"owners":     owner,
	} {
		t.Run(what, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				pods := controller.ClientFor[*corev1.Pod](e.Factory)
				e.Start()
				p := controllertest.Put(e, pod("a")) // the version that both have read
				patch := func(name string) error {
					_, err := controller.Patch(e.Context(), pods, p, func(p *corev1.Pod) error { add(p, name); return nil })
					return err
				}
				require.NoError(e, patch("one"))
				require.True(e, apierrors.IsConflict(patch("two")))
				e.Settle(0)
				p, _ = pods.Get(podA)
				require.NoError(e, patch("two"))
				p = controllertest.Get[*corev1.Pod](e, podA)
				require.Equal(e, 2, len(p.Finalizers)+len(p.OwnerReferences))
			})
		})
	}
}

// Removing the last label that the caller knows does not remove any other label.
func TestAPatchThatTakesOffTheLastLabel(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		p := controllertest.Put(e, pod("a", labelled("ours", "1")))
		controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Labels = map[string]string{"ours": "1", "theirs": "2"} })) // written in the meantime
		_, err := controller.Patch(e.Context(), pods, p, func(p *corev1.Pod) error { delete(p.Labels, "ours"); return nil })
		require.NoError(e, err)
		require.Equal(e, map[string]string{"theirs": "2"}, controllertest.Get[*corev1.Pod](e, podA).Labels)
	})
}

// Fields that a transform removed from the cache stay on the server.
func TestAPatchOfATransformedObject(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			maps.DeleteFunc(p.Annotations, func(name, _ string) bool { return !strings.HasPrefix(name, "ours") })
			p.Finalizers = slices.DeleteFunc(p.Finalizers, func(name string) bool { return !strings.HasPrefix(name, "ours") })
			return p, nil
		}})
		controllertest.Put(e, pod("a", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"ours.example.com/a": "1", "theirs.example.com/a": "2"}
			p.Finalizers = []string{"ours.example.com/f", "theirs.example.com/f"}
		}))
		e.Start()
		p, ok := pods.Get(podA)
		require.True(e, ok)
		_, err := controller.Patch(e.Context(), pods, p, func(p *corev1.Pod) error { delete(p.Annotations, "ours.example.com/a"); return nil })
		require.NoError(e, err)
		require.Equal(e, map[string]string{"theirs.example.com/a": "2"}, controllertest.Get[*corev1.Pod](e, podA).Annotations)

		e.Settle(0)
		p, _ = pods.Get(podA)
		_, err = controller.PatchLocked(e.Context(), pods, p, func(p *corev1.Pod) error { controller.RemoveFinalizer(p, "ours.example.com/f"); return nil })
		require.ErrorContains(e, err, "the cached metadata.finalizers may be incomplete")
		require.Len(e, controllertest.Get[*corev1.Pod](e, podA).Finalizers, 2)
	})
}

// A generated ApplyConfiguration, whose fields are pointers, is sent as it encodes itself, and its write
// is noted like any other.
func TestAnApplyConfigurationIsSentAsAPatch(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		maps := controller.ClientFor[*corev1.ConfigMap](e.Factory)
		type metadata struct {
			Name      *string `json:"name,omitempty"`
			Namespace *string `json:"namespace,omitempty"`
		}
		config := struct {
			APIVersion *string           `json:"apiVersion,omitempty"`
			Kind       *string           `json:"kind,omitempty"`
			Metadata   *metadata         `json:"metadata,omitempty"`
			Data       map[string]string `json:"data,omitempty"`
			Immutable  *bool             `json:"immutable,omitempty"`
		}{new("v1"), new("ConfigMap"), &metadata{new("m"), new("shop")}, map[string]string{"a": "1"}, nil}
		body, err := json.Marshal(config)
		require.NoError(t, err)
		key := object.Key{Namespace: "shop", Name: "m"}
		var seen []bool
		c, err := controller.New("c", controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			_, has := maps.Get(key)
			seen = append(seen, has)
			_, err := maps.PatchWith(ctx, key, types.ApplyYAMLPatchType, body, metav1.PatchOptions{FieldManager: "me", Force: new(true)})
			return controller.Result{Requeue: len(seen) < 2}, err
		}), controller.Options{})
		require.NoError(t, err)
		c.Watch(controller.For(controller.ClientFor[*corev1.Pod](e.Factory)))
		c.Watch(controller.Awaited(maps))
		controllertest.Put(e, pod("a"))
		e.Server.SetLag(time.Second)
		e.Start(c)
		e.Settle(time.Minute)
		require.Equal(t, []bool{false, true}, seen)
		m := controllertest.Get[*corev1.ConfigMap](e, key)
		require.Equal(t, map[string]string{"a": "1"}, m.Data)
		require.Equal(t, "me", m.ManagedFields[0].Manager)
	})
}
