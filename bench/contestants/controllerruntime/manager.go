package controllerruntime

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// watched lists the other kinds watched by the Widget controller, with their list types.
func watched() map[client.Object]client.ObjectList {
	return map[client.Object]client.ObjectList{
		&corev1.Pod{}: &corev1.PodList{}, &corev1.ConfigMap{}: &corev1.ConfigMapList{},
		&corev1.Secret{}: &corev1.SecretList{}, &corev1.Service{}: &corev1.ServiceList{},
		&appsv1.Deployment{}: &appsv1.DeploymentList{}, &appsv1.ReplicaSet{}: &appsv1.ReplicaSetList{},
		&appsv1.StatefulSet{}: &appsv1.StatefulSetList{}, &appsv1.DaemonSet{}: &appsv1.DaemonSetList{},
		&batchv1.Job{}: &batchv1.JobList{},
	}
}

// managerStart starts a manager with a controller that watches ten kinds.
func (k Stack) managerStart(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	types, err := prepare(s)
	if err != nil {
		return nil, err
	}
	m, err := ctrl.NewManager(&rest.Config{Host: s.URL}, ctrl.Options{
		Scheme: types, Metrics: metricsserver.Options{BindAddress: "0"},
		NewCache: k.Cache, Cache: cache.Options{DefaultUnsafeDisableDeepCopy: new(true)},
	})
	if err != nil {
		return nil, err
	}
	first, lists := scenario.NewFirst(), []client.ObjectList{&scenario.WidgetList{}}
	b := ctrl.NewControllerManagedBy(m).Named("bench").For(&scenario.Widget{}).WithOptions(controller.Options{NewQueue: k.Queue})
	for o, list := range watched() {
		b, lists = b.Watches(o, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return nil })), append(lists, list)
	}
	err = b.Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		first.Reconciled()
		return reconcile.Result{}, nil
	}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	start := func() {
		go func() {
			err := m.Start(ctx)
			ended <- err
			cancel(err) // stop early, there is nothing left to wait for
		}()
	}
	r, err := scenario.ManagerStart(ctx, s, start, first, func() (*protocol.Result, error) {
		r := &protocol.Result{Live: s.Live()}
		for _, list := range lists {
			if err := add(ctx, r, m.GetCache(), list); err != nil {
				return nil, err
			}
		}
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	cancel(nil)
	return r, <-ended
}
