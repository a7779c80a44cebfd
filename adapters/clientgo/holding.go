package clientgo

import (
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/shard"
)

// Holding reports which objects an informer contains when they are sharded across processes (see
// [ResourceOptions].Shard). It is safe for concurrent use.
type Holding struct{ of *informer }

// HoldingOf returns the Holding of an informer created by this package. It returns false for other
// informers.
func HoldingOf(informer cache.SharedIndexInformer) (Holding, bool) {
	c, ok := informer.GetController().(controller) // the informer itself may be wrapped
	if !ok {
		return Holding{}, false
	}
	return Holding{c.informer}, true
}

// Scope returns ResourceOptions.Shard.
func (h Holding) Scope() shard.Scope { return h.of.shard }

// Holds reports whether the store contains every object in the slot of a hash, each at least as recent
// as the last write by the slot's previous owner (S04). Holds becomes true before handlers are called.
// Before the informer runs, Holds returns false. See [sharedinformer.Informer].
func (h Holding) Holds(hash uint64) bool {
	i := h.of.inner()
	return i != nil && i.Holds(hash)
}
