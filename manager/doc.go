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
// All ports are opened before anything runs, so a taken one is known at once. A plain
// runnable of the last two groups does not run before the caches are synced. A
// Readier, such as a controller, and a Warmer wait for their own sources instead, so a
// kind that cannot be listed holds up only what needs it. The election begins when
// caches are synced and warm-ups done, or after Options.WarmupTimeout.
//
// # Guarantees
//
//   - The manager ends when its context is done, when a runnable fails or panics,
//     or when the lease is lost; Run returns every error, with the runnable's
//     name, after everything has stopped.
//   - The lease outlives the work: it is released when all of LeaderElected has
//     stopped. Work that does not stop in time keeps it until the process ends.
//   - Ready is true: /readyz fails while an informer is not synced or a running
//     controller waits for a source, and names it with the reason. A kind that is
//     optional (factory.For) and not installed is not waited for.
//   - Bad configuration fails in New, Add, or at the beginning of Run.
//
// # Concurrency
//
// All methods may be called from any goroutine, also while Run runs: what is
// added then starts at once, if its group has started. Run may be called once.
//
// # Failure
//
// Run's error wraps ErrNotStopped when something did not stop within
// Options.GracefulShutdownTimeout, and names it.
//
// # Debugging
//
// Options.PprofBindAddress serves /debug/status, which shows every informer, every
// controller with its queue, its sources and the last reconcile that failed, the
// election and what runs, beside /debug/pprof/: as a page in a browser, as JSON
// otherwise. /readyz?verbose lists all checks.
// Manager.AddInformers adds informers there that are not the manager's.
package manager
