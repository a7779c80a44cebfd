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

// NewInformer is cache.NewSharedIndexInformer with a Millrace informer inside.
// The example may be nil, typed, *unstructured.Unstructured or
// *metav1.PartialObjectMetadata, and a nil pointer of a type.
//
// What lw brings is decoded by client-go, so that nothing is shared between
// objects; see NewSharedInformerFactoryForConfig.
func NewInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers})
}

// NewInformerWithOptions is cache.NewSharedIndexInformerWithOptions with a
// Millrace informer inside. Identifier and InformerMetricsProvider have no
// effect: package metrics exports a Millrace informer.
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

// describe names the type of an example.
func describe(example runtime.Object) string {
	if example == nil {
		return "objects"
	}
	if reflect.ValueOf(example).IsZero() { // a typed nil says its type alone
		return fmt.Sprintf("%T", example)
	}
	if kind := example.GetObjectKind().GroupVersionKind(); !kind.Empty() {
		return kind.String()
	}
	return fmt.Sprintf("%T", example)
}

// decodedListTime is how long a list may take that comes whole or not at all.
const decodedListTime = 10 * time.Minute

// transform makes a source of one whose objects go through a cache.TransformFunc.
type transform = func(source.ListerWatcher) source.ListerWatcher

// informer is a Millrace informer with the surface of client-go's. What has to
// be said before it runs is noted here; Run makes the informer from that.
type informer struct {
	name      string
	holds     string // the Go type of the objects; empty where it is not known
	open      func(transform) source.ListerWatcher
	lists     bool // the source cannot stream a list
	caches    sharedinformer.Store
	snapshots *snapshot.Directory
	shard     shard.Scope      // what of the objects this process has
	stall     time.Duration    // how long a list may be silent; 0 for the default
	reflector *cache.Reflector // never run: it is what handlers of watch errors are shown
	resync    time.Duration    // of handlers that do not say
	store     *store
	synced    *done
	stopped   *done // happens under mu

	mu           sync.Mutex // guards all below; nothing of the user's is called while it is held
	check        time.Duration
	transform    cache.TransformFunc
	onWatchError cache.WatchErrorHandlerWithContext
	handlers     map[*registration]struct{}
	order        []*registration                         // of those added before it ran
	running      *sharedinformer.Informer[object.Object] // nil before Run, kept after it
	refused      error                                   // why Run failed; nil if it did not
	leaving      sync.WaitGroup                          // removed handlers with a call in progress
}

func newInformer(name string, resync time.Duration, indexers cache.Indexers) *informer {
	return &informer{
		name: name, resync: resync, check: resync,
		store: newStore(indexers), synced: newDone("SharedIndexInformer " + name), stopped: newDone("end of " + name),
		onWatchError: cache.DefaultWatchErrorHandler,
		handlers:     make(map[*registration]struct{}),
	}
}

// errStarted is what cannot be done any more. Tests of programs look for some of the
// words that client-go says, here and where an informer has stopped.
var errStarted = errors.New("informer has already started: set this before Run")

