package clientgo

import (
	"iter"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// Heads is a view of an informer's cache for callers that need only the heads of most objects, or want
// their own copies. It decodes packed objects only on request. It is safe for concurrent use.
type Heads struct {
	indexer.Reader[object.Head]
	of *reads
}

// HeadsOf returns the [Heads] of a synced Millrace informer. It returns false for any other informer.
func HeadsOf(informer cache.SharedIndexInformer) (Heads, bool) {
	s, ok := informer.GetIndexer().(*store)
	if !ok {
		return Heads{}, false
	}
	r, ok := s.current().(*reads)
	if !ok {
		return Heads{}, false
	}
	return Heads{r.informer.Heads(), r}, true
}

// ByIndex yields the heads of the objects with the given index value, in no particular order. It returns
// an error if no index has that name.
func (h Heads) ByIndex(name, value string) (iter.Seq[object.Head], error) {
	i, err := h.of.index(name)
	if err != nil {
		return nil, err
	}
	return i.found.Heads(value), nil
}

// Open returns the full object for a head. It must not be modified. If a packed object's bytes are corrupt,
// Open returns an error that wraps wire.ErrDamaged, and the informer refetches the object.
func (h Heads) Open(head object.Head) (object.Object, error) { return opened(h.of.informer.Open(head)) }

// Copy returns a copy of a head's object, owned by the caller. If a packed object is not in use,
// Copy decodes it for the caller instead of copying it. Copy fails in the same cases as Open.
func (h Heads) Copy(head object.Head) (object.Object, error) { return opened(h.of.informer.Copy(head)) }

// opened returns o as its source returned it.
func opened(o object.Object, err error) (object.Object, error) {
	if err != nil {
		return nil, err
	}
	return bare(o), nil
}
