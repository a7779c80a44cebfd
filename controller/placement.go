package controller

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// shardedCache is the cache behind a source with a sharded informer.
type shardedCache struct {
	informer *sharedinformer.Informer[object.Object]
	scope    shard.Scope
}

// shardedCacheOf returns the informer's cache, or nil if the informer is not sharded.
func shardedCacheOf(i *sharedinformer.Informer[object.Object]) *shardedCache {
	if i == nil || i.Scope().Everything() {
		return nil
	}
	return &shardedCache{i, i.Scope()}
}

// find returns the shard hash of the cached object under key.
func (c *shardedCache) find(key object.Key) (hash uint64, has bool) {
	head, has := c.informer.Heads().Get(key)
	if !has {
		return 0, false
	}
	return c.scope.Key.Hash(head), true
}

// placement is the shard hash of a request's object, if known.
type placement struct {
	hash      uint64
	known     bool
	existence existence
}

// existence records whether the last event for the request's own object was a deletion.
type existence uint8

const (
	noEvent existence = iota // no event has arrived
	objectPresent
	objectGone
)

// placement returns the placement of requests for o, or for objects whose key is derived from o's.
func (c *shardedCache) placement(o object.Head) placement {
	if c == nil {
		return placement{}
	}
	return placement{hash: c.scope.Key.Hash(o), known: true}
}

// ownerPlacement returns the placement of a request for one of o's owners.
func (c *shardedCache) ownerPlacement(o object.Head, owner metav1.OwnerReference) (at placement) {
	if c != nil {
		at.hash, at.known = c.scope.Key.OwnerHash(o, owner)
	}
	return at
}

// placedRequest is a request along with its placement.
type placedRequest struct {
	Request
	placement
}

// movedAway reports whether the event means that another process has taken over the object, rather than
// that the object was deleted.
func movedAway(e sharedinformer.Event[object.Head]) bool {
	return e.Moved && e.Type == sharedinformer.Delete
}

// slotWork is the slot that a sharded reconcile has entered. Cache reads consult it so that an object taken
// over by another process is not mistaken for a deleted one.
type slotWork struct {
	*sharding.Work
	key object.Key
	had []*sharedinformer.Informer[object.Object] // informers for the reconciled kind that contained the object when the work began
}

// lacks returns an error if the informer lacks the object but another process may have it. If the object
// existed when the work began and its shard key can change (as labels can), the object may have moved,
// which looks like a deletion.
func (w *slotWork) lacks(i *sharedinformer.Informer[object.Object], key object.Key) error {
	holds := func(hash uint64) bool { return i.HoldsIn(hash, key.Namespace) || notServedIn(i, key.Namespace) }
	if err := w.Lacks(holds); err != nil {
		return err
	}
	if !i.Scope().Key.Fixed() && key == w.key && slices.Contains(w.had, i) {
		return shard.ErrMoved
	}
	return nil
}
