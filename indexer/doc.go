// Package indexer is the cache: objects by key, found again by namespace, by
// label selector and by typed indexes.
//
// # Usage
//
//	byNode, failures := indexer.AddIndex(cache, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	for pod := range byNode.Get("node-1") { ... }
//	pod, ok := indexer.ReaderOf[*corev1.Pod](cache).Get(object.Key{Namespace: "shop", Name: "web-0"})
//
// # Guarantees
//
// A batch of changes, and a whole new set, become visible at once (L12), with
// the resource version that goes with them (L13). A lookup by index equals a
// scan with the index function at any instant; an object whose index function
// panics is reported and stays reachable by key (L15). A Reader cannot write
// (L16). Objects are shared between all readers and must not be changed.
//
// # Concurrency
//
// Any number of readers, one writer at a time. A lookup of a list (all objects, a
// namespace, a value of an index) takes no lock if the list was read before and
// did not change since; the first one after a change takes a read lock for as
// long as it takes to find the list, and so does Get. How many objects there are, and up
// to which version, is read without a lock. Nobody holds a lock while
// the caller walks an answer: what an iterator walks is a view that never
// changes. To take one costs nothing; the first write after it copies a small
// part.
//
// # Failure
//
// Lookups cannot fail. Write and AddIndex return what index functions panicked
// on, with the name of the index and the key.
//
// # Debugging
//
// Reader.RV tells how far the cache is, Reader.Len how much it holds, and
// Indexer.Calling which index function a write is at.
package indexer
