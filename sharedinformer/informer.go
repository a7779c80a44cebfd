package sharedinformer

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/source"
)

// Informer keeps a cache of one resource in sync with the server and notifies handlers of every change.
// Create one with [New].
type Informer[T object.Object] struct {
	_    [0]*T // prevents conversion between informers of different types
	core informerCore
}

// informerCore is implemented by *core. It is an interface so that packages that mention an informer do not
// depend on everything that core uses, or recompile parts of it. Registration.of is an interface for the same
// reason.
type informerCore interface {
	View
	cached() *indexer.Indexer
	stale() *indexer.Indexer
	packed() bool
	indexFailed([]*indexer.IndexError)
	addHandler(untypedHandler, HandlerOptions) *Registration
	asObjects() any // the *Informer[object.Object]

	Run(context.Context) error
	Start(context.Context) (wait func() error, err error)
	Reconnect(why error, namespaces ...string)
	StatusIn(namespace string) (reflector.Status, bool)
	HasSynced() bool
	HasSyncedIn(namespace string) bool
	HeldUp() bool
	Unsynced() error
	WaitForSync(context.Context) error
	WaitForRV(ctx context.Context, rv string, namespaces ...string) error
	WaitUntil(ctx context.Context, reached func() bool) error

	Namespaces() []string
	SetNamespaces([]string) error
	canNarrow(set []string) error
	setNamespaces(set []string, begin <-chan struct{})
	Watches(namespace string) bool
	Selects(object.Head) bool
	Decides() bool
	Scope() shard.Scope
	Holds(hash uint64) bool
	HoldsIn(hash uint64, namespace string) bool
	Source() source.Description
	copy(object.Head) (object.Object, error)
}

// New returns an informer that is not running yet. Status, Run and WaitForSync report contradictory options.
// The source may reuse cached objects, so that a relist decodes only objects that have changed
// (source.Request).
func New[T object.Object](from source.ListerWatcher, opts Options) *Informer[T] {
	if from == nil {
		panic(failure.Place(1) + ": the source of an informer is nil")
	}
	return &Informer[T]{core: newCore(from, opts, reflect.TypeFor[T]())}
}

// Objects returns i as an informer of object.Object. It returns the same pointer each time, or nil if i is
// nil. It is a function, not a method, because a method would make every package that mentions an informer
// compile this instantiation too.
func Objects[T object.Object](i *Informer[T]) *Informer[object.Object] {
	if i == nil {
		return nil
	}
	return i.core.asObjects().(*Informer[object.Object])
}

// ObjectsOf is like [Objects] for an informer whose type is unknown. It returns nil if v is not an informer's
// view.
func ObjectsOf(v View) *Informer[object.Object] {
	core, ok := v.(informerCore)
	if !ok {
		return nil
	}
	return core.asObjects().(*Informer[object.Object])
}

// Informer returns i itself. It allows a function to accept either an informer or a client that has one.
func (i *Informer[T]) Informer() *Informer[T] { return i }

// Name returns the name of the resource used in messages.
func (i *Informer[T]) Name() string { return i.core.Name() }

// Cache returns a reader for the cache. It may be used before, during and after Run. The objects are shared
// and must not be modified: modify a DeepCopy. Options.DetectMutations finds violations.
func (i *Informer[T]) Cache() indexer.Reader[T] { return readerOf[T](i.core.cached(), i.core.packed()) }

func readerOf[T object.Object](cache *indexer.Indexer, packed bool) indexer.Reader[T] {
	if packed {
		return indexer.Opened[T](cache)
	}
	return indexer.ReaderOf[T](cache)
}

// Stale returns a reader for the objects loaded from an earlier process's snapshot until the informer first
// syncs, and a reader for the cache from then on, even while SetNamespaces takes effect. Loaded objects may
// be outdated, or even come from another server. Use Stale when stale data is better than none, and call
// Stale again for newer data. Without a snapshot the reader is empty at first.
func (i *Informer[T]) Stale() indexer.Reader[T] { return readerOf[T](i.core.stale(), i.core.packed()) }

// Index looks up cached objects by values that a function computes from them; see [AddIndex].
type Index[T object.Object, V comparable] = indexer.Index[T, V]

// AddIndex adds a typed index to the informer's cache, even while the informer runs. The function must depend
// solely on the object, and return quickly. The name appears in messages and need not be unique. Index.Remove
// removes the index.
func AddIndex[T object.Object, V comparable](i *Informer[T], name string, values func(T) []V) *Index[T, V] {
	if values == nil {
		panic(fmt.Sprintf("%s: the function of index %q of %s is nil", failure.Place(1), name, i.Name()))
	}
	add := indexer.AddIndex[T, V]
	if i.core.packed() {
		add = indexer.AddIndexOpened
	}
	index, failures := add(i.core.cached(), name, values)
	i.core.indexFailed(failures)
	return index
}

