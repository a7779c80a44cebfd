package clientgo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/klog/v2"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
)

// NewInformer is like cache.NewSharedIndexInformer, but returns a Millrace informer. The example may be
// nil, a typed object, *unstructured.Unstructured, *metav1.PartialObjectMetadata, or a typed nil
// pointer.
//
// Since client-go decodes the objects from lw, they do not share equal values; see
// [NewSharedInformerFactoryForConfig].
func NewInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers})
}

// NewInformerWithOptions is like cache.NewSharedIndexInformerWithOptions, but returns a Millrace
// informer. Identifier and InformerMetricsProvider have no effect: package metrics exports Millrace
// informers.
func NewInformerWithOptions(lw cache.ListerWatcher, example runtime.Object, opts cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	name := opts.ObjectDescription
	if name == "" {
		name = describe(example)
	}
	fake := watchlist.DoesClientNotSupportWatchListSemantics(lw)
	objects := newSource(lw, example, name)
	i := newInformer(name, opts.ResyncPeriod, opts.Indexers)
	if example != nil {
		i.holds = fmt.Sprintf("%T", example)
	}
	i.lists = fake
	i.stall = decodedListTime
	i.reflector = cache.NewReflectorWithOptions(lw, example, i.store, cache.ReflectorOptions{Name: name, TypeDescription: name})
	i.open = func(transform transform) source.ListerWatcher {
		var s source.ListerWatcher = objects
		if transform != nil {
			s = transform(s)
		}
		return &numbering{ListerWatcher: s, fake: fake}
	}
	return i
}

// describe returns the name of example's type.
func describe(example runtime.Object) string {
	if example == nil {
		return "objects"
	}
	if reflect.ValueOf(example).IsZero() { // a typed nil only conveys the type
		return fmt.Sprintf("%T", example)
	}
	if kind := example.GetObjectKind().GroupVersionKind(); !kind.Empty() {
		return kind.String()
	}
	return fmt.Sprintf("%T", example)
}

// decodedListTime is the time limit for a list that arrives all at once.
const decodedListTime = 10 * time.Minute

// transform wraps a source and applies a cache.TransformFunc to its objects.
type transform = func(source.ListerWatcher) source.ListerWatcher

// informer is a Millrace informer behind client-go's interface. It collects settings until Run creates the
// Millrace informer from them.
type informer struct {
	name      string
	holds     string // the Go type of the objects; empty if unknown
	open      func(transform) source.ListerWatcher
	lists     bool // the source cannot stream lists
	caches    sharedinformer.Store
	snapshots *snapshot.Directory
	shard     shard.Scope      // the objects that this process holds
	stall     time.Duration    // how long a list may go without data; 0 means the default
	reflector *cache.Reflector // never run; only passed to watch error handlers
	resync    time.Duration    // default for handlers
	store     *store
	synced    *done
	stopped   *done // set under mu

	running atomic.Pointer[sharedinformer.Informer[object.Object]] // nil before Run, which sets it under mu; retained after it

	mu           sync.Mutex // guards the fields below; not held during calls that may block
	check        time.Duration
	transform    cache.TransformFunc
	onWatchError cache.WatchErrorHandlerWithContext // does not change after Run, which reads it without mu
	handlers     map[*registration]struct{}
	order        []*registration // handlers added before Run, in order
	refused      error           // why Run failed; nil if it has not
	leaving      sync.WaitGroup  // removed handlers whose last call is still in progress
}

func newInformer(name string, resync time.Duration, indexers cache.Indexers) *informer {
	return &informer{
		name: name, resync: resync, check: resync,
		store: newStore(indexers), synced: newDone("SharedIndexInformer " + name), stopped: newDone("end of " + name),
		onWatchError: cache.DefaultWatchErrorHandler,
		handlers:     make(map[*registration]struct{}),
	}
}

// errStarted is returned when a setting is changed after Run. Like the error for a stopped informer,
// it borrows wording from client-go that existing tests look for.
var errStarted = errors.New("informer has already started: set this before Run")

// Run is like RunWithContext, but runs until stop is closed.
func (i *informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext updates the store and calls the handlers until ctx is done. By the time it returns, all its
// goroutines have exited (L23). It runs once.
func (i *informer) RunWithContext(ctx context.Context) {
	running, err := i.begin()
	if err != nil {
		klog.FromContext(ctx).Info("Run was called again and does nothing: an informer runs once", "informer", i.name)
		return
	}
	i.store.show(running)
	waiting, cancel := context.WithCancel(ctx)
	var waits sync.WaitGroup
	waits.Go(func() {
		if running.WaitUntil(waiting, running.HasSynced) == nil {
			i.synced.happened()
		}
	})
	if err := running.Run(ctx); err != nil {
		i.refuse(err)
		utilruntime.HandleErrorWithContext(ctx, err, "The informer ended", "informer", i.name)
	}
	cancel()
	waits.Wait()
	i.end()
	i.leaving.Wait()
}

// refuse records why the informer cannot run, for callers waiting for it.
func (i *informer) refuse(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refused = err
}

// begin creates the Millrace informer from the current settings. As in client-go, the environment
// variable KUBE_CACHE_MUTATION_DETECTOR enables the mutation detector. Unlike client-go, which
// panics, the informer reports a mutation as a failure.
func (i *informer) begin() (*sharedinformer.Informer[object.Object], error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.inner() != nil {
		return nil, errStarted
	}
	opts := sharedinformer.Options{SyncPatience: -1, Store: i.caches, Snapshot: i.snapshots, Shard: i.shard}
	opts.Name, opts.Timing.StallTimeout, opts.OnError = i.name, i.stall, i.failed
	if on, _ := strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR")); on {
		opts.DetectMutations = time.Second
	}
	if i.lists || !features.FeatureGates().Enabled(features.WatchListClient) {
		opts.Initial = reflector.List
	}
	running := sharedinformer.New[object.Object](i.open(i.transforming()), opts)
	i.running.Store(running)
	for _, r := range i.order {
		if _, wanted := i.handlers[r]; wanted {
			r.inner = i.join(running, r)
		}
	}
	i.order = nil
	return running, nil
}

