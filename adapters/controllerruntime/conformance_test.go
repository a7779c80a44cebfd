package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/millrace-dev/millrace/test/conformance"
)

// TestConformanceOfControllerRuntime checks controller-runtime's own cache with the same contract.
func TestConformanceOfControllerRuntime(t *testing.T) {
	if testing.Short() {
		t.Skip("tests code of others")
	}
	conform(t, func(cfg *rest.Config) conformance.Stack {
		return cacheStack{stock, queues["controller-runtime"], cfg}
	}, knownOfControllerRuntime...)
}

func TestConformance(t *testing.T) {
	conform(t, func(cfg *rest.Config) conformance.Stack {
		return detecting{cacheStack{newCache, queues["millrace"], cfg}}
	}, knownHere...)
}

func TestConformanceOfPackedCaches(t *testing.T) {
	conform(t, func(cfg *rest.Config) conformance.Stack {
		return detecting{cacheStack{packedCache, queues["millrace"], cfg}}
	}, knownHere...)
}

// conform checks the informers of a cache against the contract. A panicking handler does not end
// the process.
func conform(t *testing.T, stack func(*rest.Config) conformance.Stack, known ...conformance.Known) {
	log.SetLogger(logr.Discard())
	crash, panics, failures := utilruntime.ReallyCrash, utilruntime.PanicHandlers, utilruntime.ErrorHandlers
	defer func() {
		utilruntime.ReallyCrash, utilruntime.PanicHandlers, utilruntime.ErrorHandlers = crash, panics, failures
	}()
	utilruntime.ReallyCrash = false
	t.Setenv(detector, "false")
	conformance.Informers(t, func(server conformance.Server) conformance.Stack {
		return stack(&rest.Config{Host: server.URL, Dial: server.Dial, QPS: -1})
	}, known...)
}

// cacheStack makes caches, and informers of them.
type cacheStack struct {
	side     side
	newQueue func(first, last time.Duration) queue
	cfg      *rest.Config
}

func (s cacheStack) NewInformer(opts conformance.Options) (conformance.Informer, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, err
	}
	report := opts.OnError
	if report == nil {
		report = func(error) {}
	}
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, v any) { report(fmt.Errorf("panic: %v", v)) }}
	period := time.Second
	o := cache.Options{
		SyncPeriod: &period, DefaultLabelSelector: selector,
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) { report(err) },
	}
	if opts.Transform != nil {
		o.DefaultTransform = func(o any) (any, error) { return opts.Transform(o.(*corev1.Pod)) }
	}
	if opts.Namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{opts.Namespace: {}}
	}
	c, err := s.side.newCache(s.cfg, o)
	if err != nil {
		return nil, err
	}
	if opts.Index != nil {
		err = c.IndexField(context.Background(), &corev1.Pod{}, "case", func(o client.Object) []string { return opts.Index(o.(*corev1.Pod)) })
	}
	i, also := c.GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	found := cached{c, i}
	if w, ok := c.(syncer); ok {
		return explained{found, w}, errors.Join(err, also)
	}
	return found, errors.Join(err, also)
}

// detector is the environment variable that enables a mutation detector: client-go's informers read
// it when the process starts, and those of this package when they run.
const detector = "KUBE_CACHE_MUTATION_DETECTOR"

// detecting is a stack of this package.
type detecting struct{ cacheStack }

func (detecting) Detects() {}

func (s detecting) NewInformer(opts conformance.Options) (conformance.Informer, error) {
	if err := os.Setenv(detector, fmt.Sprint(opts.DetectMutations)); err != nil {
		return nil, err
	}
	utilruntime.ErrorHandlers = nil
	if opts.DetectMutations {
		utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) { opts.OnError(err) }}
	}
	return s.cacheStack.NewInformer(opts)
}

// NewFactory returns a cache, which has one informer for each kind.
func (s cacheStack) NewFactory() (conformance.Factory, error) {
	c, err := s.side.newCache(s.cfg, cache.Options{})
	return &factory{cache: c}, err
}