// Run keeps the cache up to date and calls the handlers. It returns nil when ctx is done. It returns a
// *failure.Failure if Options.OnError returns failure.Stop for it, if options are contradictory, or if user
// code has made the cache unusable, such as an index function that calls runtime.Goexit. When Run returns,
// every goroutine that it started has ended (L23). Run may be called again; the cache and the handlers then
// pick up where they left off (L24). Concurrent calls fail with reflector.ErrRunning.
func (i *Informer[T]) Run(ctx context.Context) error { return i.core.Run(ctx) }

// Start calls Run in a new goroutine. The returned function waits for Run to return and returns its error.
// Unlike after a plain go statement, the informer is already running when Start returns, so a caller that
// then waits for sync does not get the result of an earlier run.
func (i *Informer[T]) Start(ctx context.Context) (wait func() error, err error) {
	return i.core.Start(ctx)
}

// AddHandler registers h. It first receives an Add, marked as initial, for each object cached at the
// time of the call, and then every change (L06). It may be called before, during and after Run. It
// panics if h is nil.
func (i *Informer[T]) AddHandler(h Handler[T]) *Registration {
	return i.core.addHandler(untypedHandlerOf(h), HandlerOptions{Place: failure.Place(1)})
}

// AddHandlerWith is like AddHandler, with options.
func (i *Informer[T]) AddHandlerWith(h Handler[T], opts HandlerOptions) *Registration {
	opts.Place = cmp.Or(opts.Place, failure.Place(1))
	return i.core.addHandler(untypedHandlerOf(h), opts)
}

// Status returns the current state of the informer. Its fields are read one by one, so they may reflect
// slightly different points in time.
func (i *Informer[T]) Status() Status { return i.core.Status() }

// StatusIn returns the status of a namespace's reflector, or false if the informer does not watch that
// namespace. Unlike Status, its cost does not depend on the number of namespaces.
func (i *Informer[T]) StatusIn(namespace string) (s reflector.Status, watched bool) {
	return i.core.StatusIn(namespace)
}

// HasSynced reports whether a complete initial list is in the cache (L18). It remains true between runs,
// whereas WaitForSync waits for the server in each run.
func (i *Informer[T]) HasSynced() bool { return i.core.HasSynced() }

// HasSyncedIn reports whether a namespace's initial list is in the cache, even if other namespaces' lists are
// missing. An empty namespace means all namespaces. HasSyncedIn returns true for a namespace that the
// informer does not watch.
func (i *Informer[T]) HasSyncedIn(namespace string) bool { return i.core.HasSyncedIn(namespace) }

// HeldUp reports whether at least one namespace has synced and the only thing that keeps the informer from
// syncing is failing lists, such as those of forbidden namespaces.
func (i *Informer[T]) HeldUp() bool { return i.core.HeldUp() }

// WaitForSync waits until the informer and all handlers registered at the time of the call are synced, and
// the server has accepted a watch or returned a list in this run (L24). If Run has not been called yet, it
// waits for Run. It fails
//   - if ctx is done; the error wraps its cause;
//   - if Run has returned before that; the error wraps ErrStopped;
//   - if a missing list or watch has been failing for Options.SyncPatience (1 min by default), or if a
//     handler, or OnError for one, has been blocked in one call for that long;
//   - immediately if options are contradictory.
//
// The error reports what is missing and the state of the reflector (L22). It wraps ErrNotSynced, unless the
// cache is unusable (see Run), and the latest failure of each missing list or watch, so apierrors.IsForbidden
// and the like work. The informer keeps trying while it runs, so the caller may wait again.
//
// Between runs, it returns the result of the last one: nil if all were synced. Begin the next run with Start, so
// that WaitForSync waits for it.
func (i *Informer[T]) WaitForSync(ctx context.Context) error { return i.core.WaitForSync(ctx) }

// WaitForRV waits until the cache contains every change up to rv, such as the resource version of an object
// that was just written (L14). It fails with the cause of ctx when ctx is done, or with ErrStopped if Run has
// returned before that. It fails immediately if rv is not a resource version, or if the informer has no namespaces
// (ErrNotWatched). If there is no initial list yet, it gives up as WaitForSync does. The error includes the
// latest failure.
//
// If namespaces are specified, it waits only for changes in those namespaces. This is faster if each
// namespace is watched separately (Options.Namespaces), because in a quiet namespace only a bookmark, sent
// about once a minute, confirms that no change was missed. It fails with ErrNotWatched for a namespace that
// the informer does not watch.
func (i *Informer[T]) WaitForRV(ctx context.Context, rv string, namespaces ...string) error {
	return i.core.WaitForRV(ctx, rv, namespaces...)
}

