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
// Deltas are popped in the order in which they were added (L02). A list (Replaced), a resync (Sync) and a
// bookmark are one entry each, so the consumer can apply each atomically (L12, L13). A Pop takes everything
// in the queue, so a batch's resource versions cover every change queued before them (L13), even changes that
// were merged by compaction (L01). At most one list per namespace is queued: a newer one supersedes it.
//
// # Concurrency
//
// Any number of goroutines may call Add. One goroutine calls Pop. The queue starts no goroutines.
//
// # Failure
//
// Add cannot fail. The only error Pop returns is the cause of its context.
//
// # Debugging
//
// Len and Oldest show how far the consumer is behind; Merged counts the deltas merged by compaction and the
// lists superseded by newer ones.
package deltafifo
