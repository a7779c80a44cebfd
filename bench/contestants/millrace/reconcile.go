package millrace

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest/config"
)

// reconcile runs a manager with a controller that finds nothing to do.
func (k Stack) reconcile(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	var opts manager.Options
	opts.Factory.Initial, opts.Factory.Store = reflector.List, k.Store
	m, err := manager.New(&config.Config{Host: s.URL}, opts)
	if err != nil {
		return nil, err
	}
	reconciles := scenario.NewReconciles(s)
	pods := factory.Informer[*corev1.Pod](m.Factory())
	c, err := controller.New("bench", controller.Func(func(_ context.Context, req controller.Request) (controller.Result, error) {
		_, found := pods.Cache().Get(req.Key)
		reconciles.Reconciled(found)
		return controller.Result{}, nil
	}), controller.Options{QueueMetrics: m.Metrics().WorkQueues(), Metrics: m.Metrics().Controllers()})
	if err != nil {
		return nil, err
	}
	c.Watch(controller.For(pods))
	if err := m.Add(c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	err = reconciles.Run(ctx, s, scenario.ReconcileSteps{
		Go: func() {
			go func() {
				err := m.Run(ctx)
				ended <- err
				cancel(err) // stop early, there is nothing left to wait for
			}()
		},
		Sync: pods.WaitForSync,
	})
	if err != nil {
		return nil, err
	}
	r := account(s, pods, nil)
	r.Heard, r.Metrics = reconciles.Count(), s.Metrics
	cancel(nil)
	return r, <-ended
}
