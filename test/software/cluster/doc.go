// Package cluster simulates everything in a cluster except the controllers: Nodes, kubelets, and users who
// create, change and delete objects.
//
// # Usage
//
//	c, err := cluster.New(ctx, client)      // Nodes, kubelets
//	defer c.Close()
//	err = c.Ready(ctx)                      // waits for the controllers
//	err = c.Play(ctx)                       // about 2,000 objects; waits for the final state
//	state, err := c.State(ctx)              // can be compared with another cluster's state
//
// # Guarantees
//
// If Kubernetes' controllers and scheduler work correctly, Play always leads to the same state, except for
// names, times, addresses and the selection of Nodes, all of which State ignores.
//
// # Failure
//
// If a condition does not become true within five minutes, Play returns an error describing the actual state.
// Kubelets retry.
//
// # Concurrency
//
// A Cluster owns the goroutines of its kubelets, and Close waits for them. The other methods are not safe
// for concurrent use.
package cluster
