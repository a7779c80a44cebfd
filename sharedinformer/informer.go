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

// Informer keeps a cache of one resource in step with the server and tells
// handlers of every change. Make it with New.
type Informer[T object.Object] struct {
	_    [0]*T // so that no informer converts to one of another type
	core informerCore
}

// informerCore is a *core. It is an interface so that a package that names an informer does not reach all
// that a core is made of, some of which it would compile again; so is Registration.of.
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
	Watches(namespace string) bool
	Selects(object.Head) bool
	Scope() shard.Scope
	Holds(hash uint64) bool
	Source() source.Description
	copy(object.Head) (object.Object, error)
}

// New returns an informer that is not running. It reports contradicting
// options in Status and from Run and WaitForSync. The source is asked
// to take back the objects that are cached, so that a relist decodes only what has
// changed (source.Request).
func New[T object.Object](from source.ListerWatcher, opts Options) *Informer[T] {
	if from == nil {
		panic(failure.Place(1) + ": the source of an informer is nil")
	}
	return &Informer[T]{core: newCore(from, opts, reflect.TypeFor[T]())}
}

// Objects returns the same informer as one whose objects may be of any type: the same pointer each
// time, and nil for nil. It is a function since a method would make each package that names an
// informer compile this one too.
func Objects[T object.Object](i *Informer[T]) *Informer[object.Object] {
	if i == nil {
		return nil
	}
	return i.core.asObjects().(*Informer[object.Object])
}

// ObjectsOf is [Objects] of an informer whose type is not known, by its View. It returns nil if v is
// not the view of an informer.
func ObjectsOf(v View) *Informer[object.Object] {
	core, ok := v.(informerCore)
	if !ok {
		return nil
	}
	return core.asObjects().(*Informer[object.Object])
}

// Informer returns i itself, so that a function can take an informer or a client that has one.
func (i *Informer[T]) Informer() *Informer[T] { return i }

// Name is what messages call the resource.
func (i *Informer[T]) Name() string { return i.core.Name() }

// Cache returns the read side of the cache. It may be read before, during and
// after Run.
func (i *Informer[T]) Cache() indexer.Reader[T] { return readerOf[T](i.core.cached(), i.core.packed()) }

// readerOf returns the read side of a cache of an informer.
func readerOf[T object.Object](cache *indexer.Indexer, packed bool) indexer.Reader[T] {
	if packed {
		return indexer.Opened[T](cache)
	}
	return indexer.ReaderOf[T](cache)
}

// Stale returns the read side of what the informer had in an earlier process, by its
// snapshot, until it is synced: it may be wrong in everything, and the server may be another
// one. From then on it returns the cache, also while SetNamespaces takes effect. It is for
// those who had rather see something old than nothing; ask again for what is newer. Without
// a snapshot it is empty at first.
func (i *Informer[T]) Stale() indexer.Reader[T] { return readerOf[T](i.core.stale(), i.core.packed()) }

// Index finds cached objects by the values that a function draws from them; see [AddIndex].
type Index[T object.Object, V comparable] = indexer.Index[T, V]

// AddIndex adds a typed index to the informer's cache; the informer may be running.
// The function must depend on nothing but the object, and return soon. The name
// appears in messages; two indexes may have the same. Index.Remove takes it away.
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

// Run keeps the cache in step and the handlers informed until ctx is done, and
// then returns nil, or until an error handler says Stop, and then returns the
// *failure.Failure. When it returns, every goroutine that it started has
// ended (L23). It may be called again: cache and handlers go on from where
// they were (L24). While it runs, another call fails with reflector.ErrRunning.
func (i *Informer[T]) Run(ctx context.Context) error { return i.core.Run(ctx) }

// Start is Run in a goroutine of its own, which wait waits for. What it adds is
// that the informer is running when Start returns: a caller that waits for its
// sync from then on does not find it stopped by the run before.
func (i *Informer[T]) Start(ctx context.Context) (wait func() error, err error) {
	return i.core.Start(ctx)
}

// AddHandler lets h hear of every change, from the objects that are cached now
// on: each of them comes first as an Add, marked as initial (L06). It may be
// called before, during and after Run. It panics where h is nil.
func (i *Informer[T]) AddHandler(h Handler[T]) *Registration {
	return i.core.addHandler(untypedHandlerOf(h), HandlerOptions{Place: failure.Place(1)})
}

// AddHandlerWith is AddHandler with options.
func (i *Informer[T]) AddHandlerWith(h Handler[T], opts HandlerOptions) *Registration {
	opts.Place = cmp.Or(opts.Place, failure.Place(1))
	return i.core.addHandler(untypedHandlerOf(h), opts)
}

// Status returns the informer as it is now. The parts are read one after the
// other, so that they may differ by what happened meanwhile.
func (i *Informer[T]) Status() Status { return i.core.Status() }

// StatusIn returns the status of the reflector that lists and watches a namespace, and false if the informer
// does not watch that namespace. Unlike Status, it costs the same for any number of namespaces.
func (i *Informer[T]) StatusIn(namespace string) (s reflector.Status, watched bool) {
	return i.core.StatusIn(namespace)
}

// HasSynced reports whether a whole initial list is in the cache (L18). It stays true between two
// runs: WaitForSync waits for the server in each.
func (i *Informer[T]) HasSynced() bool { return i.core.HasSynced() }

// HasSyncedIn reports whether the initial list of a namespace is in the cache, although those of
// others may be missing. An empty namespace is all of them. One that the informer does not watch
// has nothing to wait for.
func (i *Informer[T]) HasSyncedIn(namespace string) bool { return i.core.HasSyncedIn(namespace) }

// HeldUp reports whether the informer would have synced but for namespaces whose lists fail, such as
// forbidden ones, and has at least one other namespace.
func (i *Informer[T]) HeldUp() bool { return i.core.HeldUp() }

