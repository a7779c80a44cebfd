// Package indexer is the cache: it finds objects by key, by namespace, by label selector and by
// typed indexes.
//
// # Usage
//
//	byNode, failures := indexer.AddIndex(cache, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	for pod := range byNode.Get("node-1") { ... }
//	pod, ok := indexer.ReaderOf[*corev1.Pod](cache).Get(object.Key{Namespace: "shop", Name: "web-0"})
//
// # Guarantees
//
// A batch of changes, such as a complete list, becomes visible atomically (L12), together with its
// resource version (L13). At any moment, a lookup by index equals a scan with the index function; an
// object whose index function panics is reported and stays reachable by key (L15). A Reader cannot write
// (L16). All readers share the objects, which must not be modified.
//
// # Concurrency
//
// Any number of goroutines may read while one writes. A lookup of a list (all objects, a namespace,
// a value of an index) takes no lock if the list was read since its last change. Otherwise it takes
// a read lock while it finds the list, as Get does. The number of objects and their version are
// read without a lock. No lock is held while the caller iterates over a result, which is a view
// that never changes. A view is free; the first write after it copies a small part of the list.
//
// # Failure
//
// Lookups cannot fail. Write and AddIndex return the panics of index functions, with index name and
// key.
//
// # Debugging
//
// Reader.RV is the version of the cache, Reader.Len its size, and Indexer.Calling the index
// function that a write is calling.
package indexer
