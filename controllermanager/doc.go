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
//		NewClient:   controllermanager.Clients(m.Config(), m.Scheme()),
//	})
//	err = m.Add(cm)
//	err = m.Run(manager.SignalContext())
//
// # Sharing
//
// With Options.Shard, every process runs the controllers on its own share (see package shard). Set it, for
// example, to the Shard method of a manager.Manager with Options.Sharding. The controllers get the clients
// for their kinds from ClientOf. A controller that handles all objects would do so in every process, so
// adding one is an error. Add controllers that only the leader may run to a separate Manager without Shard, with
// its own Options.Name.
//
// # Lifecycle
//
//	Disabled   deselected by the user, or by default
//	Skipped    the server does not serve the required resources yet
//	Declined   its New returned nothing to run
//	Pending ─► Running ─► Ended
//
// Each run goes through these steps:
//
//  1. Discover the server's resources, retrying until it responds.
//  2. Create the controllers that are enabled and whose resources are served, in registry order. They
//     get their informers from the Context.
//  3. Close the Context.InformersStarted channel, because all shared informers are known by now.
//  4. Start the controllers one after another, at random intervals.
//  5. While any controller is skipped, repeat discovery every Options.DiscoveryInterval, and create and
//     start the controllers whose resources have appeared. If a resource disappears, its controllers keep
//     running; their informers report an error and recover when the resource reappears.
//  6. When the context is done, wait for all controllers to return.
//
// # Guarantees
//
//   - If the selection contains an unknown name, or both selects and excludes a name, New fails and
//     lists the names.
//   - Status lists every controller that is not running, with the reason, and skipped controllers are
//     logged as warnings.
//   - When Run returns, every controller has returned (L23).
//
// # Concurrency
//
// A Registry is immutable. Run uses three goroutines per running controller: two for the controller and
// one that sends its events. Status and Ready are safe for concurrent use at any time.
//
// # Failure
//
// If a controller cannot be created, fails or panics, all others are stopped, and Run returns all
// errors, each with its controller's name. If discovery fails, it is retried, and Ready returns the reason.
//
// # Debugging
//
// Status lists all controllers. Ready, and therefore the manager's /readyz, reports which controllers
// are waiting, and for what.
package controllermanager
