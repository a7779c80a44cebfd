package millrace

import (
	"context"
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// managerStart starts a manager with a controller that watches ten kinds.
func (k Stack) managerStart(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	opts := manager.Options{Scheme: scheme.New()}
	scenario.AddWidgets(opts.Scheme)
	opts.Factory.Initial, opts.Factory.Store = reflector.List, k.Store
	m, err := manager.New(&config.Config{Host: s.URL}, opts)
	if err != nil {
		return nil, err
	}
	first := scenario.NewFirst()
	c, err := controller.New("bench", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
		first.Reconciled()
		return controller.Result{}, nil
	}), controller.Options{QueueMetrics: m.Metrics().WorkQueues(), Metrics: m.Metrics().Controllers()})
	if err != nil {
		return nil, err
	}
	widgets := factory.Informer[*scenario.Widget](m.Factory())
	c.Watch(controller.For(widgets))
	counts := []count{countOf(widgets.Cache().All)}
	for _, watch := range []func(*manager.Manager, *controller.Controller) count{
		watched[*corev1.Pod], watched[*corev1.ConfigMap], watched[*corev1.Secret], watched[*corev1.Service],
		watched[*appsv1.Deployment], watched[*appsv1.ReplicaSet], watched[*appsv1.StatefulSet], watched[*appsv1.DaemonSet],
		watched[*batchv1.Job],
	} {
		counts = append(counts, watch(m, c))
	}
	if err := m.Add(c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	start := func() {
		go func() {
			err := m.Run(ctx)
			ended <- err
			cancel(err) // stop early, there is nothing left to wait for
		}()
	}
	r, err := scenario.ManagerStart(ctx, s, start, first, func() (*protocol.Result, error) {
		r := &protocol.Result{Live: s.Live()} // before packed objects are decoded
		for _, add := range counts {
			add(r)
		}
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	cancel(nil)
	return r, <-ended
}

// count adds the objects in a cache to a result.
type count func(*protocol.Result)

// watched makes a controller watch a kind without reconciling anything for its events.
func watched[T object.Object](m *manager.Manager, c *controller.Controller) count {
	i := factory.Informer[T](m.Factory())
	c.Watch(controller.MapFunc(i, func(T) []controller.Request { return nil }))
	return countOf(i.Cache().All)
}

func countOf[T object.Object](all func() iter.Seq[T]) count {
	return func(r *protocol.Result) {
		for o := range all() {
			r.Objects++
			r.Digest.Add(o)
		}
	}
}
