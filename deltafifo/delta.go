package deltafifo

import (
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Type says what a Delta is about.
type Type uint8

const (
	// Added, Updated and Deleted are what the server said of one object. They
	// are hints: the consumer compares with its cache, because a reconnect or
	// a selector may turn one into another.
	Added Type = iota + 1
	Updated
	Deleted
	// Replaced carries the whole set, from a list, or that of one namespace.
	Replaced
	// Sync asks the consumer to tell handlers again what is cached. It brings
	// no change.
	Sync
	// Bookmark says that every change up to RV has been queued before it; in one
	// namespace, where Key has one.
	Bookmark
	// Trim asks the consumer to let go of the namespaces that it no longer wants.
	// It brings no change either.
	Trim
)

// String names the type in lower case.
func (t Type) String() string {
	switch t {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	case Replaced:
		return "replaced"
	case Sync:
		return "sync"
	case Bookmark:
		return "bookmark"
	case Trim:
		return "trim"
	}
	return "unknown"
}

// Delta is one entry of the queue. The zero Key, Object and RV mean that the
// type of delta has none.
type Delta[T object.Object] struct {
	Type   Type
	Key    object.Key // of Object; for Replaced and Bookmark the namespace that they are about, empty for all
	Object T          // for Deleted, the last state that the server told
	Items  []T        // for Replaced, the whole set in list order
	RV     string     // the cache's resource version once this and all before it are applied

	Received time.Time // when the last byte of it had been read
	Decoded  time.Time // when Object was ready
	Queued   time.Time // when it was added here; see Add

	// gone marks an entry that was popped by key or folded into a later one
	// while it waits for the entries before it to leave.
	gone bool
	// next is the position of the next entry of the same key, 0 if none.
	next uint64
}

// ofObject reports whether d is about one object.
func (d *Delta[T]) ofObject() bool { return d.Type <= Deleted }

// Batch is what a consumer gets: deltas in order, and the promise that goes
// with them.
type Batch[T object.Object] struct {
	Deltas []Delta[T]

	// RV is the resource version up to which every change has been handed out
	// with this batch or before it; the consumer's cache is complete up to it
	// once the batch is applied (L13). Empty where nothing can be promised yet. A
	// queue that several reflectors fill promises nothing with it: see Delta.RV.
	RV string
}
