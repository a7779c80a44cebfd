// Package apiservertest simulates a Kubernetes API server in memory and in process,
// behind real HTTP. The tests of the informer stack run against it, and so does the
// demo of informer-debug. To test a controller, start with package controllertest,
// which contains such a server.
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
// Discovery in both formats; get, list, watch, create, update, patch, delete and
// deletecollection with the semantics of resourceVersion, resourceVersionMatch, limit
// and continue, bookmarks, streaming lists, selectors, the status subresource,
// finalizers and dry run; server-side apply with metadata.managedFields, merged by the
// code of the real server; the subresource scale of Deployments, ReplicaSets,
// StatefulSets and custom kinds whose definition declares it, and the subresources
// binding, eviction and log of pods; objects whole or as metadata, in JSON, CBOR and,
// for built-in types, protobuf.
//
// # Differences from a real server
//
// Package test/protocol compares the simulation with a real kube-apiserver, request by
// request. The known differences are:
//
//   - There is no admission except for namespaces, and hardly any validation or defaulting, only of
//     names and of a pod's restart policy and phase.
//   - Deletion is never graceful: even a pod on a node is removed immediately. Over
//     HTTP, it is first marked as being deleted, so watchers receive MODIFIED and
//     DELETED; Server.Delete only causes DELETED.
//   - Dependents are not garbage collected, and deleting a namespace deletes only the
//     namespace object.
//   - There are no Tables, no YAML in responses, no CBOR in requests, no other subresources, and only
//     one version per group. Custom resources are defined by calls of AddResource, RemoveResource and
//     ReplaceResource, not by CustomResourceDefinition objects; ReadDefinition converts the manifest of
//     a definition to a Resource.
//   - A PodDisruptionBudget allows as many evictions as its status says. No controller computes the
//     status, so the test must write it. A log holds the lines passed to Server.Log; a client that
//     follows a log receives new lines until the pod has finished or is deleted.
//   - A conflict of an applied Scale names the field of the object and its owner; the
//     real server names the field of the Scale.
//   - Server.Create, Update and Put track no field owners until a client applies the
//     object. Their later changes belong to the manager "test".
//   - Only watches of a lagging server are late: permissions, namespaces and the
//     removal of a resource take effect on all servers at once.
//   - Bookmarks are sent exactly when they are due and carry the newest version of the
//     whole server; a real server may send them later or not at all, with the newest
//     version of the resource.
//
// # Guarantees
//
// Two servers with the same seed that perform the same operations in the same order hold the same
// objects at the same versions; only timestamps differ. Versions come from one counter for all
// resources, as with etcd. Within a watch, no event is lost, repeated or reordered unless a fault causes
// it.
//
// A random draw depends on the seed, its subject and the number of earlier draws for that subject. The
// subject of UIDs and generated names is the object's resource and name; the subject of watch timeouts
// and of the Probability of faults is the client with its request. The scheduler determines the order of
// simultaneous operations, and with it which of two writes gets the lower version, and which of two
// requests a fault with a Count hits.
//
// # Concurrency
//
// All methods of Server, Faults and Stats are safe for concurrent use. Close ends all
// requests and connections and returns when their goroutines have ended. The server
// only blocks on channels, timers and condition variables, so with a Pipe endpoint it
// can run in a testing/synctest bubble.
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
// Options.Logger receives a line for each broken response at level debug.
package apiservertest