// end releases the handlers. They cannot be removed afterwards.
func (i *informer) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped.happened()
	for r := range i.handlers {
		r.finished()
	}
	clear(i.handlers)
}

// failed passes failures to list or watch to the watch error handler, and all others to
// utilruntime.ErrorHandlers.
//
// If the watch error handler panics, the panic is passed to utilruntime.PanicHandlers and the informer
// continues.
func (i *informer) failed(ctx context.Context, f *failure.Failure) failure.Verdict {
	defer utilruntime.HandleCrashWithContext(ctx)
	switch f.Phase {
	case failure.PhaseHandler, failure.PhaseIndex, failure.PhaseCache, failure.PhaseSnapshot, failure.PhaseHook:
		utilruntime.HandleErrorWithContext(ctx, f, "Informer failure")
	default:
		err := f.Err
		if f.Phase == failure.PhaseWatch && errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.ErrUnexpectedEOF // handlers are compared with ==, as in client-go
		}
		i.onWatchError(ctx, i.reflector, err)
	}
	return failure.Retry
}

// transforming returns the transform for a source, or nil if there is none.
func (i *informer) transforming() transform {
	if i.transform == nil {
		return nil
	}
	apply := i.transform
	wrapped := func(o object.Object) (object.Object, error) {
		out, err := apply(o)
		if err != nil || out == nil {
			return nil, err
		}
		transformed, ok := out.(object.Object)
		if !ok {
			return nil, fmt.Errorf("the transform returned a %T, which is no runtime.Object with metadata", out)
		}
		return transformed, nil
	}
	return func(from source.ListerWatcher) source.ListerWatcher {
		return reflector.TransformedBy(from, wrapped, apply)
	}
}

// GetStore implements cache.SharedInformer.
func (i *informer) GetStore() cache.Store { return i.store }

// GetIndexer implements cache.SharedIndexInformer.
func (i *informer) GetIndexer() cache.Indexer { return i.store }

// AddIndexers adds indexes. It may be called at any time until the informer stops.
func (i *informer) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return fmt.Errorf("indexer was not added to the informer of %s: it has stopped already", i.name)
	}
	return i.store.AddIndexers(indexers)
}

// HasSynced reports whether the store contains a complete list.
func (i *informer) HasSynced() bool { return i.synced.has() }

// HasSyncedChecker is like HasSynced, but returns a cache.DoneChecker.
func (i *informer) HasSyncedChecker() cache.DoneChecker { return i.synced }

// LastSyncResourceVersion returns the version up to which the store is complete.
func (i *informer) LastSyncResourceVersion() string {
	if running := i.inner(); running != nil {
		return running.Cache().RV()
	}
	return ""
}

// SetWatchErrorHandler implements cache.SharedInformer.
func (i *informer) SetWatchErrorHandler(h cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { h(r, err) })
}

// SetWatchErrorHandlerWithContext sets the handler for failures to list, watch, decode and transform;
// nil means cache.DefaultWatchErrorHandler. The reflector passed to the handler is never run.
// SetWatchErrorHandlerWithContext returns an error once the informer runs.
func (i *informer) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	if h == nil {
		h = cache.DefaultWatchErrorHandler
	}
	return i.configure(func() { i.onWatchError = h })
}

// SetTransform sets the function that modifies objects before they are stored. The function may return
// an object of a different type, provided that it is a runtime.Object, but must not change its key. It is not called
// with tombstones.
// SetTransform returns an error once the informer runs.
func (i *informer) SetTransform(t cache.TransformFunc) error {
	return i.configure(func() { i.transform = t })
}

func (i *informer) configure(set func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.inner() != nil {
		return errStarted
	}
	set()
	return nil
}

// IsStopped reports whether Run has returned.
func (i *informer) IsStopped() bool { return i.stopped.has() }

// GetController returns a controller that is only useful for HasSynced and LastSyncResourceVersion;
// its Run does nothing.
func (i *informer) GetController() cache.Controller { return controller{i} }

// inner returns the Millrace informer, or nil before Run.
func (i *informer) inner() *sharedinformer.Informer[object.Object] { return i.running.Load() }

// status returns the Millrace informer's status, or a preliminary one before Run.
func (i *informer) status() sharedinformer.Status {
	if running := i.inner(); running != nil {
		s := running.Status()
		s.Type = i.holds
		return s
	}
	return sharedinformer.Status{
		Type:      i.holds,
		Reflector: reflector.Status{Resource: i.name, State: reflector.Idle},
		Objects:   len(i.store.ListKeys()),
	}
}

// unsynced returns an error explaining why the informer had not synced when ctx was done (L22).
func (i *informer) unsynced(ctx context.Context) error {
	i.mu.Lock()
	running, refused := i.inner(), i.refused
	i.mu.Unlock()
	switch {
	case refused != nil:
		return fmt.Errorf("%w: %w", sharedinformer.ErrNotSynced, refused)
	case running == nil:
		return fmt.Errorf("%w: %s: Run has not been called: %w", sharedinformer.ErrNotSynced, i.name, context.Cause(ctx))
	}
	return running.WaitUntil(ctx, running.HasSynced)
}

// controller is a cache.Controller with nothing to run.
type controller struct{ *informer }

// Run does nothing: the informer's owner runs it.
func (controller) Run(<-chan struct{}) {}

// RunWithContext does nothing.
func (controller) RunWithContext(context.Context) {}
