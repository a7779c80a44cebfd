// Package controllermanager runs a selection of named controllers as one program, like
// kube-controller-manager.
//
// # Usage
//
//	all, err := controllermanager.NewRegistry(replicaset.Descriptor(), deployment.Descriptor())
//	controllers := flag.String("controllers", "*", all.Usage())
//	...
//	m, err := manager.New(cfg, manager.Options{...})
//	cm, err := controllermanager.New(all, m.Factory(), controllermanager.Options{
//		Controllers: *controllers,
//		NewClient:   controllermanager.Clients(cfg, m.Scheme()),
//	})
//	err = m.Add(cm)
//	err = m.Run(manager.SignalContext())
//
// # Sharing
//
// With Options.Shard, for example m.Shard of a manager.Manager with Options.Sharding, every process runs
// the controllers, each on its share (package shard); the controllers get the clients of their kinds
// from ClientOf. A controller that works on everything would do so in every process, so adding one is an
// error. Add controllers that only a leader may run to a separate Manager without Shard.
//
// # The life of a controller
//
//	Disabled   deselected by the user, or by default
//	Skipped    the server does not serve the required resources yet
//	Declined   its New returned nothing to run
//	Pending ─► Running ─► Ended
//
// A run has these steps:
//
//  1. Ask the server for its resources, until it responds.
//  2. Create the controllers that are enabled and whose resources are served, in the order of the
//     registry. They get their informers from the context.
//  3. Close Context.InformersStarted, because every shared informer is now known.
//  4. Start the controllers one after another, at random intervals.
//  5. While a controller is skipped, ask the server every Options.DiscoveryInterval, and create and
//     start the controllers whose resources have appeared. If a resource disappears, its
//     controllers keep running: their informers report it, and recover when the resource returns.
//  6. When the context is done, wait for all controllers.
//
// # Guarantees
//
//   - If the selection contains an unknown name, or both selects and excludes a name, New fails and
//     lists the names.
//   - Status lists every controller that does not run, with the reason, and a warning in the log
//     names the skipped controllers.
//   - When Run returns, every controller has returned (L23).
//
// # Concurrency
//
// A Registry is immutable. Run owns two goroutines for each running controller: the controller's, and
// one that sends its events. Status and Ready may be called at any time from any goroutine.
//
// # Failure
//
// If a controller cannot be created, fails or panics, all others are stopped, and Run returns every
// error with its controller's name. Failed discovery is retried, and Ready returns the reason.
//
// # Debugging
//
// Status lists all controllers. Ready, and therefore the manager's /readyz, names the controllers that
// are waiting and what they are waiting for.
package controllermanager
