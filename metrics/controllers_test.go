package metrics_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/internal/trusted"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/object"
)

const controllerFigures = `
# HELP controller_runtime_active_workers Reconciles in progress.
# TYPE controller_runtime_active_workers gauge
controller_runtime_active_workers{controller="pods"} 1
# HELP controller_runtime_max_concurrent_reconciles Maximum number of concurrent reconciles.
# TYPE controller_runtime_max_concurrent_reconciles gauge
controller_runtime_max_concurrent_reconciles{controller="pods"} 3
# HELP controller_runtime_reconcile_errors_total Reconciles that failed.
# TYPE controller_runtime_reconcile_errors_total counter
controller_runtime_reconcile_errors_total{controller="pods"} 2
# HELP controller_runtime_reconcile_panics_total Reconciles that panicked.
# TYPE controller_runtime_reconcile_panics_total counter
controller_runtime_reconcile_panics_total{controller="pods"} 0
# HELP controller_runtime_reconcile_time_seconds How long a reconcile took.
# TYPE controller_runtime_reconcile_time_seconds histogram
controller_runtime_reconcile_time_seconds_bucket{controller="pods",le="0.5"} 5
controller_runtime_reconcile_time_seconds_bucket{controller="pods",le="+Inf"} 6
controller_runtime_reconcile_time_seconds_sum{controller="pods"} 2
controller_runtime_reconcile_time_seconds_count{controller="pods"} 6
# HELP controller_runtime_reconcile_timeouts_total Reconciles that took too long.
# TYPE controller_runtime_reconcile_timeouts_total counter
controller_runtime_reconcile_timeouts_total{controller="pods"} 1
# HELP controller_runtime_reconcile_total Finished reconciles, by result.
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="pods",result="error"} 2
controller_runtime_reconcile_total{controller="pods",result="requeue"} 1
controller_runtime_reconcile_total{controller="pods",result="requeue_after"} 1
controller_runtime_reconcile_total{controller="pods",result="success"} 2
# HELP controller_runtime_terminal_reconcile_errors_total Reconciles that failed and are not retried.
# TYPE controller_runtime_terminal_reconcile_errors_total counter
controller_runtime_terminal_reconcile_errors_total{controller="pods"} 2
# HELP millrace_controller_parked Requests waiting for the cache to see their own writes.
# TYPE millrace_controller_parked gauge
millrace_controller_parked{controller="pods"} 0
# HELP millrace_controller_parked_total How often a request waited for the cache to see its own writes.
# TYPE millrace_controller_parked_total counter
millrace_controller_parked_total{controller="pods"} 0
# HELP millrace_controller_running 1 while the controller is reconciling.
# TYPE millrace_controller_running gauge
millrace_controller_running{controller="pods"} 1
# HELP millrace_controller_source_added_total Requests added by the source.
# TYPE millrace_controller_source_added_total counter
millrace_controller_source_added_total{controller="pods",source="bell"} 6
# HELP millrace_controller_source_failures_total Source failures.
# TYPE millrace_controller_source_failures_total counter
millrace_controller_source_failures_total{controller="pods",source="bell"} 0
# HELP millrace_controller_source_synced 1 once the source has requested all existing objects, or is not waited for.
# TYPE millrace_controller_source_synced gauge
millrace_controller_source_synced{controller="pods",source="bell"} 1
# HELP millrace_controller_stale_total How often a request was reconciled although the cache had not seen its own writes.
# TYPE millrace_controller_stale_total counter
millrace_controller_stale_total{controller="pods"} 0
`

func TestControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exporter := metrics.NewControllers(metrics.ControllerOptions{Buckets: []float64{0.5}})
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Bool
		opts := controller.Options{Metrics: exporter, Concurrency: 3, Timeout: 2 * time.Second}
		c, err := controller.New("pods", controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			switch req.Name {
			case "requeue":
				return controller.Result{Requeue: !asked.Swap(true)}, nil
			case "after":
				return controller.Result{RequeueAfter: time.Hour}, nil
			case "terminal":
				return controller.Result{}, controller.Terminal(errors.New("no"))
			case "slow":
				<-ctx.Done()
				return controller.Result{}, controller.Terminal(ctx.Err())
			case "hang":
				time.Sleep(time.Hour)
			}
			return controller.Result{}, nil
		}), opts)
		require.NoError(t, err)
		c.Watch(controller.SourceFunc("bell", func(ctx context.Context, in *controller.Inbox) error {
			in.Synced()
			for _, name := range []string{"ok", "requeue", "after", "terminal", "slow", "hang"} {
				in.Add(controller.Generic, object.Key{}, controller.Request{Key: object.Key{Name: name}})
			}
			<-ctx.Done()
			return nil
		}))
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		// The requeued request comes back after at least 4 ms, and succeeds.
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.NoError(t, testutil.CollectAndCompare(exporter, strings.NewReader(controllerFigures)))
		problems, err := testutil.CollectAndLint(exporter)
		require.NoError(t, err)
		require.Empty(t, problems)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestHooksThatRunForEveryObjectAreTrusted(t *testing.T) {
	c, err := controller.New("pods", controller.Func(func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }), controller.Options{})
	require.NoError(t, err)
	require.True(t, trusted.Is(metrics.NewControllers(metrics.ControllerOptions{}).Register(c)))
	require.False(t, trusted.Is(struct{}{}))
}
