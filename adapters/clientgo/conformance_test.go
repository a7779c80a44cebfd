package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/conformance"
)

// TestConformanceOfClientGo checks client-go itself with the same contract.
func TestConformanceOfClientGo(t *testing.T) {
	if testing.Short() {
		t.Skip("tests code of others")
	}
	conform(t, func(cfg *clientrest.Config) conformance.Stack {
		return queueing{factoryStack{cfg, func(opts ...option) (informers.SharedInformerFactory, error) {
			return informers.NewSharedInformerFactoryWithOptions(clientset(t, cfg), time.Second, stockOptions(opts)...), nil
		}}}
	}, knownOfClientGo...)
}

func TestConformance(t *testing.T) {
	conform(t, func(cfg *clientrest.Config) conformance.Stack {
		return detecting{factoryStack{cfg, func(opts ...option) (informers.SharedInformerFactory, error) {
			return clientgo.NewSharedInformerFactoryForConfig(cfg, time.Second, adaptedOptions(opts)...)
		}}}
	}, knownHere)
}

func TestConformanceOfPackedCaches(t *testing.T) {
	conform(t, func(cfg *clientrest.Config) conformance.Stack {
		return detecting{factoryStack{cfg, func(opts ...option) (informers.SharedInformerFactory, error) {
			return clientgo.NewSharedInformerFactoryForConfig(cfg, time.Second, append(adaptedOptions(opts), clientgo.WithStore(sharedinformer.Packed))...)
		}}}
	}, knownHere)
}

func TestConformanceOverAClientset(t *testing.T) {
	conform(t, func(cfg *clientrest.Config) conformance.Stack {
		return detecting{factoryStack{cfg, func(opts ...option) (informers.SharedInformerFactory, error) {
			return clientgo.NewSharedInformerFactory(clientset(t, cfg), time.Second, adaptedOptions(opts)...), nil
		}}}
	}, knownHere)
}

// option is an option that both factories have.
type option struct {
	namespace string
	tweak     func(*metav1.ListOptions)
}

func stockOptions(opts []option) (all []informers.SharedInformerOption) {
	for _, o := range opts {
		all = append(all, informers.WithNamespace(o.namespace), informers.WithTweakListOptions(o.tweak))
	}
	return all
}

func adaptedOptions(opts []option) (all []clientgo.Option) {
	for _, o := range opts {
		all = append(all, clientgo.WithNamespace(o.namespace), clientgo.WithTweakListOptions(o.tweak))
	}
	return all
}

// conform checks a stack against the contract. A panicking handler does not end the process.
func conform(t *testing.T, stack func(*clientrest.Config) conformance.Stack, known ...conformance.Known) {
	crash, panics, failures := utilruntime.ReallyCrash, utilruntime.PanicHandlers, utilruntime.ErrorHandlers
	defer func() {
		utilruntime.ReallyCrash, utilruntime.PanicHandlers, utilruntime.ErrorHandlers = crash, panics, failures
	}()
	utilruntime.ReallyCrash = false
	t.Setenv(detector, "false")
	conformance.Informers(t, func(s conformance.Server) conformance.Stack {
		return stack(&clientrest.Config{Host: s.URL, Dial: s.Dial, QPS: -1})
	}, known...)
}

// factoryStack creates informers with a SharedInformerFactory.
type factoryStack struct {
	cfg     *clientrest.Config
	factory func(...option) (informers.SharedInformerFactory, error)
}

func (s factoryStack) NewInformer(opts conformance.Options) (conformance.Informer, error) {
	f, err := s.factory(option{opts.Namespace, func(o *metav1.ListOptions) { o.LabelSelector = opts.LabelSelector }})
	if err != nil {
		return nil, err
	}
	i := f.Core().V1().Pods().Informer()
	report := opts.OnError
	if report == nil {
		report = func(error) {}
	}
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, v any) { report(fmt.Errorf("panic: %v", v)) }}
	err = i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { report(err) })
	if opts.Transform != nil {
		err = errors.Join(err, i.SetTransform(func(o any) (any, error) { return opts.Transform(o.(*corev1.Pod)) }))
	}
	if opts.Index != nil {
		err = errors.Join(err, i.AddIndexers(cache.Indexers{"case": func(o any) ([]string, error) { return opts.Index(o.(*corev1.Pod)), nil }}))
	}
	if _, ours := clientgo.Status(i); ours {
		return explained{conforming{i}}, err
	}
	return conforming{i}, err
}

// detector is the environment variable that enables a mutation detector: client-go's informers read
// it when the process starts, and those of this package when they run.
const detector = "KUBE_CACHE_MUTATION_DETECTOR"

// detecting is a stack of this package.
type detecting struct{ factoryStack }

func (detecting) Detects() {}

func (s detecting) NewInformer(opts conformance.Options) (conformance.Informer, error) {
	if err := os.Setenv(detector, fmt.Sprint(opts.DetectMutations)); err != nil {
		return nil, err
	}
	utilruntime.ErrorHandlers = nil
	if opts.DetectMutations {
		utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) { opts.OnError(err) }}
	}
	return s.factoryStack.NewInformer(opts)
}

// NewFactory returns a plain factory.
func (s factoryStack) NewFactory() (conformance.Factory, error) {
	f, err := s.factory()
	return shared{f}, err
}

// shared is a factory.
type shared struct {
	factory informers.SharedInformerFactory
}

func (s shared) Informer() (conformance.Informer, error) {
	return conforming{s.factory.Core().V1().Pods().Informer()}, nil
}

func (s shared) Start(ctx context.Context) { s.factory.StartWithContext(ctx) }

func (s shared) Wait() { s.factory.Shutdown() }

// queueing is client-go's stack, which has work queues.
type queueing struct{ factoryStack }