// Run is RunWithContext until stop is closed.
func (i *informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext keeps the store in step and the handlers informed until ctx is
// done. When it returns, every goroutine that it started has ended (L23). It
// runs once.
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

// refuse notes why the informer does not run, for those who wait for it.
func (i *informer) refuse(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refused = err
}

// begin makes the informer of what has been said so far. The environment
// variable KUBE_CACHE_MUTATION_DETECTOR turns the mutation detector on, as in
// client-go, which then panics; here it is a failure that is reported.
func (i *informer) begin() (*sharedinformer.Informer[object.Object], error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running != nil {
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
	i.running = sharedinformer.New[object.Object](i.open(i.transforming()), opts)
	for _, r := range i.order {
		i.join(r)
	}
	i.order = nil
	return i.running, nil
}

// end lets the handlers go. No other leaves from then on.
func (i *informer) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped.happened()
	for r := range i.handlers {
		r.finished()
	}
	clear(i.handlers)
}

// failed passes on what went wrong: to the handler of watch errors if it is
// about listing and watching, and to utilruntime.ErrorHandlers otherwise.
//
// A panic of the former is told to utilruntime.PanicHandlers, and the informer goes on.
func (i *informer) failed(ctx context.Context, f *failure.Failure) failure.Verdict {
	defer utilruntime.HandleCrashWithContext(ctx)
	switch f.Phase {
	case failure.PhaseHandler, failure.PhaseIndex, failure.PhaseCache, failure.PhaseSnapshot, failure.PhaseHook:
		utilruntime.HandleErrorWithContext(ctx, f, "Informer failure")
	default:
		i.mu.Lock()
		hear := i.onWatchError
		i.mu.Unlock()
		err := f.Err
		if f.Phase == failure.PhaseWatch && errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.ErrUnexpectedEOF // which handlers know by comparison, as client-go's own does
		}
		hear(ctx, i.reflector, err)
	}
	return failure.Retry
}

// transforming is the transform in Millrace's terms, nil if there is none.
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
			return nil, fmt.Errorf("the transform returned a %T, which has no metadata", out)
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

// AddIndexers adds indexes at any time before the informer has stopped.
func (i *informer) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return fmt.Errorf("indexer was not added to the informer of %s: it has stopped already", i.name)
	}
	return i.store.AddIndexers(indexers)
}

// HasSynced reports whether a whole list is in the store.
func (i *informer) HasSynced() bool { return i.synced.has() }

// HasSyncedChecker is HasSynced as something to wait for.
func (i *informer) HasSyncedChecker() cache.DoneChecker { return i.synced }

// LastSyncResourceVersion is the version up to which the informer has heard
// everything.
func (i *informer) LastSyncResourceVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running == nil {
		return ""
	}
	return i.running.Cache().RV()
}

// SetWatchErrorHandler implements cache.SharedInformer.
func (i *informer) SetWatchErrorHandler(h cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { h(r, err) })
}

// SetWatchErrorHandlerWithContext sets who hears of failures to list, watch,
// decode and transform; nil stands for cache.DefaultWatchErrorHandler. The
// reflector that it is shown does not run. It fails once the informer runs.
func (i *informer) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	if h == nil {
		h = cache.DefaultWatchErrorHandler
	}
	return i.configure(func() { i.onWatchError = h })
}

// SetTransform sets what changes each object before it is stored. It may
// return an object of another type, but not another key. It is not shown
// tombstones. It fails once the informer runs.
func (i *informer) SetTransform(t cache.TransformFunc) error {
	return i.configure(func() { i.transform = t })
}

func (i *informer) configure(set func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running != nil {
		return errStarted
	}
	set()
	return nil
}

// IsStopped reports whether Run has returned.
func (i *informer) IsStopped() bool { return i.stopped.has() }

// GetController returns what client-go has it for: HasSynced and the version.
func (i *informer) GetController() cache.Controller { return controller{i} }

// inner is the Millrace informer, nil before Run.
func (i *informer) inner() *sharedinformer.Informer[object.Object] {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.running
}

// status is the Millrace informer's, or what there is to say before it runs.
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

// unsynced says why the informer had not synced when ctx was done (L22).
func (i *informer) unsynced(ctx context.Context) error {
	i.mu.Lock()
	running, refused := i.running, i.refused
	i.mu.Unlock()
	switch {
	case refused != nil:
		return fmt.Errorf("%w: %w", sharedinformer.ErrNotSynced, refused)
	case running == nil:
		return fmt.Errorf("%w: %s: Run has not been called: %w", sharedinformer.ErrNotSynced, i.name, context.Cause(ctx))
	}
	return running.WaitUntil(ctx, running.HasSynced)
}

// controller is the informer as a cache.Controller that runs nothing.
type controller struct{ *informer }

// Run does nothing: the informer is run by its owner.
func (controller) Run(<-chan struct{}) {}

// RunWithContext does nothing.
func (controller) RunWithContext(context.Context) {}
