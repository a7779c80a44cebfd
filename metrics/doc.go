// Package metrics exports what Millrace counts and measures to Prometheus. The
// core packages do not import it: they offer figures, and this package gives
// them the names by which dashboards know them.
//
// # Usage
//
//	prometheus.MustRegister(metrics.NewInformers(f, metrics.InformerOptions{})) // f is a *factory.Factory
//	prometheus.MustRegister(metrics.NewWorkQueues(metrics.WorkQueueOptions{}))
//	prometheus.MustRegister(metrics.NewControllers(metrics.ControllerOptions{}))
//	prometheus.MustRegister(requests) // metrics.NewRequests(); its Count wraps a config.Config's transport
//
// A Registry is one of its own, with the Go runtime, the process, work queues,
// controllers and requests in it, and answers Prometheus; a manager has one:
//
//	r := metrics.NewRegistry()
//	err := r.AddInformers("", f)
//	http.Handle("/metrics", r.Handler())
//
// # To add a metric
//
// What a Status already says takes one line: of an informer or a handler in
// NewInformers, of an election in NewElections. What it does not say, the package that
// knows it first adds to its Status. What is counted when it happens (queues,
// controllers, webhooks) goes through the Metrics interface of its package; the type
// with that package's name here (WorkQueues, Controllers, Webhooks) implements it.
// The doc comment of each type lists its metrics.
//
// # Concurrency
//
// Everything may be used from any goroutine. Figures are read when Prometheus
// asks, and nothing runs in between.
//
// # Failure
//
// A status function that panics costs its own metrics of that scrape, and counts in
// promhttp_metric_handler_errors_total. One that blocks makes a Registry's Handler
// answer 503 after a minute, for ten scrapes at a time at most.
package metrics