func (queueing) NewQueue(first time.Duration) conformance.Queue {
	return stockQueue{workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](first, time.Hour))}
}

// stockQueue is a work queue.
type stockQueue struct {
	workqueue.TypedRateLimitingInterface[string]
}

func (q stockQueue) Get() (string, bool) {
	key, end := q.TypedRateLimitingInterface.Get()
	return key, !end
}

func (q stockQueue) Drain() { q.ShutDownWithDrain() }

// explained is an informer of this package.
type explained struct{ conforming }

func (i explained) WaitForSync(ctx context.Context) error {
	return clientgo.WaitForSync(ctx, i.SharedIndexInformer)
}

func (i explained) AddHandler(h conformance.Handler) (conformance.Registration, error) {
	r, err := i.conforming.AddHandler(h)
	return lagging{r.(removable)}, err
}

// lagging is a registration at an informer of this package.
type lagging struct{ removable }

func (r lagging) Pending() (most int) {
	s, _ := clientgo.Status(r.informer.SharedIndexInformer)
	for _, h := range s.Handlers {
		most = max(most, h.Pending)
	}
	return most
}

// conforming is an informer behind client-go's interface.
type conforming struct{ cache.SharedIndexInformer }

func (i conforming) Run(ctx context.Context) error { i.RunWithContext(ctx); return nil }

func (i conforming) Get(key types.NamespacedName) (*corev1.Pod, bool) {
	o, ok, err := i.GetStore().GetByKey(cache.ObjectName(key).String())
	if !ok || err != nil {
		return nil, false
	}
	return o.(*corev1.Pod), true
}

func (i conforming) List() (all []*corev1.Pod) { return podsOf(i.GetStore().List()) }

func (i conforming) ByIndex(value string) ([]*corev1.Pod, error) {
	all, err := i.GetIndexer().ByIndex("case", value)
	return podsOf(all), err
}

func podsOf(all []any) (pods []*corev1.Pod) {
	for _, o := range all {
		pods = append(pods, o.(*corev1.Pod))
	}
	return pods
}

func (i conforming) Write(o *corev1.Pod) {
	_ = i.GetStore().Add(o)
	_ = i.GetIndexer().Update(o)
}

func (i conforming) Version() string { return i.LastSyncResourceVersion() }

func (i conforming) AddHandler(h conformance.Handler) (conformance.Registration, error) {
	r, err := i.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerDetailedFuncs{
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
			unknown, ok := o.(cache.DeletedFinalStateUnknown)
			if ok {
				o = unknown.Obj
			}
			h.Delete(o.(*corev1.Pod), ok)
		},
	}, h.Every)
	return removable{r, i}, err
}

// removable is a registration that knows its informer.
type removable struct {
	cache.ResourceEventHandlerRegistration
	informer conforming
}

func (r removable) Remove() error {
	return r.informer.RemoveEventHandler(r.ResourceEventHandlerRegistration)
}

func (r removable) RemoveAndWait(ctx context.Context) error {
	var err error
	var wait sync.WaitGroup
	wait.Go(func() {
		err = cache.ShutDownEventHandler(r.informer.SharedIndexInformer, r.ResourceEventHandlerRegistration)
	})
	wait.Wait()
	return err
}

// As in client-go, recovered panics go to utilruntime.PanicHandlers.
var knownHere = conformance.Known{
	Case:  "L10/a panic is reported with the object",
	Says:  "../adapters/clientgo/README.md#what-differs",
	Story: "utilruntime.PanicHandlers receive the panic value, as with client-go. The informer's Status and log name the object and the handler.",
}

// says returns lines of client-go's documentation of shared informers.
func says(first, last int) string { return saysIn("tools/cache/shared_informer.go", first, last) }

// saysIn returns lines of a file of client-go.
func saysIn(file string, first, last int) string {
	return fmt.Sprintf("https://github.com/kubernetes/client-go/blob/v0.37.2/%s#L%d-L%d", file, first, last)
}

var knownOfClientGo = []conformance.Known{
	{Case: "L04/a recreated object is another one", Says: says(125, 134),
		Story: "After a missed deletion, an update leads from the old object to the new one."},
	{Case: "L10/a handler continues after a panic",
		Story: "With utilruntime.ReallyCrash off (by default a panic ends the process) the handler receives the next change, but never syncs."},
	{Case: "L10/a panic is reported with the object",
		Story: "utilruntime.PanicHandlers receive the panic value, but neither the object nor the handler."},
	{Case: "L11/resyncs do not accumulate for a slow handler", Says: says(136, 140),
		Story: "A handler slower than its resync period receives a change only after all resyncs that have accumulated before it."},
	{Case: "L13/the version of the cache is a promise", Says: says(219, 221), Sometimes: true,
		Story: "LastSyncResourceVersion names the newest version received, which the store need not have yet."},
	{Case: "L15/an index function that panics loses no object", Sometimes: true,
		Story: "If the index function panics for an object, other objects in the same list are missing from the index."},
	{Case: "L16/the informer gives no write access to the cache", Says: saysIn("tools/cache/store.go", 43, 50),
		Story: "GetStore and GetIndexer return the cache itself, with its write methods."},
	{Case: "L16/a change of a cached object is reported with type, key and field", Says: saysIn("tools/cache/mutation_detector.go", 85, 88),
		Story: "Its detector is enabled for a whole process at its start, and ends the process at the first change, so no case can test it."},
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
		Story: "Run returns when the back-off of the streaming list is over, which may be half a minute later."},
	{Case: "L29/an immediate add supersedes a delayed one", Says: saysIn("util/workqueue/delaying_queue.go", 39, 40),
		Story: "The key is handed out at once, and again when the delay is over."},
}
