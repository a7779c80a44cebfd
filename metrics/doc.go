// Package metrics exports Millrace's metrics to Prometheus. The core packages do not import it. They provide
// the values, and this package exports them under the metric names that dashboards expect.
//
// # Usage
//
//	prometheus.MustRegister(metrics.NewInformers(f, metrics.InformerOptions{})) // f is a *factory.Factory
//	prometheus.MustRegister(metrics.NewWorkQueues(metrics.WorkQueueOptions{}))
//	prometheus.MustRegister(metrics.NewControllers(metrics.ControllerOptions{}))
//	prometheus.MustRegister(requests) // metrics.NewRequests(); its Count wraps a config.Config's transport
//
// A [Registry] is a separate Prometheus registry that exports the Go runtime, the process, work queues,
// controllers and requests, and serves scrapes. Every manager has one. To use one without a manager:
//
//	r := metrics.NewRegistry()
//	err := r.AddInformers("", f)
//	http.Handle("/metrics", r.Handler())
//
// # Adding a metric
//
// For a value already in a Status, add one line: to NewInformers for an informer or handler, to NewElections
// for an election. Otherwise add the value to its package's Status first. Events counted as they happen (in
// queues, controllers and webhooks) are passed to their package's Metrics interface, which the corresponding
// type here implements (WorkQueues, Controllers, Webhooks). The doc comment of each type lists its metrics.
//
// # Concurrency
//
// All types are safe for concurrent use. Values are read on each scrape; nothing runs in the background.
//
// # Failure
//
// If a status function panics, its own metrics are missing from that scrape, and
// promhttp_metric_handler_errors_total counts the failure. If one blocks, a Registry's Handler responds with
// 503 after a minute. At most ten scrapes may be waiting at a time.
package metrics
