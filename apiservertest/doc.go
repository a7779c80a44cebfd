// Package apiservertest simulates a Kubernetes API server within a process. It stores everything in memory
// but is accessed over real HTTP. The tests of the informer stack and the informer-debug demo run against
// it. To test a controller, start with package controllertest, which sets up such a server.
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
// The server can be made to fail, and it counts requests:
//
//	srv.Faults().Add(apiservertest.Fault{Verb: "watch", Count: 1, Do: []apiservertest.Action{apiservertest.Cut{AfterBytes: 100}}})
//	srv.Compact()                                         // expire old versions
//	srv.Stats().Requests("list", "pods")                  // was there a relist?
//	other := srv.Front(apiservertest.FrontOptions{Lag: 5 * time.Second}) // a second server, which lags
//	srv.Restore(backup)                                   // return to an earlier srv.Snapshot
//
// # Supported features
//
// The server supports discovery in both formats; get, list, watch, create, update, patch, delete and
// deletecollection with the semantics of resourceVersion, resourceVersionMatch, limit and continue,
// bookmarks, streaming lists, selectors, the status subresource, finalizers and dry run; server-side apply
// with metadata.managedFields, merged by the real server's code; the scale subresource of Deployments,
// ReplicaSets, StatefulSets and custom kinds whose definition declares it, and the binding, eviction and
// log subresources of pods; whole or metadata-only objects, in JSON, CBOR and, for built-in types,
// protobuf.
//
// # Differences from a real server
//
// Package test/protocol compares the simulation with a real kube-apiserver request by request. The known
// differences are:
//
//   - There is no admission except for namespaces. Validation and defaulting are limited to metadata and a
//     pod's restart policy and phase. A schema does not validate custom resources.
//   - Deletion is never graceful: even a pod that is bound to a node is removed immediately. Over
//     HTTP, it is first marked as being deleted, so watchers receive MODIFIED and DELETED;
//     Server.Delete only causes DELETED.
//   - Dependents are not garbage collected, and deleting a namespace deletes only the
//     namespace object.
//   - There are no Tables, no YAML in responses, no CBOR in requests, no other subresources, and only one
//     version per group. To define custom resources, call AddResource, RemoveResource and ReplaceResource
//     instead of creating CustomResourceDefinition objects. ReadDefinition converts a CRD manifest to a
//     Resource.
//   - A PodDisruptionBudget allows as many evictions as its status permits. No controller computes the
//     status, so the test must write it. A pod's log contains the lines passed to Server.Log; a client that
//     follows it receives new lines until the pod has finished or is deleted.
//   - A conflict when applying a Scale reports the object's field and its owner; the real server reports
//     the Scale's field.
//   - Server.Create, Update and Put do not track field owners until a client applies the object. From then
//     on, their changes are owned by the manager "test".
//   - A write to a status changes no finalizers or owner references. A real server changes them for Pods and
//     Deployments.
//   - A request that is in progress during ReplaceResource or Restore may get a 404.
//   - A deletion with the propagation policy Foreground or Orphan removes the object at once.
//   - On a lagging server, only watches lag. Changes to permissions and namespaces, and the removal of a
//     resource, take effect on all servers at once.
//   - Bookmarks are sent exactly when due, with the server's newest version. A real server may send them
//     later or not at all, and uses the resource's newest version.
//
// # Guarantees
//
// Two servers with the same seed that perform the same operations in the same order contain the same
// objects at the same versions; only timestamps differ. All resources share one version counter, as in
// etcd. Within a watch, no event is lost, repeated or reordered, except by a fault.
//
// A random value depends on the seed, its subject and the number of earlier values drawn for that subject.
// For UIDs and generated names, the subject is the object's resource and name; for watch timeouts and a
// fault's Probability, it is the client and its request. The order of simultaneous operations is up to the
// scheduler. That includes which of two writes gets the lower version, and which of two requests is hit by
// a fault with a Count.
//
// # Concurrency
//
// All methods of Server, Faults and Stats are safe for concurrent use. Close aborts all requests, closes
// all connections, and returns once their goroutines have exited. The server blocks only on channels,
// timers and condition variables, so it can run in a testing/synctest bubble if it has a Pipe endpoint.
//
// # Failure
//
// Faults are rules that select requests by verb and resource. The actions Answer, Header and Raw can
// send any body, header or watch frame. Restart, RestartCold, Down, Up, SetLag, SetStuck and Upgrade
// affect one server. Compact, Snapshot, Restore, resources and permissions affect the whole cluster.
//
// # Debugging
//
// Stats counts requests by verb, resource and status, watch events by type, and faults by name.
// Options.Logger receives a debug-level line for each broken response.
package apiservertest
