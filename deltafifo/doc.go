// Package deltafifo is the queue between a reflector, which receives changes, and an informer,
// which applies them.
//
// # Usage
//
//	f := deltafifo.New(deltafifo.Options{})
//	f.Add(deltafifo.Delta{Type: deltafifo.Added, Key: key, Object: pod, RV: pod.ResourceVersion})
//	deltas, err := f.Pop(ctx, nil)
//
// # Guarantees
//
// Deltas leave in the order they arrived (L02). A list (Replaced), a resync (Sync) and a bookmark are one
// entry each, so the consumer can apply each atomically (L12, L13). One Pop takes everything, so the resource
// versions of a batch cover every change queued up to them (L13), even if compaction merged some of them
// (L01). At most one list per namespace is queued: a newer one supersedes it.
//
// # Concurrency
//
// Any number of goroutines may call Add. One goroutine calls Pop. The queue starts no goroutines.
//
// # Failure
//
// Add cannot fail. Pop fails only with the cause of its context.
//
// # Debugging
//
// Len and Oldest show how far the consumer is behind; Merged counts the deltas merged by compaction and the
// lists superseded by newer ones.
package deltafifo