// factory is a cache. It runs informers that are requested later.
type factory struct {
	cache cache.Cache
	once  sync.Once
	runs  sync.WaitGroup
}

func (f *factory) Informer() (conformance.Informer, error) {
	i, err := f.cache.GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	return cached{f.cache, i}, err
}

func (f *factory) Start(ctx context.Context) {
	f.once.Do(func() { f.runs.Go(func() { _ = f.cache.Start(ctx) }) })
}

func (f *factory) Wait() { f.runs.Wait() }

func (s cacheStack) NewQueue(first time.Duration) conformance.Queue {
	return workQueue{s.newQueue(first, time.Hour).(priorityqueue.PriorityQueue[string])}
}

// workQueue is a work queue.
type workQueue struct {
	priorityqueue.PriorityQueue[string]
}

func (q workQueue) Get() (string, bool) {
	key, end := q.PriorityQueue.Get()
	return key, !end
}

func (q workQueue) Drain() { q.ShutDownWithDrain() }

func (q workQueue) AddWithPriority(key string, priority int) {
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
}

// cached is an informer and its cache.
type cached struct {
	cache    cache.Cache
	informer cache.Informer
}

func (i cached) Run(ctx context.Context) error { return i.cache.Start(ctx) }

func (i cached) HasSynced() bool { return i.informer.HasSynced() }

// soon is a context for reads, which otherwise wait until the cache has synced.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Millisecond)
}

func (i cached) Get(key types.NamespacedName) (*corev1.Pod, bool) {
	ctx, cancel := soon()
	defer cancel()
	o := &corev1.Pod{}
	return o, i.cache.Get(ctx, key, o) == nil
}

func (i cached) List() []*corev1.Pod {
	all, _ := i.list()
	return all
}

func (i cached) ByIndex(value string) ([]*corev1.Pod, error) {
	return i.list(client.MatchingFields{"case": value})
}

func (i cached) list(opts ...client.ListOption) (all []*corev1.Pod, err error) {
	ctx, cancel := soon()
	defer cancel()
	var list corev1.PodList
	err = i.cache.List(ctx, &list, opts...)
	for n := range list.Items {
		all = append(all, &list.Items[n])
	}
	return all, err
}

func (i cached) AddHandler(h conformance.Handler) (conformance.Registration, error) {
	r, err := i.informer.AddEventHandlerWithResyncPeriod(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) { h.Add(o.(*corev1.Pod), initial) },
		UpdateFunc: func(old, o any) {
			// client-go's handlers recognize a resync this way.
			if before, after := old.(*corev1.Pod), o.(*corev1.Pod); before.ResourceVersion == after.ResourceVersion {
				h.Resync(after)
			} else {
				h.Update(before, after)
			}
		},
		DeleteFunc: func(o any) {
			unknown, ok := o.(toolscache.DeletedFinalStateUnknown)
			if ok {
				o = unknown.Obj
			}
			h.Delete(o.(*corev1.Pod), ok)
		},
	}, h.Every)
	return removable{r, i.informer}, err
}

// removable is a registration that knows its informer.
type removable struct {
	toolscache.ResourceEventHandlerRegistration
	informer cache.Informer
}

func (r removable) Remove() error {
	return r.informer.RemoveEventHandler(r.ResourceEventHandlerRegistration)
}

// syncer is a cache that reports why it has not synced, as Millrace's does.
type syncer interface {
	WaitForSync(ctx context.Context) error
}

// explained is an informer of such a cache.
type explained struct {
	cached
	syncer
}

// As in client-go, recovered panics go to utilruntime.PanicHandlers.
var knownHere = []conformance.Known{
	{Case: "L10/a panic is reported with the object", Says: "../adapters/clientgo/README.md#what-differs",
		Story: "utilruntime.PanicHandlers receive the panic value, as with client-go. The cache's Status and log name the object and the handler."},
}

