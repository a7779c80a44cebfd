// Package deltafifo is the queue between a reflector, which learns of
// changes, and an informer, which applies them.
//
// # Usage
//
//	f := deltafifo.New(deltafifo.Options{})
//	f.Add(deltafifo.Delta{Type: deltafifo.Added, Key: key, Object: pod, RV: pod.ResourceVersion})
//	deltas, err := f.Pop(ctx, nil)
//
// # Guarantees
//
// Deltas leave in the order in which they came (L02). A whole set (Replaced),
// a resync (Sync) and a bookmark are one entry each, so that a consumer can
// let each take effect at once (L12, L13). One Pop takes everything, so that what
// the deltas of a batch promise as resource versions covers every change that was
// queued up to them (L13), also where compaction folded some (L01). At most one whole list of
// a namespace waits: a newer one supersedes it.
//
// # Concurrency
//
// Any number of goroutines may add. One goroutine pops. The queue has no
// goroutine of its own.
//
// # Failure
//
// Adding cannot fail. Popping fails only with the cause of its context.
//
// # Debugging
//
// Len and Oldest tell how far the consumer lags; Merged counts the deltas that compaction
// folded and the lists that newer ones superseded.
package deltafifo
