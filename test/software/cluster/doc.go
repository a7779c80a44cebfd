// Package cluster plays what goes on in a cluster beside its controllers: the Nodes and
// their kubelets, which are simulated, and people who make, change and delete objects.
//
// # Usage
//
//	c, err := cluster.New(ctx, client)      // Nodes, kubelets
//	defer c.Close()
//	err = c.Ready(ctx)                      // waits for the controllers
//	err = c.Play(ctx)                       // about 2,000 objects, and waits until all is as it must be
//	state, err := c.State(ctx)              // comparable with that of another cluster
//
// # Guarantees
//
// What Play leaves behind is the same whenever the controllers of Kubernetes and its
// scheduler are right, but for names, times, addresses and the choice of Nodes, which State
// leaves out.
//
// # Failure
//
// Play fails when what it waits for has not come about within five minutes, and says what
// was there instead. A kubelet tries again.
//
// # Concurrency
//
// A Cluster owns the goroutines of its kubelets, and Close waits for them. The other
// methods are for one goroutine.
package cluster
