package sharedinformer

import (
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
)

// Status is the state of an informer at a point in time.
type Status struct {
	// Type is the objects' Go type, such as "*v1.Pod", or empty if unknown. A resource may have several
	// informers: for typed objects, for untyped objects and for metadata only.
	Type string

	// Kind is the kind the source reads (source.Description), or empty if unknown.
	Kind object.GVK `json:",omitzero"`

	// Reflector is the state of listing and watching. If each namespace has its own reflector, it combines
	// them: counts are added up, RV is the smallest, and the state and the failure are those of the reflector
	// in the worst state.
	Reflector reflector.Status

	// Namespaces contains each namespace's reflector status, sorted; nil if one reflector covers all
	// namespaces.
	Namespaces []reflector.Status

	Synced  bool   // a complete initial list is in the cache
	RV      string // the cache is complete up to this version; lags behind Reflector.RV while deltas are queued
	Objects int    // cached objects

	Store  Store        // how objects are cached
	Packed PackedStatus // packed cache statistics; zero for a whole cache

	QueueDepth  int           // deltas not applied yet, including the batch in progress; if this stays above a handful, either the index functions or the machine is too slow
	QueueAge    time.Duration // age of the oldest queued delta
	QueueMerged uint64        // deltas merged by compaction

	// Leaving lists the removed namespaces whose reflectors were canceled but have not ended, because the
	// source, a transform or a hook has not returned. Until they end, the reflectors for added namespaces do
	// not start, and the informer is not synced.
	Leaving string

	// Blocked describes the index function that has blocked the cache for more than a second, or is empty.
	// Until the function returns, the cache is not updated, and entries being changed cannot be read.
	Blocked string

	// Selection indicates whether the server or the client filters out objects outside the share
	// (Options.Shard). Without a share it is SelectionNone, which JSON omits.
	Selection shard.Selection `json:",omitzero"`

	// Snapshot is the state of the snapshots, or nil if Options.Snapshot is not set.
	Snapshot *SnapshotStatus

	// Failure is the last failure from an index function, the mutation detector or the snapshot writer.
	// Reflector and handler failures appear in their own statuses.
	Failure *failure.Failure

	Handlers []HandlerStatus // in registration order
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
		s.QueueAge = time.Since(batch.at) // how long the queue has been growing
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

// Unsynced returns the statuses of the reflectors whose initial list is missing, one per affected namespace
// unless a single reflector covers all namespaces. It returns nil if s.Synced.
func (s Status) Unsynced() []reflector.Status {
	if s.Synced {
		return nil
	}
	return missing(s.Reflector, s.Namespaces)
}

// Silence returns the longest silence of a watch; see reflector.Status.Silence.
func (s Status) Silence(now time.Time) (longest time.Duration) {
	if s.Namespaces == nil {
		return s.Reflector.Silence(now)
	}
	for _, r := range s.Namespaces {
		longest = max(longest, r.Silence(now))
	}
	return longest
}

// Stale returns the statuses of the reflectors whose state is older than after (see reflector.Status.Age),
// except those whose kind is not served.
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

// missing returns the statuses in each without an initial list, or all of them if every reflector has its
// list.
func missing(all reflector.Status, each []reflector.Status) (without []reflector.Status) {
	for _, s := range each {
		if s.RV == "" {
			without = append(without, s)
		}
	}
	if without == nil { // everything has been read, but not all of it has been applied
		without = []reflector.Status{all}
	}
	return without
}
