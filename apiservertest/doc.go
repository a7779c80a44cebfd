// Package apiservertest simulates a Kubernetes API server, in memory and in
// process, behind real HTTP. The tests of the informer stack run against it, and
// the demonstration of informer-debug watches it. To test a controller, begin with
// package controllertest, which has such a server.
//
// # Usage
//
// A first test:
//
//	func TestPods(t *testing.T) {
//		srv := apiservertest.New(apiservertest.Options{})
//		defer srv.Close()
//		endpoint, err := srv.Listen(apiservertest.ListenOptions{}) // or srv.Pipe() in a synctest bubble
//		require.NoError(t, err)
//		_, err = srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
//		require.NoError(t, err)
//		client, err := rest.NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
//		require.NoError(t, err)
//		pod, err := rest.ResourceFor[*corev1.Pod](client).Get(t.Context(), object.Key{Namespace: "shop", Name: "web"}, metav1.GetOptions{})
//		...
//	}
//
// The server fails on demand, and tells what it was asked:
//
//	srv.Faults().Add(apiservertest.Fault{Verb: "watch", Count: 1, Do: []apiservertest.Action{apiservertest.Cut{AfterBytes: 100}}})
//	srv.Compact()                                         // expire old versions
//	srv.Stats().Requests("list", "pods")                  // was there a relist?
//	other := srv.Front(apiservertest.FrontOptions{Lag: 5 * time.Second}) // a second server, which lags
//	srv.Restore(backup)                                   // go back to what srv.Snapshot gave
//
// # What it serves
//
// Discovery in both forms; get, list, watch, create, update, patch, delete and
// deletecollection with the semantics of resourceVersion,
// resourceVersionMatch, limit and continue, bookmarks, streaming lists,
// selectors, the status subresource, finalizers and dry run; server-side apply with
// the owners of fields in metadata.managedFields, merged by the code of the real
// server; the subresources scale, of Deployments, ReplicaSets, StatefulSets and of custom
// kinds whose definition declares it, and binding, eviction and log of pods; objects whole or as metadata, in JSON, CBOR and, for built-in types,
// protobuf.
//
// # What it does not
//
// Package test/protocol compares it with a real kube-apiserver, request by
// request. What is known to be different:
//
//   - There is no admission but that of namespaces, and hardly any validation or
//     defaulting: a name, a pod's restart policy and phase.
//   - Deletion is never graceful: also a pod on a node is gone at once. By HTTP
//     it is first marked as being deleted, so that watchers hear of a MODIFIED
//     and a DELETED; Server.Delete makes the latter alone.
//   - Nothing is done for an object's dependents, and deleting a namespace
//     deletes only the namespace.
//   - No Tables, no YAML in responses, no CBOR in requests, no other subresources, and
//     one version of each group. A CustomResourceDefinition is a call of
//     AddResource, RemoveResource or ReplaceResource, not an object; ReadDefinition
//     makes a Resource of its manifest.
//   - What a PodDisruptionBudget allows is what its status says, which nobody computes: the
//     test writes it. A log has what Server.Log was given; a log without end that is
//     followed lasts until the pod has ended or gone.
//   - A conflict of an applied Scale names the field of the object, and its owner as it is;
//     the real server names that of the Scale.
//   - Create, Update and Put of Server track no field owners until somebody applies the
//     object. What they change afterwards belongs to the manager "test".
//   - Watches of a server that is behind are the only ones to hear late: the rights, the
//     namespaces and the end of a resource show on all servers at once.
//   - Bookmarks come exactly when they are due and carry the newest version of
//     the whole server; a real server's may come later, or not at all, and carry
//     the newest version of the resource.
//
// # Guarantees
//
// Two servers with one seed, given the same operations in the same order, hold
// the same objects at the same versions; only timestamps differ. Versions are
// one counter over all resources, as with etcd. Within a watch nothing is lost,
// repeated or reordered unless a fault says so.
//
// What is drawn at random depends on the seed, on whom or what it is drawn for, and
// how often that was before: UIDs and generated names on the object's resource and
// name, the length of watches and the Probability of faults on who asks for what.
// What goroutines do at one instant is ordered by the scheduler alone: which of two
// writes gets the lower version, and which of two requests a fault with a Count hits.
//
// # Concurrency
//
// All methods of Server, Faults and Stats may be called concurrently. Close
// ends every request and connection and returns when their goroutines have
// ended. All waiting is on channels, timers and condition variables, so that a
// server with a Pipe endpoint can live in a testing/synctest bubble.
//
// # Failure
//
// Faults are rules that hit requests by verb and resource. Answer, Header and Raw are actions that send
// any body, header and frame of a watch. Restart, RestartCold,
// Down, Up, SetLag, SetStuck and Upgrade are events of one server's life; Compact,
// Snapshot and Restore, the resources and the rights concern the whole cluster.
//
// # Debugging
//
// Stats counts requests by verb, resource and status, watch events by type,
// and the faults that fired, by name. Options.Logger at debug level is told of
// each response that broke.
package apiservertest
