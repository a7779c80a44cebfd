// Package manager runs the parts of a controller program together: it owns the
// client and the informers, starts and stops everything in a fixed order, takes
// part in a leader election, and serves metrics, health and debugging pages.
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
// Everything added belongs to a group. Groups start in this order and stop in
// reverse:
//
//	Servers        metrics, health, debugging: first to start, last to stop
//	Webhooks       the API server may need them before it answers a list
//	Caches         factories of informers
//	               recorders of events, which outlive all that may record some
//	Others         what every replica runs
//	               warm-ups, see Warmer
//	LeaderElected  what only the leader runs: the default
//
// All ports are opened before anything runs, so a port already in use fails at once. Plain runnables of
// the last two groups start after the caches are synced. A Readier, such as a controller, and a Warmer
// instead wait for their own sources, so a kind that cannot be listed blocks only the runnables that
// need it. The manager joins the election when the caches are synced and the warm-ups done, or after
// Options.WarmupTimeout.
//
// # Guarantees
//
//   - The manager stops when its context is done, when a runnable fails or panics, or when the
//     lease is lost. Run waits until everything has stopped and returns all errors, each with its
//     runnable's name.
//   - The lease outlives the work: it is released after all of LeaderElected has stopped. If work
//     does not stop in time, the lease is kept until the process ends.
//   - /readyz fails while an informer is not synced or a running controller waits for a source, and
//     says which and why. It does not wait for optional kinds (factory.For) that are not installed.
//   - Invalid configuration is reported by New, by Add, or at the beginning of Run.
//
// # Concurrency
//
// All methods may be called from any goroutine, even during Run. A runnable added during Run starts at
// once if its group has started. Run may be called once.
//
// # Failure
//
// If something does not stop within Options.GracefulShutdownTimeout, Run's error wraps ErrNotStopped
// and names it.
//
// # Debugging
//
// Options.PprofBindAddress serves /debug/pprof/ and /debug/status, as a page for browsers and as JSON
// otherwise. The status shows every informer, every controller with its queue, sources and last
// failure, the election, and the running runnables. Manager.AddInformers adds other informers to it.
// /readyz?verbose lists all checks.
package manager
