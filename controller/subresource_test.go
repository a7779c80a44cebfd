package controller_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
)

// A reconcile sees the scale that it wrote, and sees that the pod it evicted is gone, although the watch
// is slow.
func TestReconcileSeesItsOwnSubresourceWrites(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		key := object.KeyOf(controllertest.Put(e, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))},
		}))
		controllertest.Put(e, pod("a"))
		deployments := controller.ClientFor[*appsv1.Deployment](e.Factory)
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		scales := controller.SubresourceFor[*autoscalingv1.Scale](deployments, "scale")
		evictions := controller.SubresourceFor[*policyv1.Eviction](pods, "eviction")
		var told []int32
		evicted := 0
		c, err := controller.New("scaler", controller.Objects(deployments, func(ctx context.Context, d *appsv1.Deployment) (controller.Result, error) {
			told = append(told, *d.Spec.Replicas)
			if p, ok := pods.Get(object.Key{Namespace: "shop", Name: "a"}); ok && p.DeletionTimestamp == nil {
				evicted++
				if _, err := evictions.Create(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}); err != nil {
					return controller.Result{}, err
				}
			}
			if *d.Spec.Replicas == 3 {
				return controller.Result{}, nil
			}
			scale, err := scales.Read(ctx, key)
			if err != nil {
				return controller.Result{}, err
			}
			_, err = controller.Patch(ctx, scales, scale, func(s *autoscalingv1.Scale) error { s.Spec.Replicas++; return nil })
			return controller.Result{Requeue: true}, err
		}), controller.Options{})
		require.NoError(e, err)
		c.Watch(controller.For(deployments.Informer()))
		c.Watch(controller.Awaited(pods))
		e.Server.SetLag(2 * time.Second)
		e.Start(c)
		e.Settle(time.Minute)
		require.Equal(e, []int32{1, 2, 3}, told[:3], "none twice")
		require.Equal(e, 1, evicted)
		require.Zero(e, c.Status().Stale)
	})
}

func TestSubresourcesOfObjectsThatNoCacheHas(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		evictions := controller.SubresourceFor[*policyv1.Eviction](pods, "eviction")
		require.Equal(e, "pods/eviction", evictions.String())
		require.Nil(e, evictions.Informer())
		_, err := evictions.Create(e.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}})
		require.NoError(e, err)
		_, err = evictions.Create(e.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}})
		require.True(e, apierrors.IsNotFound(err), "%v", err)
	})
}

// When a reconcile writes to a subresource of an object that it has just created, or takes away the label that the
// cache selects by, the object is not cached yet. The next reconcile sees both writes all the same.
func TestO01_WritesToAnObjectThatTheReconcileCreated(t *testing.T) {
	web, selected := object.Key{Namespace: "shop", Name: "web"}, labels.Set{"app": "web"}
	type clients struct {
		deployments *controller.Client[*appsv1.Deployment]
		pods        *controller.Client[*corev1.Pod]
		selected    *controller.Client[*corev1.ConfigMap]
	}
	for name, c := range map[string]struct {
		write func(context.Context, clients) error
		sees  func(clients) bool
	}{
		"scale": {
			func(ctx context.Context, c clients) error {
				_, err := c.deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}})
				if err == nil {
					_, err = controller.SubresourceFor[*autoscalingv1.Scale](c.deployments, "scale").Patch(ctx, web, types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
				}
				return err
			},
			func(c clients) bool {
				d, ok := c.deployments.Get(web)
				return ok && *d.Spec.Replicas == 3
			},
		},
		"eviction": {
			func(ctx context.Context, c clients) error {
				_, err := c.pods.Create(ctx, pod("new"))
				if err == nil {
					_, err = controller.SubresourceFor[*policyv1.Eviction](c.pods, "eviction").Create(ctx, &policyv1.Eviction{ObjectMeta: pod("new").ObjectMeta})
				}
				return err
			},
			func(c clients) bool {
				p, ok := c.pods.Get(object.KeyOf(pod("new")))
				return !ok || p.DeletionTimestamp != nil
			},
		},
		"label": {
			func(ctx context.Context, c clients) error {
				o, err := c.selected.Create(ctx, configMap("new", func(m *corev1.ConfigMap) { m.Labels = selected }))
				if err == nil {
					o = o.DeepCopy()
					o.Labels = nil
					_, err = c.selected.Update(ctx, o)
				}
				return err
			},
			func(c clients) bool {
				_, ok := c.selected.Get(object.KeyOf(configMap("new")))
				return !ok
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				all := clients{
					controller.ClientFor[*appsv1.Deployment](e.Factory), controller.ClientFor[*corev1.Pod](e.Factory),
					controller.ClientWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Labels: labels.SelectorFromSet(selected)}}),
				}
				ring, calls := make(chan string), 0
				reconciler := newController(e, controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
					if calls++; calls == 1 {
						return controller.Result{Requeue: true}, c.write(ctx, all)
					}
					if !c.sees(all) {
						e.Error("the next reconcile does not see the writes")
					}
					return controller.Result{}, nil
				}), controller.Options{}, controller.Channel("bell", ring, func(context.Context, string) ([]controller.Request, error) {
					return []controller.Request{{Key: object.Key{Name: "all"}}}, nil
				}))
				reconciler.Watch(controller.Awaited(all.deployments))
				reconciler.Watch(controller.Awaited(all.pods))
				reconciler.Watch(controller.Awaited(all.selected))
				e.Start(reconciler)
				e.Server.SetLag(2 * time.Second)
				ring <- "ring"
				e.Settle(time.Hour)
				require.Equal(e, 2, calls)
				require.Zero(e, reconciler.Status().Stale)
			})
		})
	}
}

func TestLogsOfThePodsOfATest(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		p := pod("a")
		p.Spec.Containers = []corev1.Container{{Name: "m", Image: "i"}}
		key := object.KeyOf(controllertest.Put(e, p))
		require.NoError(e, e.Server.Log(key, "m", "one\ntwo"))
		logs := controller.ClientFor[*corev1.Pod](e.Factory).Resource().Subresource("log")
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		log, err := logs.Stream(ctx, key, &corev1.PodLogOptions{TailLines: new(int64(1)), Follow: true})
		require.NoError(e, err)
		defer log.Close()
		read := func() (string, error) {
			buf := make([]byte, 100)
			n, err := log.Read(buf)
			return string(buf[:n]), err
		}
		text, err := read()
		require.NoError(e, err)
		require.Equal(e, "two\n", text)
		time.AfterFunc(time.Second, func() { _ = e.Server.Log(key, "", "three\n") })
		text, err = read()
		require.NoError(e, err)
		require.Equal(e, "three\n", text)
		_, err = read()
		require.ErrorIs(e, err, context.DeadlineExceeded, "a log that nobody writes to lasts as long as the context")
		require.ErrorContains(e, err, "get pods/log shop/a: ")
		require.True(e, apierrors.IsNotFound(e.Server.Log(object.Key{Namespace: "shop", Name: "b"}, "", "x")))
		require.ErrorContains(e, e.Server.Log(key, "n", "x"), "container n is not valid for pod a")
	})
}
