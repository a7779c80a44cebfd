package clientgo

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// ErrReadOnly is returned by a store's write methods once its informer has synced (L16). Before that, or
// if the informer never runs, as in many tests, the store is writable.
var ErrReadOnly = errors.New("the store of an informer that has synced is read-only: change the object on the server")

// store is an informer's cache.Indexer. Until the informer has synced, store uses one of
// client-go's indexers, which is writable. From then on it exposes the informer's cache, which contains
// nothing that was written before.
type store struct {
	written cache.Indexer // also stores the names and functions of all indexes
	reads   atomic.Pointer[reads]
	synced  atomic.Bool // set once reads contains a complete list

	mu sync.Mutex // held while adding indexes to both stores or copying them, which calls index functions and failure handlers
}

func newStore(indexers cache.Indexers) *store {
	own := make(cache.Indexers) // a private copy, which may be extended
	maps.Copy(own, indexers)
	return &store{written: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, own)}
}

// show makes the store expose i's cache once the cache contains a complete list.
func (s *store) show(i *sharedinformer.Informer[object.Object]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &reads{cache: i.Cache(), informer: i, indexes: make(map[string]*index)}
	_ = r.AddIndexers(s.written.GetIndexers())
	s.reads.Store(r)
}

// current returns the indexer that the store exposes.
func (s *store) current() cache.Indexer {
	r := s.reads.Load()
	switch {
	case s.synced.Load():
		return r
	case r == nil || r.cache.RV() == "":
		return s.written
	}
	s.synced.Store(true)
	return r
}

func (s *store) Add(o any) error                 { return s.current().Add(o) }
func (s *store) Update(o any) error              { return s.current().Update(o) }
func (s *store) Delete(o any) error              { return s.current().Delete(o) }
func (s *store) Replace(o []any, v string) error { return s.current().Replace(o, v) }
func (s *store) Resync() error                   { return nil }
func (s *store) Bookmark(rv string)              { s.current().Bookmark(rv) }
func (s *store) LastStoreSyncResourceVersion() string {
	return s.current().LastStoreSyncResourceVersion()
}
func (s *store) List() []any                          { return s.current().List() }
func (s *store) ListKeys() []string                   { return s.current().ListKeys() }
func (s *store) Get(o any) (any, bool, error)         { return s.current().Get(o) }
func (s *store) GetByKey(k string) (any, bool, error) { return s.current().GetByKey(k) }
func (s *store) Index(name string, o any) ([]any, error) {
	return s.current().Index(name, o)
}
func (s *store) IndexKeys(name, value string) ([]string, error) {
	return s.current().IndexKeys(name, value)
}
func (s *store) ListIndexFuncValues(name string) []string {
	return s.current().ListIndexFuncValues(name)
}
func (s *store) ByIndex(name, value string) ([]any, error) {
	return s.current().ByIndex(name, value)
}
func (s *store) GetIndexers() cache.Indexers { return s.current().GetIndexers() }

// AddIndexers adds indexes at any time. It returns an error if a name is already taken.
func (s *store) AddIndexers(indexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.written.AddIndexers(indexers); err != nil {
		return err
	}
	if r := s.reads.Load(); r != nil {
		return r.AddIndexers(indexers)
	}
	return nil
}

// reads presents the read side of an informer's cache as a cache.Indexer.
type reads struct {
	cache    indexer.Reader[object.Object]
	informer *sharedinformer.Informer[object.Object]

	mu      sync.RWMutex // guards indexes; not held during calls
	indexes map[string]*index
}

// index corresponds to one of client-go's indexes.
type index struct {
	found  finder
	values cache.IndexFunc
}

// finder finds the heads of the objects with a given index value. Each call returns a consistent
// result.
type finder interface {
	Heads(value string) iter.Seq[object.Head]
	HeadsOfAny(values []string) iter.Seq[object.Head]
	Len(value string) int
	Values() []string
}

// namespaces is the namespace index, which every cache has.
type namespaces struct{ indexer.Reader[object.Head] }

// Heads yields the objects in a namespace. The empty namespace selects objects without a namespace.
func (n namespaces) Heads(namespace string) iter.Seq[object.Head] {
	if namespace != "" {
		return n.Namespace(namespace)
	}
	return n.HeadsOfAny([]string{namespace})
}

// HeadsOfAny yields the objects in several namespaces.
func (n namespaces) HeadsOfAny(of []string) iter.Seq[object.Head] {
	return func(yield func(object.Head) bool) {
		for o := range n.All() {
			if slices.Contains(of, o.GetNamespace()) && !yield(o) {
				return
			}
		}
	}
}

// Len returns the number of objects in a namespace.
func (n namespaces) Len(namespace string) int {
	count := 0
	for range n.Heads(namespace) {
		count++
	}
	return count
}

