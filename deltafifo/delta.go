package deltafifo

import (
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
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
	// Passed tells of a change of an object that is not wanted, and may have been before.
	Passed
	// Drop asks the consumer to drop the objects in Part.Lost. One that still waits takes in the next.
	Drop
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
	case Passed:
		return "passed"
	case Drop:
		return "drop"
	}
	return "unknown"
}

// Delta is one entry of the queue. The zero Key, Object and RV mean that the
// type of delta has none.
//
// RV is a promise (L13): once the batch of this delta is applied, the cache has every
// change of its reflector up to RV. With Options.Compact it holds for the batch as a
// whole, since a change may have been folded into a later delta.
type Delta struct {
	Type       Type
	Late       bool          // of Added, Updated and Deleted; see Outdates
	NewHistory bool          // of Replaced: the server's history may have gone back, so that the same UID and version may have another content
	Key        object.Key    // of Object, or of the object that passed; for Replaced and Bookmark the namespace that they are about, empty for all
	Object     object.Head   // for Deleted, the last state that the server told
	Items      []object.Head // for Replaced, the whole set in list order
	RV         string        // the resource version that it brings the cache to
	Part       *Part         // of Passed and Drop, and of Replaced where only a part of the set is wanted

	Received time.Time // when the last byte of it had been read
	Decoded  time.Time // when Object was ready
	Queued   time.Time // when it was added here; see Add
}

// Part is what a Delta says where a consumer wants a part of the set only, and which part
// that is changes.
type Part struct {
	Gains uint64           // of Replaced: how often objects had come to be wanted when the list began
	Away  []object.Version // of Replaced, objects that the list showed and that are not wanted; of Passed, the object
	Gone  bool             // of Passed: it was deleted
	Lost  shard.Slots      // of Drop
}

// Outdates reports whether a late delta tells of a later state than have, which the
// consumer holds under the same key. A delta is Late if its object's version is not
// above those that came before it, and then has no RV. From most servers that is an
// old event, sent again; where versions do not grow over all objects it may be news.
// A consumer takes it only if it outdates what it holds, or if it holds nothing and
// does not remember the end of that object.
func (d *Delta) Outdates(have object.Head) bool {
	order, err := object.CompareRV(d.Object.GetResourceVersion(), have.GetResourceVersion())
	if d.Type == Deleted { // some servers send it with the version of the last state
		return d.Object.GetUID() == have.GetUID() && (err != nil || order >= 0)
	}
	return err != nil || order > 0
}

// ofObject reports whether d is about one object.
func (d *Delta) ofObject() bool { return d.Type <= Deleted }
