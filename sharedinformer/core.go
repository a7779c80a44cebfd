package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
)

// core implements Informer for objects of any type, whole or packed. For its behaviour, see the methods of
// Informer.
type core struct {
	queue     *deltafifo.DeltaFIFO
	cache     *indexer.Indexer
	log       *eventLog
	logger    *slog.Logger
	onError   func(context.Context, *failure.Failure) failure.Verdict
	patience  time.Duration
	mutations *mutationDetector        // nil if off
	goType    reflect.Type             // object type: a pointer or an interface
	objects   *Informer[object.Object] // see Objects
	packing   *packing                 // nil if the cache holds whole objects
	flight    *flight.Recorder
	track     *flight.Track
	snapshots *snapshots         // nil if off
	from      source.Description // as of newCore
	labels    labels.Selector    // nil for everything
	fields    fields.Selector
	feeds     feeds
	ownership *sharding.Ownership // nil if the informer covers all objects

	changed       broadcaster // wakes callers that are waiting for a change
	synced        atomic.Bool
	stopped       atomic.Bool                     // Run has returned and has not been called again
	failure       atomic.Pointer[failure.Failure] // last failure of an index or the cache
	broken        atomic.Pointer[failure.Failure] // the reason it cannot run again
	last          atomic.Pointer[failure.Failure] // the failure that ended the last run; nil if its context was canceled
	unconfirmed   atomic.Int32                    // feeds of a synced cache that are still waiting for the server's first response in this run
	reports       reportLimiters                  // rate-limits failure reports for index functions
	applying      atomic.Pointer[batchInProgress] // the batch being applied; nil if none is
	batches       atomic.Uint64                   // incremented when a batch starts and when it ends: odd while one is being applied
	resyncChanged chan struct{}                   // holds a token if the resync loop must recheck
	syncing       atomic.Bool                     // a Sync is queued

	tombstones tombstones                  // guarded by join
	join       sync.Mutex                  // makes cache changes and the corresponding log entries atomic
	handlers   atomic.Pointer[[]*delivery] // replaced under mu; to add a handler, under join too

	mu      sync.Mutex // guards current and its ending flag, the fields of feeds, and each delivery's nextResync
	current *run       // nil while not running
}

// run is one call to Run.
type run struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  time.Time
	feeds  sync.WaitGroup                  // feeds that fill the queue
	tasks  sync.WaitGroup                  // all other goroutines in this run
	ending bool                            // no more goroutines are started, but some are still running
	stop   atomic.Pointer[failure.Failure] // the failure that ended the run: OnError returned Stop, or the cache broke
}

// fail ends the run. It keeps only the first failure.
func (r *run) fail(err error) {
	if f, ok := errors.AsType[*failure.Failure](err); ok {
		r.stop.CompareAndSwap(nil, f)
	}
	r.cancel(err)
}

// Errors returned by an informer's Wait methods.
var (
	// ErrStopped is wrapped by the errors from Wait methods once Run has returned.
	ErrStopped = errors.New("the informer has stopped")
	// ErrNotSynced is wrapped by the errors from Wait methods that give up before the cache has the initial
	// state, or before a handler has received it, for example because the handler is blocked.
	ErrNotSynced = errors.New("not synced")
	// ErrNotWatched is returned when the informer does not watch the namespace.
	ErrNotWatched = errors.New("the informer does not watch the namespace: add it with SetNamespaces, or read from the server")
)

// newCore returns a *core for objects of goType. The caller must run it.
func newCore(from source.ListerWatcher, opts Options, goType reflect.Type) informerCore {
	described := source.Describe(from)
	i := &core{
		goType:        goType,
		queue:         deltafifo.New(deltafifo.Options{Compact: opts.Compact}),
		log:           newLog(),
		logger:        opts.Logger,
		onError:       opts.OnError,
		patience:      opts.SyncPatience,
		resyncChanged: make(chan struct{}, 1),
		from:          described,
		labels:        opts.LabelSelector,
		fields:        opts.FieldSelector,
	}
	i.objects = &Informer[object.Object]{core: i}
	i.handlers.Store(new([]*delivery))
	if i.logger == nil {
		i.logger = slog.New(slog.DiscardHandler)
	}
	if i.patience == 0 {
		i.patience = time.Minute
	}
	i.cache = indexer.New()
	i.flight = opts.Flight.Or()
	onState := opts.OnState
	opts.OnState = func(s reflector.Status) {
		i.changed.broadcast()
		i.recordState(s)
		i.feeds.retryUnserved(s)
		if onState != nil {
			onState(s)
		}
	}
	i.feeds.source, i.feeds.opts = from, opts.reflector()
	i.feeds.opts.Type, i.feeds.opts.Known = goType, i.cache.Peek // Peek never blocks on the cache
	if opts.Store == Packed {
		i.packing = newPacking(described.Pool, opts.Annotations)
		i.packing.packer.OnDamage(i.objectDamaged)
		i.feeds.opts.Packer = i.packing.packer
	}
	i.followShard(opts.Shard)
	i.feeds.allNamespaces = reflector.New(from, i.queue, i.feeds.opts)
	i.feeds.wanted = NamespaceSet(opts.Namespaces)
	each := i.newFeeds(i.feeds.wanted, false)
	i.feeds.current.Store(&each)
	i.track = i.flight.Track(flight.Label{Role: flight.Informer, Name: i.Name()})
	if len(each) == 0 { // no more lists will arrive that could sync the informer
		i.feeds.trims = 1
		i.queue.Add(deltafifo.Delta{Type: deltafifo.Trim})
	}
	i.snapshots = newSnapshots(i, opts)
	if opts.DetectMutations > 0 {
		i.detectMutations(opts.DetectMutations, described.Pool)
	}
	return i
}