// Values returns the namespaces of all objects.
func (n namespaces) Values() []string {
	all := make(map[string]struct{})
	for o := range n.All() {
		all[o.GetNamespace()] = struct{}{}
	}
	return slices.Collect(maps.Keys(all))
}

// isNamespace reports whether values is client-go's function for indexing by namespace.
func isNamespace(values cache.IndexFunc) bool {
	return reflect.ValueOf(values).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()
}

// AddIndexers creates an index for each function, and never fails. If a function fails on an object, the
// object is missing from that index and the failure is reported (L15), whereas client-go panics.
func (r *reads) AddIndexers(indexers cache.Indexers) error {
	for name, values := range indexers {
		found := &index{r.finder(name, values), values} // calls the function on every object
		r.mu.Lock()
		r.indexes[name] = found
		r.mu.Unlock()
	}
	return nil
}

// finder returns the index for an index function.
func (r *reads) finder(name string, values cache.IndexFunc) finder {
	if isNamespace(values) {
		return namespaces{r.informer.Heads()}
	}
	return sharedinformer.AddIndex(r.informer, name, func(o object.Object) []string {
		v, err := values(bare(o))
		if err != nil {
			panic(err)
		}
		return v
	})
}

func (r *reads) index(name string) (*index, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if i, ok := r.indexes[name]; ok {
		return i, nil
	}
	return nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // worded as in client-go
}

func (*reads) Add(any) error               { return ErrReadOnly }
func (*reads) Update(any) error            { return ErrReadOnly }
func (*reads) Delete(any) error            { return ErrReadOnly }
func (*reads) Replace([]any, string) error { return ErrReadOnly }
func (*reads) Resync() error               { return nil }

// Bookmark does nothing, because only the informer can set the cache's resource version without breaking
// a guarantee (L13).
func (*reads) Bookmark(string) {}

func (r *reads) LastStoreSyncResourceVersion() string { return r.cache.RV() }

// List returns all objects except corrupt ones, in a slice that the caller owns.
func (r *reads) List() []any {
	objects, _ := r.cache.Snapshot()
	all := make([]any, 0, r.cache.Len())
	for o := range objects {
		all = append(all, bare(o))
	}
	return all
}

func (r *reads) ListKeys() []string {
	heads, _ := r.informer.Heads().Snapshot()
	keys := make([]string, 0, r.cache.Len())
	for o := range heads {
		keys = append(keys, object.FormatKey(object.KeyOf(o)))
	}
	return keys
}

func (r *reads) Get(o any) (any, bool, error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	if err != nil {
		return nil, false, cache.KeyError{Obj: o, Err: err}
	}
	return r.GetByKey(key)
}

func (r *reads) GetByKey(key string) (any, bool, error) {
	parsed, err := object.ParseKey(key)
	if err != nil {
		return nil, false, nil // no object can have that key
	}
	head, ok := r.informer.Heads().Get(parsed)
	if !ok {
		return nil, false, nil
	}
	o, err := opened(r.informer.Open(head))
	if err != nil {
		return nil, false, err // a corrupt object has not been deleted
	}
	return o, true, nil
}

func (r *reads) Index(name string, o any) ([]any, error) {
	i, err := r.index(name)
	if err != nil {
		return nil, err
	}
	values, err := i.values(o)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return r.having(i, values[0])
	}
	return r.opened(nil, i.found.HeadsOfAny(values))
}

func (r *reads) ByIndex(name, value string) ([]any, error) {
	i, err := r.index(name)
	if err != nil {
		return nil, err
	}
	return r.having(i, value)
}

// IndexKeys returns the keys in order, as client-go does.
func (r *reads) IndexKeys(name, value string) ([]string, error) {
	i, err := r.index(name)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, i.found.Len(value))
	for o := range i.found.Heads(value) {
		keys = append(keys, object.FormatKey(object.KeyOf(o)))
	}
	slices.Sort(keys)
	return keys, nil
}

func (r *reads) ListIndexFuncValues(name string) []string {
	i, err := r.index(name)
	if err != nil {
		return nil
	}
	return i.found.Values()
}

// GetIndexers returns a copy.
func (r *reads) GetIndexers() cache.Indexers {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make(cache.Indexers, len(r.indexes))
	for name, i := range r.indexes {
		all[name] = i.values
	}
	return all
}

// having returns the objects with a given index value, in a slice that the caller owns.
func (r *reads) having(i *index, value string) ([]any, error) {
	return r.opened(make([]any, 0, i.found.Len(value)), i.found.Heads(value))
}

// opened appends the objects for heads.
func (r *reads) opened(objects []any, heads iter.Seq[object.Head]) ([]any, error) {
	for head := range heads {
		o, err := opened(r.informer.Open(head))
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}
