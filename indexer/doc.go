// Package indexer implements the cache: it looks up objects by key, namespace, label selector and typed
// indexes.
//
// # Usage
//
//	byNode, failures := indexer.AddIndex(cache, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	for pod := range byNode.Get("node-1") { ... }
//	pod, ok := indexer.ReaderOf[*corev1.Pod](cache).Get(object.Key{Namespace: "shop", Name: "web-0"})
//
// # Guarantees
//
// A batch of changes, such as a complete list, becomes visible atomically (L12), together with its resource
// version (L13). At any time, an index lookup returns the same objects as a scan with the index function; an
// object on which the function panics is reported and can still be looked up by key (L15). A Reader cannot
// write (L16). All readers share the objects, which must not be modified.
//
// # Concurrency
//
// Any number of goroutines may read while one writes. Looking up a list (all objects, a namespace, or an
// index value) takes no lock if the list has been read since its last change. Otherwise it takes a read lock
// while finding the list, as Get does. The number of objects and their version are read without locking. No
// lock is held while the caller iterates over a result, which is an immutable view. Taking a view is free;
// the first write afterwards copies a small part of the list.
//
// # Failure
//
// Lookups cannot fail. Write and AddIndex return panics in index functions as errors, with index name and
// key.
//
// # Debugging
//
// Reader.RV is the cache's version, Reader.Len is its size, and Indexer.Calling is the index function that a
// write is currently calling.
package indexer
