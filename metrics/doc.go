// Package metrics exports Millrace's metrics to Prometheus. The core packages do not
// import it: they provide figures, and this package exports them under the names that
// dashboards expect.
//
// # Usage
//
//	prometheus.MustRegister(metrics.NewInformers(f, metrics.InformerOptions{})) // f is a *factory.Factory
//	prometheus.MustRegister(metrics.NewWorkQueues(metrics.WorkQueueOptions{}))
//	prometheus.MustRegister(metrics.NewControllers(metrics.ControllerOptions{}))
//	prometheus.MustRegister(requests) // metrics.NewRequests(); its Count wraps a config.Config's transport
//
// A [Registry] is a separate Prometheus registry that contains the Go runtime, the
// process, work queues, controllers and requests, and serves scrapes. A manager has
// one:
//
//	r := metrics.NewRegistry()
//	err := r.AddInformers("", f)
//	http.Handle("/metrics", r.Handler())
//
// # Adding a metric
//
// For a value that a Status already has, add one line: to NewInformers for an informer or
// a handler, to NewElections for an election. Otherwise first add the value to the Status of
// its package. Events that are counted as they happen (in queues,
// controllers and webhooks) go through the Metrics interface of their package, which
// the type named after the package implements here (WorkQueues, Controllers, Webhooks).
// The doc comment of each type lists its metrics.
//
// # Concurrency
//
// Everything is safe for concurrent use. Figures are read on each scrape; nothing runs
// in between.
//
// # Failure
//
// If a status function panics, its own metrics are missing from that scrape, and
// promhttp_metric_handler_errors_total counts the failure. If one blocks, a Registry's
// Handler answers 503 after a minute, for at most ten scrapes at a time.
package metrics
