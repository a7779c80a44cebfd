// Package manager runs the components of a controller program: it owns the client and the informers, starts
// and stops everything in a fixed order, participates in leader election, and serves metrics, health checks
// and debugging pages.
//
// # Usage
//
//	m, err := manager.New(cfg, manager.Options{
//		LeaderElection:         &leaderelection.Options{Name: "janitor"},
//		MetricsBindAddress:     ":8080",
//		HealthProbeBindAddress: ":8081",
//	})
//	jobs := manager.Client[*batchv1.Job](m)
//	err = manager.ControllerFor[*corev1.Pod](m).Owns(jobs).Named("janitor").Complete(
//		func(ctx context.Context, pod *corev1.Pod) (controller.Result, error) { ... })
//	err = manager.WebhookFor[*corev1.Pod](m).Validate(check).Complete() // see Options.Webhooks
//	err = m.Add(r)                           // anything else with Run(ctx) error
//	err = m.Run(manager.SignalContext())
//
// # Groups
//
// Every runnable belongs to a group. Groups start in this order and stop in reverse:
//
//	Servers        metrics, health, debugging: first to start, last to stop
//	Webhooks       the API server may need them before it can answer a list request
//	Caches         informer factories
//	               event recorders, which outlive everything that may record events
//	Others         runnables for every replica
//	               warm-ups, see Warmer
//	LeaderElected  runnables for the leader only: the default
//
// All ports are opened before anything runs, so a port that is already in use is reported at once. Plain
// runnables in the last two groups start once the caches are synced. A Readier (such as a controller) or a
// Warmer waits only for its own sources, so a kind that cannot be listed blocks only the runnables that
// need it. The manager joins the election once the caches are synced and the warm-ups are done, or after
// Options.WarmupTimeout.
//
// # Guarantees
//
//   - The manager stops when its context is done, when a runnable fails or panics, or when the
//     lease is lost. Run waits until everything has stopped, but only for
//     Options.GracefulShutdownTimeout (30 s by default), and returns all errors, each with its
//     runnable's name.
//   - The lease is not released until everything in LeaderElected has stopped. If something does not stop
//     in time, the lease is kept until the process exits.
//   - /readyz fails while any informer is not synced or any running controller is waiting for a source,
//     and reports which ones and why. It does not wait for optional kinds (factory.For) that are not
//     installed.
//   - Invalid configuration is reported by New, by Add, or at the start of Run.
//
// # Concurrency
//
// All methods are safe for concurrent use, even during Run. A runnable added during Run starts
// immediately if its group has started. Run may be called only once.
//
// # Failure
//
// If something does not stop within Options.GracefulShutdownTimeout, Run's error wraps ErrNotStopped and
// lists it; see Manager.Run.
//
// # Debugging
//
// The server at Options.PprofBindAddress serves /debug/pprof/ and /debug/status, the latter as HTML for
// browsers and as JSON otherwise. The status shows every informer, every controller with its queue,
// sources and last failure, the election, and the running runnables. To include other informers, use
// Manager.AddInformers. /readyz?verbose lists all checks.
package manager
