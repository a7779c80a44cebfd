package controller_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/object"
)

// ownWorld is the environment for tests of each kind of own write.
type ownWorld struct {
	*controllertest.Env
	maps        *controller.Client[*corev1.ConfigMap]
	pods        *controller.Client[*corev1.Pod]
	deployments *controller.Client[*appsv1.Deployment]
	nodes       *controller.Client[*corev1.Node]
	namespaces  *controller.Client[*corev1.Namespace]
}

func configMap(name string, changes ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	for _, change := range changes {
		change(m)
	}
	return m
}

// holds reports whether the cache has a ConfigMap for which is returns true.
func (w *ownWorld) holds(name string, is func(*corev1.ConfigMap) bool) bool {
	m, ok := w.maps.Get(object.Key{Namespace: "shop", Name: name})
	return ok && is(m)
}

func (w *ownWorld) lacks(name string) bool {
	_, ok := w.maps.Get(object.Key{Namespace: "shop", Name: name})
	return !ok
}

// again deletes and recreates an object on the server, as another controller does.
func (w *ownWorld) again(o object.Object) {
	_, err := w.Server.Create(o)
	require.NoError(w, err)
}

const hold = "example.com/hold"

// The state that a reconcile has written, by any form of write, is in the cache at the next reconcile of
// the request. That reconcile starts as soon as the watch has delivered the state.
func TestO01_OwnWritesAreSeen(t *testing.T) {
	written := func(m *corev1.ConfigMap) bool { return m.Data["a"] == "written" }
	write := func(m *corev1.ConfigMap) { m.Data = map[string]string{"a": "written"} }
	var made object.Key // by generateName
	for _, form := range []struct {
		name  string
		write func(ctx context.Context, w *ownWorld) error
		seen  func(w *ownWorld) bool
	}{
		{"create", func(ctx context.Context, w *ownWorld) error {
			_, err := w.maps.Create(ctx, configMap("new"))
			return err
		}, func(w *ownWorld) bool { return !w.lacks("new") }},
		{"create by generateName", func(ctx context.Context, w *ownWorld) error {
			m, err := w.maps.Create(ctx, configMap("", func(m *corev1.ConfigMap) { m.GenerateName = "new-" }))
			made = object.KeyOf(m)
			return err
		}, func(w *ownWorld) bool { return !w.lacks(made.Name) }},
		{"create in another namespace", func(ctx context.Context, w *ownWorld) error {
			_, err := w.maps.Create(ctx, configMap("new", func(m *corev1.ConfigMap) { m.Namespace = "bank" }))
			return err
		}, func(w *ownWorld) bool {
			_, ok := w.maps.Get(object.Key{Namespace: "bank", Name: "new"})
			return ok
		}},
		{"create of a cluster-scoped kind", func(ctx context.Context, w *ownWorld) error {
			_, err := w.nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
			return err
		}, func(w *ownWorld) bool { _, ok := w.nodes.Get(object.Key{Name: "new"}); return ok }},
		{"create of several kinds", func(ctx context.Context, w *ownWorld) error {
			if _, err := w.maps.Create(ctx, configMap("new")); err != nil {
				return err
			}
			_, err := w.pods.Create(ctx, pod("new"))
			return err
		}, func(w *ownWorld) bool {
			_, ok := w.pods.Get(object.KeyOf(pod("new")))
			return ok && !w.lacks("new")
		}},
		{"CreateOrUpdate", func(ctx context.Context, w *ownWorld) error {
			_, _, err := controller.CreateOrUpdate(ctx, w.maps, configMap("old"), func(m *corev1.ConfigMap) error { write(m); return nil })
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		{"update", func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Copy(object.KeyOf(configMap("old")))
			write(m)
			_, err := w.maps.Update(ctx, m)
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		{"Client.Patch", func(ctx context.Context, w *ownWorld) error {
			_, err := w.maps.Patch(ctx, object.KeyOf(configMap("old")), types.MergePatchType, []byte(`{"data":{"a":"written"}}`))
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		{"Patch", func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Get(object.KeyOf(configMap("old")))
			_, err := controller.Patch(ctx, w.maps, m, func(m *corev1.ConfigMap) error { write(m); return nil })
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		{"apply", func(ctx context.Context, w *ownWorld) error {
			_, err := w.maps.Apply(ctx, configMap("old", write), "test")
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		{"apply that creates", func(ctx context.Context, w *ownWorld) error {
			_, err := w.maps.Apply(ctx, configMap("new", write), "test")
			return err
		}, func(w *ownWorld) bool { return w.holds("new", written) }},
		{"UpdateStatus", func(ctx context.Context, w *ownWorld) error {
			p, _ := w.pods.Copy(object.KeyOf(pod("a")))
			p.Status.Message = "written"
			_, err := w.pods.UpdateStatus(ctx, p)
			return err
		}, func(w *ownWorld) bool {
			p, _ := w.pods.Get(object.KeyOf(pod("a")))
			return p.Status.Message == "written"
		}},
		{"PatchStatus", func(ctx context.Context, w *ownWorld) error {
			p, _ := w.pods.Get(object.KeyOf(pod("a")))
			_, err := controller.PatchStatus(ctx, w.pods, p, func(p *corev1.Pod) error { p.Status.Message = "written"; return nil })
			return err
		}, func(w *ownWorld) bool {
			p, _ := w.pods.Get(object.KeyOf(pod("a")))
			return p.Status.Message == "written"
		}},
		{"a finalizer is added", func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Get(object.KeyOf(configMap("old")))
			_, err := controller.Patch(ctx, w.maps, m, func(m *corev1.ConfigMap) error { controller.AddFinalizer(m, hold); return nil })
			return err
		}, func(w *ownWorld) bool {
			return w.holds("old", func(m *corev1.ConfigMap) bool { return controller.HasFinalizer(m, hold) })
		}},
		{"the last finalizer is removed", func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Get(object.KeyOf(configMap("going")))
			_, err := controller.Patch(ctx, w.maps, m, func(m *corev1.ConfigMap) error { controller.RemoveFinalizer(m, hold); return nil })
			return err
		}, func(w *ownWorld) bool { return w.lacks("going") }},
		{"the last finalizer of a Namespace is removed", func(ctx context.Context, w *ownWorld) error {
			n, _ := w.namespaces.Get(object.Key{Name: "going"})
			_, err := controller.Patch(ctx, w.namespaces, n, func(n *corev1.Namespace) error { controller.RemoveFinalizer(n, hold); return nil })
			return err
		}, func(w *ownWorld) bool { _, ok := w.namespaces.Get(object.Key{Name: "going"}); return !ok }},
		{"delete", func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Get(object.KeyOf(configMap("old")))
			return w.maps.Delete(ctx, m)
		}, func(w *ownWorld) bool { return w.lacks("old") }},
		{"delete by name", func(ctx context.Context, w *ownWorld) error {
			return w.maps.Delete(ctx, configMap("old"))
		}, func(w *ownWorld) bool { return w.lacks("old") }},
		{"delete with a finalizer", func(ctx context.Context, w *ownWorld) error {
			return w.maps.Delete(ctx, configMap("held"))
		}, func(w *ownWorld) bool {
			return w.holds("held", func(m *corev1.ConfigMap) bool { return m.DeletionTimestamp != nil })
		}},
		{"delete and create", func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Get(object.KeyOf(configMap("old")))
			if err := w.maps.Delete(ctx, m); err != nil {
				return err
			}
			_, err := w.maps.Create(ctx, configMap("old", write))
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		{"delete by name and create", func(ctx context.Context, w *ownWorld) error {
			if err := w.maps.Delete(ctx, configMap("old")); err != nil {
				return err
			}
			_, err := w.maps.Create(ctx, configMap("old", write))
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		{"create, delete by name and create", func(ctx context.Context, w *ownWorld) error {
			if _, err := w.maps.Create(ctx, configMap("new")); err != nil {
				return err
			}
			if err := w.maps.Delete(ctx, configMap("new")); err != nil {
				return err
			}
			_, err := w.maps.Create(ctx, configMap("new", write))
			return err
		}, func(w *ownWorld) bool { return w.holds("new", written) }},
		{"create and delete by name", func(ctx context.Context, w *ownWorld) error {
			if _, err := w.maps.Create(ctx, configMap("new")); err != nil {
				return err
			}
			return w.maps.Delete(ctx, configMap("new"))
		}, func(w *ownWorld) bool { return w.lacks("new") }},
		{"delete by name, and another controller creates", func(ctx context.Context, w *ownWorld) error {
			err := w.maps.Delete(ctx, configMap("old"))
			w.again(configMap("old", write))
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) || w.lacks("old") }},
		{"delete by name of an object that the cache has not had, with a finalizer", func(ctx context.Context, w *ownWorld) error {
			w.again(configMap("late", func(m *corev1.ConfigMap) { m.Finalizers = []string{hold} }))
			return w.maps.Delete(ctx, configMap("late"))
		}, func(w *ownWorld) bool {
			return w.holds("late", func(m *corev1.ConfigMap) bool { return m.DeletionTimestamp != nil })
		}},
		{"delete by name, of a later object than the cached one", func(ctx context.Context, w *ownWorld) error {
			controllertest.Delete[*corev1.ConfigMap](w.Env, object.KeyOf(configMap("old")))
			w.again(configMap("old", func(m *corev1.ConfigMap) { m.Finalizers = []string{hold} }))
			return w.maps.Delete(ctx, configMap("old"))
		}, func(w *ownWorld) bool {
			return w.holds("old", func(m *corev1.ConfigMap) bool { return m.DeletionTimestamp != nil })
		}},
		{"delete of a cluster-scoped kind", func(ctx context.Context, w *ownWorld) error {
			return w.nodes.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
		}, func(w *ownWorld) bool { _, ok := w.nodes.Get(object.Key{Name: "old"}); return !ok }},
		{"eviction", func(ctx context.Context, w *ownWorld) error {
			_, err := evictionsOf(w).Create(ctx, &policyv1.Eviction{ObjectMeta: pod("a").ObjectMeta})
			return err
		}, func(w *ownWorld) bool {
			p, ok := w.pods.Get(object.KeyOf(pod("a")))
			return !ok || p.DeletionTimestamp != nil
		}},
		{"eviction, and another controller creates", func(ctx context.Context, w *ownWorld) error {
			_, err := evictionsOf(w).Create(ctx, &policyv1.Eviction{ObjectMeta: pod("a").ObjectMeta})
			w.again(pod("a", labelled("made", "anew")))
			return err
		}, func(w *ownWorld) bool {
			p, ok := w.pods.Get(object.KeyOf(pod("a")))
			return !ok || p.DeletionTimestamp != nil || p.Labels["made"] == "anew"
		}},
		{"CreateOrUpdate in the resource's namespace", func(ctx context.Context, w *ownWorld) error {
			_, _, err := controller.CreateOrUpdate(ctx, inShop(w.maps), configMap("old", nowhere), func(m *corev1.ConfigMap) error { write(m); return nil })
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		{"CreateOrUpdate that creates in the resource's namespace", func(ctx context.Context, w *ownWorld) error {
			_, _, err := controller.CreateOrUpdate(ctx, inShop(w.maps), configMap("new", nowhere), func(m *corev1.ConfigMap) error { write(m); return nil })
			return err
		}, func(w *ownWorld) bool { return w.holds("new", written) }},
		{"delete in the resource's namespace", func(ctx context.Context, w *ownWorld) error {
			return inShop(w.maps).Delete(ctx, configMap("old", nowhere))
		}, func(w *ownWorld) bool { return w.lacks("old") }},
		{"scale in the resource's namespace", func(ctx context.Context, w *ownWorld) error {
			scales := controller.SubresourceFor[*autoscalingv1.Scale](inShop(w.deployments), "scale")
			_, err := scales.Patch(ctx, object.Key{Name: "web"}, types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
			return err
		}, func(w *ownWorld) bool {
			d, _ := w.deployments.Get(object.Key{Namespace: "shop", Name: "web"})
			return *d.Spec.Replicas == 3
		}},
		{"scale", func(ctx context.Context, w *ownWorld) error {
			scales := controller.SubresourceFor[*autoscalingv1.Scale](w.deployments, "scale")
			_, err := scales.Patch(ctx, object.Key{Namespace: "shop", Name: "web"}, types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
			return err
		}, func(w *ownWorld) bool {
			d, _ := w.deployments.Get(object.Key{Namespace: "shop", Name: "web"})
			return *d.Spec.Replicas == 3
		}},
	} {
		t.Run(form.name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				w := &ownWorld{
					Env: e, maps: controller.ClientFor[*corev1.ConfigMap](e.Factory), pods: controller.ClientFor[*corev1.Pod](e.Factory),
					deployments: controller.ClientFor[*appsv1.Deployment](e.Factory), nodes: controller.ClientFor[*corev1.Node](e.Factory),
					namespaces: controller.ClientFor[*corev1.Namespace](e.Factory),
				}
				controllertest.Put(e, configMap("old"))
				held := func(m *corev1.ConfigMap) { m.Finalizers = []string{hold} }
				controllertest.Put(e, configMap("held", held))
				controllertest.Delete[*corev1.ConfigMap](e, object.KeyOf(controllertest.Put(e, configMap("going", held))))
				n := controllertest.Put(e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "going", Finalizers: []string{hold}}})
				controllertest.Delete[*corev1.Namespace](e, object.KeyOf(n))
				controllertest.Put(e, pod("a"))
				controllertest.Put(e, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
				controllertest.Put(e, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}})
				ring := make(chan string)
				var calls []time.Duration
				began := time.Now()
				c := newController(e, controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
					calls = append(calls, time.Since(began))
					if len(calls) == 1 {
						return controller.Result{Requeue: true}, form.write(ctx, w)
					}
					require.True(e, form.seen(w), "the reconcile after the write does not see it")
					return controller.Result{}, nil
				}), controller.Options{}, controller.Channel("bell", ring, func(context.Context, string) ([]controller.Request, error) {
					return []controller.Request{{Key: object.Key{Name: "all"}}}, nil
				}))
				for _, client := range []controller.Watchable{w.maps, w.pods, w.deployments, w.nodes, w.namespaces} {
					c.Watch(controller.Awaited(client))
				}
				e.Start(c)
				e.Server.SetLag(2 * time.Second)
				ring <- "ring"
				e.Settle(time.Hour)
				require.Len(e, calls, 2)
				require.LessOrEqual(e, calls[1]-calls[0], 3*time.Second, "the reconcile waits on, though the cache has the write")
				require.Zero(e, c.Status().Stale)
				require.EqualValues(e, 1, c.Status().ParkedTotal, "the cache had the write at once, so nothing was tested")
			})
		})
	}
}

// inShop returns a client whose resource adds the namespace to keys without one.
func inShop[T object.Object](c *controller.Client[T]) *controller.Client[T] {
	return controller.NewClient(c.Informer(), c.Resource().Namespace("shop"))
}

func nowhere(m *corev1.ConfigMap) { m.Namespace = "" }

func evictionsOf(w *ownWorld) *controller.Client[*policyv1.Eviction] {
	return controller.SubresourceFor[*policyv1.Eviction](w.pods, "eviction")
}

// A goroutine that a reconcile left behind may still write with its context. This does not change the
// wait for earlier writes.
func TestO01_AWriteThatOutlivesItsReconcile(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		const lag = 10 * time.Second
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		in := func(namespace string) *corev1.Pod {
			p := pod("other")
			p.Namespace = namespace
			return p
		}
		var calls []time.Time
		var deleted time.Time
		var late error
		c := newController(e, controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			if calls = append(calls, time.Now()); len(calls) > 1 {
				return controller.Result{}, nil
			}
			e.Server.SetLag(lag)
			for _, namespace := range []string{"one", "two", "three", "four", "five"} {
				if _, err := pods.Create(ctx, in(namespace)); err != nil {
					return controller.Result{}, err
				}
			}
			time.AfterFunc(lag+2*time.Second, func() { _, late = pods.Create(ctx, in("six")) }) // while the request waits only for the deletion
			time.Sleep(lag / 2)
			deleted = time.Now()
			return controller.Result{Requeue: true}, pods.Delete(ctx, pod("a"))
		}), controller.Options{Patience: time.Minute}, controller.For(pods.Informer(), controller.Selected(func(p *corev1.Pod) bool { return p.Name == "a" })))
		controllertest.Put(e, pod("a"))
		e.Start(c)
		e.Settle(time.Minute)
		require.NoError(e, late)
		require.Greater(e, len(calls), 1)
		require.Equal(e, lag, calls[1].Sub(deleted))
	})
}

// A controller that runs again waits for the writes of its last run too.
func TestO01_AWriteAtTheEndOfTheLastRun(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		const lag = 5 * time.Second
		pods, maps := controller.ClientFor[*corev1.Pod](e.Factory), controller.ClientFor[*corev1.ConfigMap](e.Factory)
		var seen []bool
		c := newController(e, controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
			_, ok := maps.Get(object.KeyOf(configMap("new")))
			if seen = append(seen, ok); len(seen) > 1 {
				return controller.Result{}, nil
			}
			e.Server.SetLag(lag)
			_, err := maps.Create(ctx, configMap("new"))
			return controller.Result{}, err
		}), controller.Options{}, controller.For(pods), controller.Awaited(maps))
		controllertest.Put(e, pod("a"))
		stop := e.Start(c)
		stop()
		e.Start(c)
		e.Settle(time.Minute)
		require.Equal(e, []bool{false, true}, seen)
		require.EqualValues(e, 1, c.Status().ParkedTotal)
		require.Zero(e, c.Status().Stale)
	})
}
