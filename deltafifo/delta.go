package deltafifo

import (
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// Type is the kind of a Delta.
type Type uint8

const (
	// Added, Updated and Deleted report a change to one object as the server sent it. They are hints: the
	// consumer compares the object with its cache, because a reconnect or a selector may turn one type of
	// change into another.
	Added Type = iota + 1
	Updated
	Deleted
	// Replaced carries a complete list, either of all objects or of one namespace.
	Replaced
	// Sync asks the consumer to redeliver all cached objects to handlers. It contains no change.
	Sync
	// Bookmark means that every change up to RV was queued before it. If Key has a namespace, it covers only
	// the changes in that namespace.
	Bookmark
	// Trim asks the consumer to drop namespaces it no longer wants. It contains no change.
	Trim
	// Passed reports a change to an object that the consumer does not want, although it may have wanted it
	// before.
	Passed
	// Drop asks the consumer to drop the objects whose slots are in Part.Lost. A new Drop is merged into a
	// queued one.
	Drop
)

// String returns the type in lower case.
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

// Delta is one entry of the queue. Key, Object and RV are zero if they do not apply to the type.
//
// RV is a guarantee (L13): once this delta's batch has been applied, the cache contains every change from the
// delta's reflector up to RV. With Options.Compact this holds only for the batch as a whole, because a change
// may have been merged into a later delta.
type Delta struct {
	Type       Type
	Late       bool          // for Added, Updated and Deleted; see Outdates
	NewHistory bool          // for Replaced: the server's history may have been rolled back, so the same UID and version may stand for different content
	Sender     uint32        // for Replaced: chosen by the sender; the queue ignores it
	Key        object.Key    // key of Object, or of the passed object; for Replaced and Bookmark just the namespace, or empty for all
	Object     object.Head   // for Deleted, the last state sent by the server
	Items      []object.Head // for Replaced, the complete list in order
	RV         string        // the cache's resource version once this delta is applied
	Part       *Part         // for Passed and Drop, and for Replaced if the consumer wants only some of the objects

	Received time.Time // when its last byte was read
	Decoded  time.Time // when Object was decoded
	Queued   time.Time // when it was added to the queue; see Add
}

// Part contains additional data for consumers that want only some of the objects and may change their
// selection.
type Part struct {
	Gains uint64           // for Replaced: the value of reflector.Ownership.Gains when the list started
	Away  []object.Version // for Replaced, the listed objects that are not wanted; for Passed, the object itself
	Gone  bool             // for Passed: the object was deleted
	Lost  shard.Slots      // for Drop: the slots whose objects to drop
}

// Outdates reports whether a late delta is newer than have, the consumer's object with the same key. A delta
// is Late if its object's version is not the highest seen so far; a late delta has no RV. On most servers it
// merely repeats an old event, but if versions are not ordered across objects, it may be new. A consumer
// applies it only if it outdates the consumer's object, or if the consumer has no such object and no record
// of removing it.
func (d *Delta) Outdates(have object.Head) bool {
	order, err := object.CompareRV(d.Object.GetResourceVersion(), have.GetResourceVersion())
	if d.Type == Deleted { // some servers send the last state's version instead
		return d.Object.GetUID() == have.GetUID() && (err != nil || order >= 0)
	}
	return err != nil || order > 0
}

// ofObject reports whether d concerns a single object.
func (d *Delta) ofObject() bool { return d.Type <= Deleted }
