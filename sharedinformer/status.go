package sharedinformer

import (
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
)

// Status is an informer seen from outside at one moment.
type Status struct {
	// Type is the Go type of the objects, such as "*v1.Pod": a resource may have several
	// informers, of whole objects, untyped ones and metadata alone. Empty where it is not
	// known.
	Type string

	// Kind is what the source says that it reads (source.Description). Empty where it is not known.
	Kind object.GVK `json:",omitzero"`

	// Reflector is how listing and watching are going. Where each namespace has its
	// own, it is what they come to: figures are added up, RV is the least, and
	// state and failure are those of the one that is worst off.
	Reflector reflector.Status

	// Namespaces are those of each namespace that is listed and watched on its own,
	// sorted; nil where all are read at once.
	Namespaces []reflector.Status

	Synced  bool   // a whole initial list is in the cache
	RV      string // the cache is complete up to here; behind Reflector.RV by what is queued
	Objects int    // cached objects

	Store  Store        // how they are cached
	Packed PackedStatus // what is to say of a packed cache; zero for a whole one

	QueueDepth  int           // deltas not applied yet, those that are being applied included; more than a handful for long means that index functions or the machine are too slow
	QueueAge    time.Duration // how long the oldest of them has waited
	QueueMerged uint64        // deltas that compaction folded

	// Leaving names the namespaces that are not wanted any more, and whose reflectors have been
	// cancelled and have not ended, because the source, a transform or a hook does not return. No
	// namespace that has come begins before they end, and the informer is not synced. Empty where
	// there are none.
	Leaving string

	// Blocked names the index function that the cache waits for, where that takes longer than
	// a second: nothing comes into the cache before it returns, and what is to be changed with
	// it cannot be read. Empty where it waits for none.
	Blocked string

	// Selection says who leaves out what is not in the share (Options.Shard). Without a share
	// it is SelectionNone, and JSON leaves it out.
	Selection shard.Selection `json:",omitzero"`

	// Snapshot is nil without Options.Snapshot.
	Snapshot *SnapshotStatus

	// Failure is the last one of an index function, of the mutation
	// detector or of writing a snapshot. Those of the reflector and of handlers stand there.
	Failure *failure.Failure

	Handlers []HandlerStatus // in the order in which they joined
}

func (i *core) Status() Status {
	cache := i.cache.Reader()
	all, each := i.feeds.status()
	s := Status{
		Kind: i.from.Kind, Reflector: all, Namespaces: each,
		Store: Whole, Synced: i.HasSynced(), RV: cache.RV(), Objects: cache.Len(),
		QueueDepth: i.queue.Len(), QueueMerged: i.queue.Merged(), Blocked: i.blocked(),
		Failure: i.failure.Load(), Snapshot: i.snapshots.current(), Selection: i.selection(),
	}
	if oldest := i.queue.Oldest(); !oldest.IsZero() {
		s.QueueAge = time.Since(oldest)
	}
	if batch := i.applying.Load(); batch != nil {
		s.QueueDepth += batch.deltas
		s.QueueAge = time.Since(batch.at) // since when the queue has what it has
	}
	s.Type = i.goType.String()
	if i.packing != nil {
		s.Store, s.Packed = Packed, i.packing.status()
	}
	_, s.Leaving = i.leavingNames()
	for _, d := range *i.handlers.Load() {
		s.Handlers = append(s.Handlers, d.Status())
	}
	return s
}

func (i *core) StatusIn(namespace string) (s reflector.Status, watched bool) {
	f := feedCovering(i.feeds.all(), namespace)
	if f == nil {
		return s, false
	}
	return i.feeds.statusOf(f.reflector), true
}

// Unsynced returns the reflectors whose initial list is missing: nil if Synced is
// true, and otherwise those of the namespaces concerned, or the only one.
func (s Status) Unsynced() []reflector.Status {
	if s.Synced {
		return nil
	}
	return missing(s.Reflector, s.Namespaces)
}

// Stale returns the reflectors whose state is older than after (see reflector.Status.Age): of the
// namespaces concerned, or the only one. One whose kind the server does not serve is left out.
func (s Status) Stale(now time.Time, after time.Duration) (stale []reflector.Status) {
	each := s.Namespaces
	if each == nil {
		each = []reflector.Status{s.Reflector}
	}
	for _, r := range each {
		if r.Age(now) > after && !r.NotServed() {
			stale = append(stale, r)
		}
	}
	return stale
}

// missing returns those of each without an initial list; all if there are none.
func missing(all reflector.Status, each []reflector.Status) (without []reflector.Status) {
	for _, s := range each {
		if s.RV == "" {
			without = append(without, s)
		}
	}
	if without == nil { // all that was read is still to be applied
		without = []reflector.Status{all}
	}
	return without
}
