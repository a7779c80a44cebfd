package monitoring

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// theirs scrapes a controller-runtime program with every metric enabled, including those that are
// off by default. Its registry is global, so nothing else in this process may use
// controller-runtime.
var theirs = sync.OnceValues(func() (scrape, error) {
	log.SetLogger(logr.Discard())
	metrics.RegisterRESTClientMetrics(metrics.MetricRequestLatency, metrics.MetricDNSResolutionLatency,
		metrics.MetricRequestSize, metrics.MetricResponseSize, metrics.MetricRateLimiterLatency, metrics.MetricRequestRetry)
	srv, endpoint, err := cluster()
	if err != nil {
		return nil, err
	}
	defer srv.Close()
	cfg := &rest.Config{Host: endpoint.URL, Dial: endpoint.DialContext, QPS: -1}
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics:        metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "janitor", LeaderElectionNamespace: "shop",
	})
	if err != nil {
		return nil, err
	}
	var seen once
	err = ctrl.NewControllerManagedBy(m).Named("janitor").For(&corev1.Pod{}).
		WithOptions(controller.Options{ReconciliationTimeout: 100 * time.Millisecond}).
		Complete(reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			switch seen.first(r.Name) {
			case "requeue":
				//lint:ignore SA1019 what it counts is compared
				return ctrl.Result{Requeue: true}, nil
			case "later":
				return ctrl.Result{RequeueAfter: time.Hour}, nil
			case "error":
				return ctrl.Result{}, errors.New("no")
			case "terminal":
				return ctrl.Result{}, reconcile.TerminalError(errors.New("never"))
			case "panic":
				panic("oh")
			case "timeout":
				<-ctx.Done()
				return ctrl.Result{}, ctx.Err()
			}
			return ctrl.Result{}, nil
		}))
	if err != nil {
		return nil, err
	}
	hooks := webhook.NewServer(webhook.Options{})
	hooks.Register("/validate", &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Allowed("")
	})})
	asked := httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(review))
	asked.Header.Set("Content-Type", "application/json")
	hooks.WebhookMux().ServeHTTP(httptest.NewRecorder(), asked)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	s, err := settled(promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}), "janitor", func(s scrape) error {
		for _, name := range []string{"leader_election_master_status", "controller_runtime_webhook_requests_total"} {
			if !s.has(name, nil) {
				return fmt.Errorf("no %s above 0", name)
			}
		}
		return nil
	})
	cancel()
	return s, errors.Join(err, <-ended)
})

// registered returns the names of all metrics of controller-runtime, including those without a
// series.
func registered() (names []string) {
	descs := make(chan *prometheus.Desc)
	go func() {
		metrics.Registry.(prometheus.Collector).Describe(descs)
		close(descs)
	}()
	for d := range descs {
		_, after, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(after, `"`)
		names = append(names, name)
	}
	return names
}
