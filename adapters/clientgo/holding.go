package clientgo

import (
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/shard"
)

// Holding is what an informer has of its objects, where processes share them
// (ResourceOptions.Shard). It is safe for concurrent use.
type Holding struct{ of *informer }

// HoldingOf returns what an informer made by this package has. It returns false for others.
func HoldingOf(informer cache.SharedIndexInformer) (Holding, bool) {
	c, ok := informer.GetController().(controller) // the informer itself may be wrapped
	if !ok {
		return Holding{}, false
	}
	return Holding{c.informer}, true
}

// Scope returns ResourceOptions.Shard.
func (h Holding) Scope() shard.Scope { return h.of.shard }

// Holds reports whether the store has all that is in the slot of a hash, and nothing older
// than what the process wrote that had it before (S04). Handlers hear of it after that.
// Before the informer runs it holds nothing. See sharedinformer.Informer.
func (h Holding) Holds(hash uint64) bool {
	i := h.of.inner()
	return i != nil && i.Holds(hash)
}
