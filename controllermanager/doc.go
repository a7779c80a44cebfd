// Package controllermanager runs many named controllers as one program, in the shape of
// kube-controller-manager. Its user chooses among them.
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
// With Options.Shard, such as m.Shard of a manager.Manager with Options.Sharding, every process
// runs the controllers, each on its share (package shard): those ask for what they work on
// with ClientOf. One that works on everything would do so in every process, and fails. What only
// a leader is to run goes into a Manager of its own, without Shard.
//
// # The life of a controller
//
//	Disabled   by the user's choice, or by its own default
//	Skipped    the server does not serve what it requires, so far
//	Declined   it was asked, and returned nothing to run
//	Pending ─► Running ─► Ended
//
// To run:
//
//  1. Ask the server what it serves, again and again until it answers.
//  2. Make the controllers that are enabled and whose resources are served, in the
//     order of the registry. They get their informers from the context.
//  3. Close Context.InformersStarted: every shared informer is known.
//  4. Start them one after the other, at intervals that differ.
//  5. While one is skipped, ask the server every Options.DiscoveryInterval, and make
//     and start what has become possible. A resource that disappears ends no
//     controller: its informers say so, and come back with the resource.
//  6. When the context is done, wait for all of them.
//
// # Guarantees
//
//   - What is chosen exists: if a name is unknown, or both wanted and not, New fails
//     and says what there is.
//   - A controller that does not run is accounted for: Status has each with its reason,
//     and a warning in the log says which are skipped.
//   - When Run returns, every controller has returned (L23).
//
// # Concurrency
//
// A Registry does not change. Run owns two goroutines for each running controller: the
// controller's, and one that sends its events. Status and Ready may be called at any
// time from any goroutine.
//
// # Failure
//
// A controller that cannot be made, fails or panics ends all the others, and Run returns
// every error with its controller's name. Discovery that fails is tried again, and
// Ready says why.
//
// # Debugging
//
// Status has each controller. Ready, and so the manager's /readyz, says which of them
// wait and for what.
package controllermanager