// WaitUntil waits until reached returns true. It calls reached immediately and after every change to the
// cache, the reflector's state or the sync state, without holding a lock; reached must return quickly.
// WaitUntil fails like WaitForRV.
func (i *Informer[T]) WaitUntil(ctx context.Context, reached func() bool) error {
	return i.core.WaitUntil(ctx, reached)
}

// Reconnect closes the informer's watches and reopens each where it left off. Call it if a watch is known to
// be dead; see reflector.Reflector.Reconnect. If namespaces are specified, it reopens only the watches that
// cover them. It returns immediately, and may be called from anywhere.
func (i *Informer[T]) Reconnect(why error, namespaces ...string) {
	i.core.Reconnect(why, namespaces...)
}

// Unsynced returns an error describing each missing initial list and why it is missing, or which servers have
// not responded yet in this run. It returns nil if WaitForSync would wait only for handlers.
func (i *Informer[T]) Unsynced() error { return i.core.Unsynced() }

// Namespaces returns the namespaces most recently configured, sorted. If the informer watches all namespaces,
// it returns just metav1.NamespaceAll.
func (i *Informer[T]) Namespaces() []string { return i.core.Namespaces() }

// SetNamespaces changes the namespaces that the informer watches. Nil or a list containing
// metav1.NamespaceAll means all of the source's namespaces; an empty slice means none. The informer may be
// running: SetNamespaces returns immediately, and WaitForSync waits until the change has taken effect. If the
// source cannot be limited to one of the namespaces, it returns an error and changes nothing.
//
// Handlers receive an Add, marked as initial, for each object in an added namespace, and a Delete for each
// object in a removed one. Such a Delete means only that the informer no longer watches the object, as if a
// selector had stopped matching, not that the object was deleted on the server. Its Object is the cached
// state, and FinalStateUnknown is false. Objects in other namespaces are not affected. Until the change takes
// effect, the informer and its handlers are not synced, and the cache has no RV (L13, L18); each namespace
// keeps its own RV (indexer.Reader.NamespaceRV).
//
// Namespaces do not apply to cluster-scoped kinds, which are cached as a whole. An informer that never had a
// namespace makes no requests, so it caches nothing, even for such a kind. If the informer is not running,
// the change takes effect in the next run. SetNamespaces may be called from anywhere, including handlers and
// hooks.
func (i *Informer[T]) SetNamespaces(namespaces []string) error {
	return i.core.SetNamespaces(namespaces)
}

// Source returns the source's description at the time of New, except that Kept lists the fields kept in
// cached objects and Altered reports whether the objects went through a transform.
func (i *Informer[T]) Source() source.Description { return i.core.Source() }

// Selects reports whether o, as it is on the server, belongs in the cache, judging by its namespace, labels
// and name. Criteria that only the server can evaluate, such as selectors on other fields, are assumed to
// match. Call it before waiting for a write to reach the cache: an object that is not selected will never
// arrive.
func (i *Informer[T]) Selects(o T) bool { return i.core.Selects(o) }

// Decides reports whether Selects can evaluate all of the informer's selectors, so that an object it selects will
// arrive.
func (i *Informer[T]) Decides() bool { return i.core.Decides() }

// Watches reports whether the informer watches a namespace. Cluster-scoped objects have an empty namespace, which is
// watched unless the informer has no namespaces. If it returns false, an object that is not in the cache may still exist.
func (i *Informer[T]) Watches(namespace string) bool { return i.core.Watches(namespace) }

// Scope returns Options.Shard.
func (i *Informer[T]) Scope() shard.Scope { return i.core.Scope() }

// Holds reports whether the cache is complete for a hash's slot (Options.Shard): this process owns the slot,
// and the cache has a list that was started after the process gained it. The cache is then at least as new as
// the previous owner's last write (S04). Handlers may not have received the objects yet. For an informer
// without a shard, Holds returns HasSynced.
func (i *Informer[T]) Holds(hash uint64) bool { return i.core.Holds(hash) }

// HoldsIn is like [Informer.Holds] for a slot's objects in one namespace, even if other namespaces' lists are missing.
// An empty namespace means all namespaces.
func (i *Informer[T]) HoldsIn(hash uint64, namespace string) bool {
	return i.core.HoldsIn(hash, namespace)
}

// View is an informer for code that does not know the object type, such as a page showing all of a process's
// informers. Its methods are safe for concurrent use and may be called at any time. Their results must not be
// modified.
type View interface {
	// Name returns the name of the resource used in messages.
	Name() string

	// Status returns the state of the informer.
	Status() Status

	// Heads returns a reader for the cache and its indexes.
	Heads() indexer.Reader[object.Head]

	// Object returns the object behind a head returned by Heads. It fails as Informer.Open does.
	Object(head object.Head) (object.Object, error)
}

// View returns the informer with its type erased.
func (i *Informer[T]) View() View { return i.core }
