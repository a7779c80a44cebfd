package controllerruntime

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// reconcileAll runs a manager with a controller that finds nothing to do. Reads do not copy, which is safe
// because nothing modifies the objects.
func (k Stack) reconcileAll(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
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
	reconciles := scenario.NewReconciles(s)
	err = ctrl.NewControllerManagedBy(m).Named("bench").For(&corev1.Pod{}).WithOptions(controller.Options{NewQueue: k.Queue}).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			var p corev1.Pod
			reconciles.Reconciled(m.GetClient().Get(ctx, req.NamespacedName, &p) == nil)
			return reconcile.Result{}, nil
		}))
	if err != nil {
		return nil, err
	}
	pods, err := m.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	err = reconciles.Run(ctx, s, scenario.ReconcileSteps{
		Go: func() {
			go func() {
				err := m.Start(ctx)
				ended <- err
				cancel(err) // stop early, there is nothing left to wait for
			}()
		},
		Sync: func(ctx context.Context) error {
			// HasSynced would have to be polled.
			select {
			case <-pods.(toolscache.SharedIndexInformer).HasSyncedChecker().Done():
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	r, err := account(ctx, s, m.GetCache(), nil, &corev1.PodList{})
	if err != nil {
		return nil, err
	}
	r.Heard, r.Metrics = reconciles.Count(), s.Metrics
	cancel(nil)
	return r, <-ended
}