// WaitForSync waits until the informer and every handler that it has when
// WaitForSync is called are synced, and until the server has accepted a watch or answered a list in
// this run (L24). It returns an error that wraps ErrNotSynced
// and says what is missing, in which state the reflector is and what failed
// last (L22):
//   - when ctx is done, with its cause;
//   - with ErrStopped when Run has returned;
//   - when what is missing has been failing for Options.SyncPatience, or a handler, or
//     OnError about one, has been in one call for that long.
//
// Before Run is called it waits for Run.
func (i *Informer[T]) WaitForSync(ctx context.Context) error { return i.core.WaitForSync(ctx) }

// WaitForRV waits until the cache holds every change up to rv, such as that of
// an object that was just written (L14). It fails with the cause of ctx, with
// ErrStopped as soon as Run has returned, and at once where rv is not a
// resource version, or the informer has no namespaces (ErrNotWatched). Where there is
// no initial list it gives up as WaitForSync does. The error says what failed last.
//
// If namespaces are given, it waits for the changes in those alone. If each namespace is
// watched on its own (Options.Namespaces), that is quicker: a quiet one may learn only from
// a bookmark, every minute or so, that it has missed nothing. For a namespace that the
// informer does not watch it fails with ErrNotWatched.
func (i *Informer[T]) WaitForRV(ctx context.Context, rv string, namespaces ...string) error {
	return i.core.WaitForRV(ctx, rv, namespaces...)
}

// WaitUntil waits until reached is true. It is asked at once and after every
// change of the cache, of the reflector's state and of what is synced, while no
// lock is held; it must be quick. Otherwise WaitUntil ends as WaitForRV does.
func (i *Informer[T]) WaitUntil(ctx context.Context, reached func() bool) error {
	return i.core.WaitUntil(ctx, reached)
}

// Reconnect ends each watch of the informer, because it is deaf, and opens it again from where it
// was: see reflector.Reflector.Reconnect. If namespaces are given, it does so with the watches that
// cover those. It returns at once, and may be called from anywhere.
func (i *Informer[T]) Reconnect(why error, namespaces ...string) {
	i.core.Reconnect(why, namespaces...)
}

// Unsynced says which initial lists are missing and why, or which servers have told nothing yet in this
// run. It returns nil if there is nothing that WaitForSync would wait for but handlers.
func (i *Informer[T]) Unsynced() error { return i.core.Unsynced() }

// Namespaces returns those that the informer was last given, sorted:
// metav1.NamespaceAll alone for all of them.
func (i *Informer[T]) Namespaces() []string { return i.core.Namespaces() }

// SetNamespaces changes the namespaces whose objects are wanted. Nil means all that
// the source has, as does metav1.NamespaceAll among others, and an empty slice means
// none. The informer may be running: SetNamespaces returns at once, and WaitForSync
// waits until the change has taken effect. It fails, and changes nothing, where the
// source cannot be narrowed to one of the namespaces.
//
// Handlers hear an Add, marked as initial, of each object of a namespace that
// came, and a Delete of each object of one that went. Such a Delete says that the
// object is not among the informer's any more, as it does where a selector no
// longer matches, and not that it is gone from the server; it carries the state
// that the cache had, and nothing about it is unknown. Objects of namespaces that
// stay are not touched. From the change until it has taken effect the informer is
// not synced, its handlers neither, and the cache has no RV (L13, L18); each
// namespace goes on having its own (indexer.Reader.NamespaceRV).
//
// For a kind without namespaces they mean nothing: it is cached whole. Only an informer
// that never had any namespace has nothing of it, since it asks nobody. On an informer
// that is not running the change takes effect when it runs again. It may
// be called from anywhere, handlers and hooks included.
func (i *Informer[T]) SetNamespaces(namespaces []string) error {
	return i.core.SetNamespaces(namespaces)
}

// Source returns the description of the source, as it was in New: Kept has the fields of the
// cached objects, and Altered says whether they have gone through a transform.
func (i *Informer[T]) Source() source.Description { return i.core.Source() }

// Selects reports whether the cache is to have o, as the server has it, by its
// namespace, its labels and its name. What only the server can judge, such as a
// selector of other fields, counts as selected. Ask it before you wait for a write to reach the
// cache: one that is not selected never does.
func (i *Informer[T]) Selects(o T) bool { return i.core.Selects(o) }

// Watches reports whether the cache is to have the objects of a namespace. Those
// of kinds without namespaces have an empty one, which is always watched. If it returns false, an
// object that the cache lacks may exist.
func (i *Informer[T]) Watches(namespace string) bool { return i.core.Watches(namespace) }

// Scope returns Options.Shard.
func (i *Informer[T]) Scope() shard.Scope { return i.core.Scope() }

// Holds reports whether the cache has what is in the slot of a hash (Options.Shard): the slot
// is this process's, and a list that began since then is in the cache. From then on the
// cache has nothing older than what the owner before wrote (S04). Handlers hear of the
// objects after that. Where the informer has all objects, Holds is HasSynced.
func (i *Informer[T]) Holds(hash uint64) bool { return i.core.Holds(hash) }

// View is an informer for those who need not know the type of its objects, such as what
// shows all informers of a process. Its methods may be called at any time, from any
// goroutine. What they return must not be changed.
type View interface {
	// Name is what messages call the resource.
	Name() string

	// Status is how it is doing.
	Status() Status

	// Heads is its cache; indexes are seen there too.
	Heads() indexer.Reader[object.Head]

	// Object returns the object of a head that Heads has given. It fails as Informer.Open
	// does.
	Object(head object.Head) (object.Object, error)
}

// View returns the informer as one whose objects are of any type.
func (i *Informer[T]) View() View { return i.core }
