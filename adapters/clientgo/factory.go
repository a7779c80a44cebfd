package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Factory is an informers.SharedInformerFactory that creates Millrace informers. Create it with
// [NewSharedInformerFactory] or [NewSharedInformerFactoryForConfig].
//
// Informers obtained from an API group, such as Core().V1().Pods(), or from ForResource are
// Millrace informers. If a function passed to InformerFor creates a different informer, the factory uses
// it as is. To get a Millrace informer, call [NewInformer] in that function.
type Factory struct {
	client kubernetes.Interface
	direct *direct // nil if the clientset lists and watches
	options
	runner runner[reflect.Type]
}

var _ informers.SharedInformerFactory = (*Factory)(nil)

// NewSharedInformerFactory is like informers.NewSharedInformerFactoryWithOptions, but creates Millrace
// informers. It works with any clientset, including fakes. The clientset decodes.
func NewSharedInformerFactory(client kubernetes.Interface, resync time.Duration, options ...Option) *Factory {
	return &Factory{client: client, options: gather(resync, options).whole()}
}

// NewSharedInformerFactoryForConfig is like [NewSharedInformerFactory], but its informers list and watch
// through a client from [FromConfig], decode objects directly from the response bytes and store equal
// values only once. This saves memory and CPU.
func NewSharedInformerFactoryForConfig(cfg *clientrest.Config, resync time.Duration, options ...Option) (*Factory, error) {
	millrace, err := FromConfig(cfg) // checked first, because client-go's error would quote a malformed address
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	d := &direct{client: millrace, pool: wire.NewPool()}
	return &Factory{client: client, direct: d, options: gather(resync, options)}, nil
}

// kinds is the factory as seen by the API groups. It looks up informers by their type only.
type kinds struct{ *Factory }

// InformerFor returns the Millrace informer for example's type.
func (k kinds) InformerFor(example runtime.Object, fallback internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return k.Factory.InformerFor(example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		resource, namespace, lw := clientOf(usable(client), k.namespace, example)
		kind, err := kindOf(example)
		if lw == nil || err != nil {
			return fallback(client, resync)
		}
		at := kind.GroupVersion().WithResource(resource)
		name := nameResource(at.GroupResource(), namespace)
		if k.direct != nil {
			place := discovery.Mapping{Kind: kind, Resource: at, Namespaced: namespace != ""} // no discovery needed
			objects := rest.ResourceForMapping[object.Object](k.direct.client, place).Namespace(namespace).Keep(k.keep)
			return k.direct.informer(name, example, resync, &k.options, func(pool *wire.Pool) source.ListerWatcher {
				return objects.Sharing(pool).Source()
			})
		}
		return k.caching(NewInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(k.tweaked(lw), client), example,
			cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: byNamespace(), ObjectDescription: name}))
	})
}

// usable returns client, or a clientset without a connection if client is nil. As in client-go, a factory without a
// client has informers whose stores can be written to, which many unit tests use; only running them panics.
func usable(client kubernetes.Interface) kubernetes.Interface {
	if client == nil {
		return kubernetes.New(nil)
	}
	return client
}

// kindOf returns the kind of a type. It returns an error unless the type has exactly one kind.
func kindOf(example runtime.Object) (schema.GroupVersionKind, error) {
	found, _, err := scheme.Scheme.ObjectKinds(example)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	if len(found) > 1 {
		return schema.GroupVersionKind{}, fmt.Errorf("%T has several kinds: %v", example, found)
	}
	return found[0], nil
}

// nameResource returns a resource's name for use in messages, such as "pods in namespace shop".
func nameResource(resource schema.GroupResource, namespace string) string {
	if namespace == "" {
		return resource.String()
	}
	return resource.String() + " in namespace " + namespace
}

// InformerFor returns the informer for example's type, creating it with newInformer if necessary.
func (f *Factory) InformerFor(example runtime.Object, newInformer internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(example)
	return f.runner.get(kind, func() cache.SharedIndexInformer {
		i := newInformer(f.client, f.resyncOf(kind))
		if f.transform != nil {
			_ = i.SetTransform(f.transform) // fails only if the caller is already running the informer
		}
		return i
	})
}

// InformerName implements informers.SharedInformerFactory.
func (f *Factory) InformerName() *cache.InformerName { return f.identity }

// ForResource returns the informer for a built-in resource.
func (f *Factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	for _, t := range scheme.Scheme.KnownTypes(resource.GroupVersion()) {
		example, ok := reflect.New(t).Interface().(runtime.Object)
		if !ok {
			continue
		}
		if served, _, lw := clientOf(usable(f.client), f.namespace, example); lw != nil && served == resource.Resource {
			i := kinds{f}.InformerFor(example, nil)
			return generic{i, cache.NewGenericLister(i.GetIndexer(), resource.GroupResource())}, nil
		}
	}
	return nil, fmt.Errorf("no informer found for %v", resource)
}

// generic is an informers.GenericInformer.
type generic struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
}

// Informer implements informers.GenericInformer.
func (g generic) Informer() cache.SharedIndexInformer { return g.informer }

// Lister implements informers.GenericInformer.
func (g generic) Lister() cache.GenericLister { return g.lister }

// Start is like [Factory.StartWithContext], but runs the informers until stop is closed.
func (f *Factory) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext runs every informer that is not running yet, until ctx is done. Call it again to run
// informers that were requested later.
func (f *Factory) StartWithContext(ctx context.Context) { f.runner.start(ctx) }

// Shutdown waits until the informers have stopped. The caller must cancel their context. No informer can
// be started afterwards.
func (f *Factory) Shutdown() {
	f.runner.shutdown()
	f.identity.Release()
}

// WaitForCacheSync waits until every started informer has synced or stopped, or stop is closed. It reports
// which have synced.
func (f *Factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext waits until every started informer has synced or stopped, or ctx is done.
// For each informer that has not synced, the result's error explains why (L22).
func (f *Factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	synced, err := f.runner.wait(ctx)
	return cache.SyncResult{Err: err, Synced: synced}
}

// Status returns the status of every informer, sorted by name. It makes Factory a metrics.InformerSource.
func (f *Factory) Status() []sharedinformer.Status { return f.runner.status() }

// Views returns every informer, sorted by name, for tools such as package debug.
func (f *Factory) Views() []sharedinformer.View { return f.runner.views() }