// equal reports whether two cache entries have the same content.
func (i *core) equal(a, b object.Head) bool {
	if i.packing != nil {
		return i.packing.packer.Equal(packedOf(a), packedOf(b))
	}
	return reflect.DeepEqual(a, b)
}

func (i *core) Name() string { return i.feeds.name() }

func (i *core) HasSynced() bool { return i.synced.Load() }

func (i *core) Reconnect(why error, namespaces ...string) {
	feeds := i.feeds.all()
	for _, f := range feeds {
		if len(namespaces) == 0 || slices.ContainsFunc(namespaces, func(n string) bool { return feedCovering(feeds, n) == f }) {
			f.reflector.Reconnect(why)
		}
	}
}

func (i *core) Run(ctx context.Context) error {
	r, err := i.beginRun(ctx)
	if err != nil {
		return err
	}
	return i.runUntilDone(r)
}

func (i *core) Start(ctx context.Context) (wait func() error, err error) {
	r, err := i.beginRun(ctx)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- i.runUntilDone(r) }()
	return sync.OnceValue(func() error { return <-ended }), nil
}

// runUntilDone runs r to its end.
func (i *core) runUntilDone(r *run) error {
	feeding, fed := context.WithCancel(context.WithoutCancel(r.ctx))
	r.tasks.Add(1)
	context.AfterFunc(r.ctx, func() {
		defer r.tasks.Done()
		i.mu.Lock()
		r.ending = true
		i.mu.Unlock()
		r.feeds.Wait()
		fed()
	})
	over, looked := make(chan struct{}), make(chan struct{})
	go func() { defer close(looked); i.resync(r.ctx, over) }()
	if i.ownership != nil {
		r.tasks.Go(func() { i.ownership.Follow(r.ctx) })
	}
	if i.mutations != nil {
		r.tasks.Go(func() { i.mutations.run(r.ctx) })
	}
	processed := make(chan struct{})
	go func() { defer close(processed); i.process(feeding, r) }()
	if i.snapshots != nil && !i.snapshots.disabled() {
		defer i.snapshots.directory.Use()()
		r.tasks.Go(func() { i.snapshots.run(r.ctx) })
	}
	<-processed
	r.tasks.Wait()
	close(over)
	<-looked
	if i.snapshots != nil {
		i.snapshots.saveLast(r.ctx)
	}
	r.cancel(nil)
	i.last.Store(r.stop.Load())
	i.mu.Lock()
	i.current = nil
	i.stopped.Store(true)
	i.mu.Unlock()
	i.changed.broadcast()
	if stop := r.stop.Load(); stop != nil {
		return stop
	}
	return nil
}

// beginRun claims the informer for one run and starts its handlers.
func (i *core) beginRun(ctx context.Context) (*run, error) {
	name, invalid := i.Name(), i.feeds.invalid() // calls the source, so hold no locks
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current != nil {
		return nil, fmt.Errorf("%s: %w", name, reflector.ErrRunning)
	}
	if f := i.broken.Load(); f != nil {
		return nil, f
	}
	if invalid != nil {
		return nil, invalid
	}
	r := &run{began: time.Now()}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	i.current = r
	i.stopped.Store(false)
	for _, h := range *i.handlers.Load() {
		r.tasks.Go(func() { h.run(r.ctx) })
	}
	feeds := i.feeds.all()
	i.unconfirmed.Store(0)
	for _, f := range feeds {
		again := f.listed.Load()
		if f.unconfirmed.Store(again); again {
			i.unconfirmed.Add(1)
		}
	}
	for _, f := range feeds {
		i.startFeed(r, f)
	}
	return r, nil
}

func (i *core) cached() *indexer.Indexer { return i.cache }

func (i *core) packed() bool { return i.packing != nil }

func (i *core) asObjects() any { return i.objects }

// broadcaster wakes all waiters after a change. Broadcasting without waiters costs almost nothing.
type broadcaster struct {
	mu      sync.Mutex // guards waiting; never held while calling other code
	waiting chan struct{}
}

// next returns a channel that is closed by the next broadcast. To avoid missing a broadcast, call next before
// checking the condition.
func (b *broadcaster) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}

func (b *broadcaster) broadcast() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}

// runBegan returns the start time of the current run, or zero if the informer is not running. Failures before
// that time belong to an earlier run; they remain visible until the reflector starts.
func (i *core) runBegan() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current == nil {
		return time.Time{}
	}
	return i.current.began
}

// startDelivery starts a goroutine for d. The caller must hold mu.
func (i *core) startDelivery(d *delivery) {
	if current := i.current; current != nil && !current.ending {
		current.tasks.Go(func() { d.run(current.ctx) })
	}
}

// restartDelivery starts a new goroutine for d after its handler has exited the previous one.
func (i *core) restartDelivery(d *delivery) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.startDelivery(d)
}