// says returns lines of client-go's documentation of shared informers.
func says(first, last int) string { return saysIn("tools/cache/shared_informer.go", first, last) }

// saysIn returns lines of a file of client-go.
func saysIn(file string, first, last int) string {
	return fmt.Sprintf("https://github.com/kubernetes/client-go/blob/v0.37.2/%s#L%d-L%d", file, first, last)
}

// saysItself returns lines of a file of controller-runtime.
func saysItself(file string, first, last int) string {
	return fmt.Sprintf("https://github.com/kubernetes-sigs/controller-runtime/blob/v0.25.2/%s#L%d-L%d", file, first, last)
}

// controller-runtime inherits what client-go's informers break, except for features that the cache
// does not offer.
var knownOfControllerRuntime = []conformance.Known{
	{Case: "L04/a recreated object is another one", Says: says(125, 134),
		Story: "After a missed deletion, an update leads from the old object to the new one."},
	{Case: "L10/a handler continues after a panic",
		Story: "With utilruntime.ReallyCrash off (by default a panic ends the process) the handler receives the next change, but never syncs."},
	{Case: "L10/a panic is reported with the object",
		Story: "utilruntime.PanicHandlers receive the panic value, but neither the object nor the handler."},
	{Case: "L11/resyncs do not accumulate for a slow handler", Says: says(136, 140),
		Story: "A handler slower than its resync period receives a change only after all resyncs that have accumulated before it."},
	{Case: "L15/an index function that panics loses no object", Sometimes: true,
		Story: "If the index function panics for an object, other objects in the same list are missing from the index."},
	{Case: "L16/a change of a cached object is reported with type, key and field", Says: saysIn("tools/cache/mutation_detector.go", 85, 88),
		Story: "The detector of its informers is enabled for a whole process at its start, and ends the process at the first change, so no case can test it. Reads from the cache return copies."},
	{Case: "L17/converges after repeated events",
		Story: "A deletion that the server repeats is reported again. (A real API server does not repeat events.)"},
	{Case: "L19/backs off from streams that break",
		Story: "A streaming list that ends after its first event and before its last is retried at once, thousands of times without a pause."},
	{Case: "L19/backs off from streams that end too early",
		Story: "As with streams that break."},
	{Case: "L20/an endless streaming list falls back to a list",
		Story: "A streaming list without an end runs until its timeout and is then requested again, forever."},
	{Case: "L20/an unanswered list is aborted",
		Story: "A list has no timeout of its own: rest.Config.Timeout is off by default, and applies to watches, too."},
	{Case: "L20/a silent watch is reopened",
		Story: "If the server fails to end a watch, the client does not notice. With HTTP/2, which the case does not use, pings detect a dead connection, but not a server or proxy that is alive and silent."},
	{Case: "L21/unreadable input is not skipped", Says: says(224, 226),
		Story: "It is requested again, but the watch error handler is not called: a broken frame ends the watch, not ListAndWatch."},
	{Case: "L21/a failing transform is reported and loses nothing",
		Story: "The object is missing until it changes again, and the watch error handler is not called."},
	{Case: "L22/a watch that breaks is reported", Says: says(224, 226),
		Story: "The watch error handler is called for failed lists and refused watches, not for watches that break."},
	{Case: "L23/a stop ends the wait for a server that is down",
		Story: "Start returns when the back-off of the streaming list is over, which may be half a minute later."},
	{Case: "L28/a drain returns when queued and running work is done", Says: saysItself("pkg/controller/priorityqueue/priorityqueue.go", 505, 506),
		Story: "ShutDownWithDrain of the priority queue is the same as ShutDown: queued keys are dropped, and it does not wait for running work."},
	{Case: "L30/no key starves behind more urgent ones", Says: saysItself("designs/priorityqueue.md", 55, 58),
		Story: "A key waits while there are more urgent ones."},
}
