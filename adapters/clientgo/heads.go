package clientgo

import (
	"iter"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// Heads is the cache of an informer for those who need no more of most objects than their
// heads, or who want objects of their own. Of a packed cache it opens nothing by itself. It
// is safe for concurrent use.
type Heads struct {
	indexer.Reader[object.Head]
	of *reads
}

// HeadsOf returns the heads of a Millrace informer that has synced. It reports false for any
// other.
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

// ByIndex yields the heads of the objects that have a value, in no particular order. It
// fails where there is no index of that name.
func (h Heads) ByIndex(name, value string) (iter.Seq[object.Head], error) {
	i, err := h.of.index(name)
	if err != nil {
		return nil, err
	}
	return i.found.Heads(value), nil
}

// Open returns the object of a head. It must not be changed. Open fails where the bytes of a
// packed object are damaged, with an error that wraps wire.ErrDamaged; the informer then
// asks the server for it again.
func (h Heads) Open(head object.Head) (object.Object, error) { return opened(h.of.informer.Open(head)) }

// Copy returns the object of a head as one of the caller's own. A packed object that nobody
// has in use is made for the caller, and not copied. Copy fails as Open does.
func (h Heads) Copy(head object.Head) (object.Object, error) { return opened(h.of.informer.Copy(head)) }

// opened returns o as its source gave it.
func opened(o object.Object, err error) (object.Object, error) {
	if err != nil {
		return nil, err
	}
	return bare(o), nil
}
