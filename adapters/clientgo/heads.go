package clientgo

import (
	"iter"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// Heads is the cache of an informer for callers that need only the heads of most objects, or want copies
// of objects. It decodes packed objects only on request. It is safe for concurrent use.
type Heads struct {
	indexer.Reader[object.Head]
	of *reads
}

// HeadsOf returns the heads of a Millrace informer that has synced. It returns false for any other
// informer.
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

// ByIndex yields the heads of the objects with an index value, in no particular order. It returns an
// error if there is no index of that name.
func (h Heads) ByIndex(name, value string) (iter.Seq[object.Head], error) {
	i, err := h.of.index(name)
	if err != nil {
		return nil, err
	}
	return i.found.Heads(value), nil
}

// Open returns the object of a head. The caller must not change it. If the bytes of a packed object are
// damaged, Open returns an error that wraps wire.ErrDamaged, and the informer fetches the object again.
func (h Heads) Open(head object.Head) (object.Object, error) { return opened(h.of.informer.Open(head)) }

// Copy returns a copy of a head's object that belongs to the caller. A packed object that is not in use is
// decoded for the caller instead of copied. Copy fails as Open does.
func (h Heads) Copy(head object.Head) (object.Object, error) { return opened(h.of.informer.Copy(head)) }

// opened returns o in the form in which its source returned it.
func opened(o object.Object, err error) (object.Object, error) {
	if err != nil {
		return nil, err
	}
	return bare(o), nil
}
