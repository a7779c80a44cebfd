package metrics

import (
	"crypto/x509"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/webhook"
)

// WebhookOptions configure [Webhooks]. The zero value is usable.
type WebhookOptions struct {
	// Buckets are the upper bounds of the latency histogram, in seconds. The default is powers of ten from
	// ten nanoseconds to a thousand seconds, as dashboards expect.
	Buckets []float64
	// ConstLabels are added to every metric.
	ConstLabels prometheus.Labels
}

// Webhooks exports webhooks under the metric names that dashboards expect. Pass it to each
// webhook.Server and register it once. Every metric has the label webhook, the path:
//
//   - controller_runtime_webhook_requests_total: completed requests, by label code
//   - controller_runtime_webhook_latency_seconds: duration of a request
//   - controller_runtime_webhook_requests_in_flight
//   - controller_runtime_webhook_panics_total
//
// Webhooks is safe for concurrent use.
type Webhooks struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	panics   *prometheus.CounterVec
}

// NewWebhooks returns an exporter that has no webhooks yet.
func NewWebhooks(opts WebhookOptions) *Webhooks {
	if opts.Buckets == nil {
		opts.Buckets = powersOfTen()
	}
	const prefix = "controller_runtime_webhook_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help, ConstLabels: opts.ConstLabels}, append([]string{"webhook"}, labels...))
	}
	return &Webhooks{
		requests: counter("requests_total", "Completed requests, by HTTP status.", "code"),
		panics:   counter("panics_total", "Requests in which the webhook panicked."),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "latency_seconds", Help: "Duration of a request.", ConstLabels: opts.ConstLabels,
			Buckets: opts.Buckets,
		}, []string{"webhook"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "requests_in_flight", Help: "Requests in flight.", ConstLabels: opts.ConstLabels,
		}, []string{"webhook"}),
	}
}

// Register implements webhook.MetricsProvider.
func (w *Webhooks) Register(path string) webhook.Metrics {
	path = text(path)
	requests := w.requests.MustCurryWith(prometheus.Labels{"webhook": path})
	for _, code := range []string{"200", "500"} { // create the series now, so that rates start at 0
		requests.WithLabelValues(code)
	}
	return &webhookMetrics{requests, w.latency.WithLabelValues(path), w.inFlight.WithLabelValues(path), w.panics.WithLabelValues(path)}
}

// Describe implements prometheus.Collector.
func (w *Webhooks) Describe(out chan<- *prometheus.Desc) {
	for _, c := range w.all() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (w *Webhooks) Collect(out chan<- prometheus.Metric) {
	for _, c := range w.all() {
		c.Collect(out)
	}
}

func (w *Webhooks) all() []prometheus.Collector {
	return []prometheus.Collector{w.requests, w.latency, w.inFlight, w.panics}
}

type webhookMetrics struct {
	requests *prometheus.CounterVec
	latency  prometheus.Observer
	inFlight prometheus.Gauge
	panics   prometheus.Counter
}

func (r *webhookMetrics) Started() { r.inFlight.Inc() }

func (r *webhookMetrics) Ended(code int, took time.Duration, panicked bool) {
	r.inFlight.Dec()
	r.requests.WithLabelValues(strconv.Itoa(code)).Inc()
	r.latency.Observe(took.Seconds())
	if panicked {
		r.panics.Inc()
	}
}

// CertificateSource provides the certificate to export; *serving.Server implements it.
type CertificateSource interface {
	// Certificate returns the certificate currently presented to clients, or nil if the server does not use
	// TLS.
	Certificate() (*x509.Certificate, error)
}

// Certificates exports a server's certificate. The metric has the label server.
//
//   - millrace_server_certificate_not_after_timestamp_seconds: when the certificate
//     expires, in seconds since 1970
type Certificates struct {
	source   CertificateSource
	notAfter *prometheus.Desc
}

// NewCertificates returns a collector for registration. Each server needs a distinct name.
func NewCertificates(server string, source CertificateSource) *Certificates {
	return &Certificates{source, prometheus.NewDesc(
		"millrace_server_certificate_not_after_timestamp_seconds",
		"Expiration time of the server's certificate, in seconds since 1970.",
		nil, prometheus.Labels{"server": text(server)},
	)}
}

// Describe implements prometheus.Collector.
func (c *Certificates) Describe(out chan<- *prometheus.Desc) { out <- c.notAfter }

// Collect implements prometheus.Collector.
func (c *Certificates) Collect(out chan<- prometheus.Metric) {
	var certificate *x509.Certificate
	err := failure.Apart("a certificate for metrics", func() (err error) {
		certificate, err = c.source.Certificate()
		return err
	})
	switch {
	case err != nil:
		out <- prometheus.NewInvalidMetric(c.notAfter, err)
	case certificate != nil:
		out <- prometheus.MustNewConstMetric(c.notAfter, prometheus.GaugeValue, float64(certificate.NotAfter.Unix()))
	}
}
