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

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
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
