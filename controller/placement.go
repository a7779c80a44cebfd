package controller

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// shardedCache is the cache of a source whose informer holds a share.
type shardedCache struct {
	informer *sharedinformer.Informer[object.Object]
	scope    shard.Scope
}

// shardedCacheOf returns the cache of an informer, nil if it holds everything.
func shardedCacheOf(i *sharedinformer.Informer[object.Object]) *shardedCache {
	if i == nil || i.Scope().Everything() {
		return nil
	}
	return &shardedCache{i, i.Scope()}
}

// find returns the hash of the cached object of a key.
func (c *shardedCache) find(key object.Key) (hash uint64, has bool) {
	head, has := c.informer.Heads().Get(key)
	if !has {
		return 0, false
	}
	return c.scope.Key.Hash(head), true
}

// placement says which share a request belongs to: the hash of the object that it names, if known.
type placement struct {
	hash      uint64
	known     bool
	existence existence
}

// existence is whether the last event of a request's own object was a deletion.
type existence uint8

const (
	noEvent existence = iota // there was no such event
	objectPresent
	objectGone
)

// placement is that of a request for o, or for an object whose key o's key follows.
func (c *shardedCache) placement(o object.Head) placement {
	if c == nil {
		return placement{}
	}
	return placement{hash: c.scope.Key.Hash(o), known: true}
}

// ownerPlacement is that of a request for an owner of o.
func (c *shardedCache) ownerPlacement(o object.Head, owner metav1.OwnerReference) (at placement) {
	if c != nil {
		at.hash, at.known = c.scope.Key.OwnerHash(o, owner)
	}
	return at
}

// placedRequest is a request, and where it belongs.
type placedRequest struct {
	Request
	placement
}

// movedAway reports whether an event tells that an object is another process's now, and
// not that it is gone.
func movedAway(e sharedinformer.Event[object.Head]) bool {
	return e.Moved && e.Type == sharedinformer.Delete
}

// slotWork is what a reconcile of a share has in hand. Its attempt has it, so that a read of a cache
// never takes for gone what another process has.
type slotWork struct {
	*sharding.Work
	key object.Key
	had []*sharedinformer.Informer[object.Object] // of the reconciled kind, that had the object when the work began
}

// lacks is sharding.Work.Lacks for an object that an informer does not have. If the object was
// there when the work began, and its key may change, such as a label, it may have moved, and
// nobody can tell that from a deletion.
func (w *slotWork) lacks(i *sharedinformer.Informer[object.Object], key object.Key) error {
	if err := w.Lacks(i.Holds); err != nil {
		return err
	}
	if !i.Scope().Key.Fixed() && key == w.key && slices.Contains(w.had, i) {
		return shard.ErrMoved
	}
	return nil
}
