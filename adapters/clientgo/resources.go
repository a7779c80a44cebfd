package clientgo

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// ResourceFactory creates Millrace informers for resources. It implements both
// dynamicinformer.DynamicSharedInformerFactory and metadatainformer.SharedInformerFactory. The type
// of the objects depends on the constructor.
type ResourceFactory struct {
	newInformer func(schema.GroupVersionResource) cache.SharedIndexInformer
	newLister   newLister
	runner      runner[schema.GroupVersionResource]
}

var (
	_ dynamicinformer.DynamicSharedInformerFactory = (*ResourceFactory)(nil)
	_ metadatainformer.SharedInformerFactory       = (*ResourceFactory)(nil)
)

// NewDynamicSharedInformerFactory is like dynamicinformer.NewDynamicSharedInformerFactory, but creates
// Millrace informers. It works with any dynamic client, including fakes. The client decodes.
func NewDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, options ...Option) *ResourceFactory {
	o := gather(resync, options).whole()
	return newResourceFactory(dynamicLister, o, func(resource schema.GroupVersionResource, name string) cache.SharedIndexInformer {
		return o.decoded(listing(&o, later[*unstructured.UnstructuredList](func() typedClient[*unstructured.UnstructuredList] {
			return client.Resource(resource).Namespace(o.namespace)
		}), client), &unstructured.Unstructured{}, name)
	})
}

// NewDynamicSharedInformerFactoryForConfig is like [NewDynamicSharedInformerFactory], but its informers
// list and watch through a client from [FromConfig], decode objects directly from the response bytes
// and store equal values only once.
func NewDynamicSharedInformerFactoryForConfig(cfg *clientrest.Config, resync time.Duration, options ...Option) (*ResourceFactory, error) {
	return newDirectFactory(cfg, dynamicLister, gather(resync, options), &unstructured.Unstructured{})
}

// NewMetadataSharedInformerFactory is like metadatainformer.NewSharedInformerFactory, but creates
// Millrace informers. It works with any metadata client, including fakes. The client decodes.
func NewMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration, options ...Option) *ResourceFactory {
	o := gather(resync, options).whole()
	return newResourceFactory(metadataLister, o, func(resource schema.GroupVersionResource, name string) cache.SharedIndexInformer {
		return o.decoded(listing(&o, later[*metav1.PartialObjectMetadataList](func() typedClient[*metav1.PartialObjectMetadataList] {
			return client.Resource(resource).Namespace(o.namespace)
		}), client), &metav1.PartialObjectMetadata{}, name)
	})
}

// NewMetadataSharedInformerFactoryForConfig is like [NewMetadataSharedInformerFactory], but its informers
// list and watch through a client from [FromConfig], decode objects directly from the response bytes and
// store equal values only once.
func NewMetadataSharedInformerFactoryForConfig(cfg *clientrest.Config, resync time.Duration, options ...Option) (*ResourceFactory, error) {
	return newDirectFactory(cfg, metadataLister, gather(resync, options), &metav1.PartialObjectMetadata{})
}

// decoded returns an informer whose objects are decoded by lw.
func (o *options) decoded(lw cache.ListerWatcher, example runtime.Object, name string) cache.SharedIndexInformer {
	return o.caching(NewInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{
		ResyncPeriod: o.resync, Indexers: byNamespace(), ObjectDescription: name,
	}))
}

// newDirectFactory returns a factory whose informers decode one Go type directly from the response bytes.
func newDirectFactory[T object.Object](cfg *clientrest.Config, newLister newLister, o options, example T) (*ResourceFactory, error) {
	client, err := FromConfig(cfg)
	if err != nil {
		return nil, err
	}
	d := &direct{client: client, pool: wire.NewPool()}
	return newResourceFactory(newLister, o, func(resource schema.GroupVersionResource, name string) cache.SharedIndexInformer {
		return d.informer(name, example, o.resync, &o, func(pool *wire.Pool) source.ListerWatcher {
			return &located[T]{client: client, resource: resource, namespace: o.namespace, keep: o.keep, pool: pool}
		})
	}), nil
}

func newResourceFactory(newLister newLister, o options, newInformer func(schema.GroupVersionResource, string) cache.SharedIndexInformer) *ResourceFactory {
	return &ResourceFactory{newLister: newLister, newInformer: func(resource schema.GroupVersionResource) cache.SharedIndexInformer {
		i := newInformer(resource, nameResource(resource.GroupResource(), o.namespace))
		if o.transform != nil {
			_ = i.SetTransform(o.transform) // fails only when it runs
		}
		return i
	}}
}

// newLister creates the lister for a resource.
type newLister func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister

func dynamicLister(i cache.Indexer, resource schema.GroupVersionResource) cache.GenericLister {
	return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(i, resource))
}

func metadataLister(i cache.Indexer, resource schema.GroupVersionResource) cache.GenericLister {
	return metadatalister.NewRuntimeObjectShim(metadatalister.New(i, resource))
}

// ForResource returns the informer and the lister for a resource.
func (f *ResourceFactory) ForResource(resource schema.GroupVersionResource) informers.GenericInformer {
	i := f.runner.get(resource, func() cache.SharedIndexInformer { return f.newInformer(resource) })
	return generic{i, f.newLister(i.GetIndexer(), resource)}
}

// Start is like [ResourceFactory.StartWithContext], but runs the informers until stop is closed.
func (f *ResourceFactory) Start(stop <-chan struct{}) {
	f.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext runs every informer that is not running yet, until ctx is done. Call it again to run
// informers that were requested later.
func (f *ResourceFactory) StartWithContext(ctx context.Context) { f.runner.start(ctx) }

// WaitForCacheSync waits until every started informer has synced or stopped, or stop is closed. It reports
// which have synced.
func (f *ResourceFactory) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	synced, _ := f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop))
	return synced
}

// WaitForCacheSyncWithContext waits until every started informer has synced or stopped, or ctx is done.
// For each informer that has not synced, the error explains why (L22).
func (f *ResourceFactory) WaitForCacheSyncWithContext(ctx context.Context) (map[schema.GroupVersionResource]bool, error) {
	return f.runner.wait(ctx)
}

// Shutdown waits until the informers have stopped. The caller must cancel their context. No informer can
// be started afterwards.
func (f *ResourceFactory) Shutdown() { f.runner.shutdown() }

// Status returns the status of every informer, sorted by name. It makes ResourceFactory a
// metrics.InformerSource.
func (f *ResourceFactory) Status() []sharedinformer.Status { return f.runner.status() }

// Views returns every informer, sorted by name, for tools such as package debug.
func (f *ResourceFactory) Views() []sharedinformer.View { return f.runner.views() }
