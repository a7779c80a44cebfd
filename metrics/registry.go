package metrics

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/webhook"
	"github.com/millrace-dev/millrace/workqueue"
)

// Registry contains a program's metrics. Use its Register method to add your own collectors. Create it with
// [NewRegistry].
type Registry struct {
	*prometheus.Registry
	queues      *WorkQueues
	controllers *Controllers
	requests    *Requests
	webhooks    *Webhooks
}

// NewRegistry returns a registry that exports metrics for the Go runtime, the process, the build, and the
// work queues, controllers, clients and webhook servers that use its WorkQueues, Controllers, Requests and
// Webhooks.
func NewRegistry() *Registry {
	r := &Registry{
		Registry:    prometheus.NewRegistry(),
		queues:      NewWorkQueues(WorkQueueOptions{}),
		controllers: NewControllers(ControllerOptions{}),
		requests:    NewRequests(),
		webhooks:    NewWebhooks(WebhookOptions{}),
	}
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		r.queues,
		r.controllers,
		r.requests,
		r.webhooks,
	)
	return r
}

// WorkQueues returns the provider to use as workqueue.Options.Metrics.
func (r *Registry) WorkQueues() workqueue.MetricsProvider { return r.queues }

// Controllers returns the provider to use as controller.Options.Metrics.
func (r *Registry) Controllers() controller.MetricsProvider { return r.controllers }

// Requests wraps a transport to count its requests. Use it as config.Config.WrapTransport.
func (r *Registry) Requests(next http.RoundTripper) http.RoundTripper { return r.requests.Count(next) }

// Webhooks returns the provider to use as webhook.Options.Metrics.
func (r *Registry) Webhooks() webhook.MetricsProvider { return r.webhooks }

// scrapes is how many requests a Handler serves concurrently, and scrapePatience is how long a request may
// take, because a user's collector may block.
const (
	scrapes        = 10
	scrapePatience = time.Minute
)

// Handler serves scrapes. A failing collector's metrics are left out, and
// promhttp_metric_handler_errors_total counts the failure. If a collector blocks for a minute, the response
// is a 503.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		Registry: r, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapes, Timeout: scrapePatience,
	})
}

// AddInformers exports a cluster's informers. Pass an empty name for the program's own cluster.
func (r *Registry) AddInformers(cluster string, source InformerSource) error {
	if source == nil {
		return fmt.Errorf("metrics: the informers of cluster %q are nil", cluster)
	}
	if err := r.Register(NewInformers(source, InformerOptions{ConstLabels: prometheus.Labels{"cluster": cluster}})); err != nil {
		return fmt.Errorf("metrics: the informers of cluster %q: %w", cluster, err)
	}
	return nil
}

// Requests counts requests to API servers:
//
//   - rest_client_requests_total: by code, method and host. The code of a request without a
//     response is "<error>". A watch is counted when it is opened.
type Requests struct {
	*prometheus.CounterVec
}

// NewRequests returns a collector for registration.
func NewRequests() *Requests {
	return &Requests{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total", Help: "Requests to API servers.",
	}, []string{"code", "method", "host"})}
}

// Count wraps a transport to count its requests. Use it as config.Config.WrapTransport,
// for any number of clients.
func (c *Requests) Count(next http.RoundTripper) http.RoundTripper { return counted{next, c} }

type counted struct {
	next     http.RoundTripper
	requests *Requests
}

func (t counted) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	code := "<error>"
	if resp != nil && err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	t.requests.WithLabelValues(code, text(req.Method), text(req.URL.Host)).Inc()
	return resp, err
}
