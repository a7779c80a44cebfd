package clientgo

import (
	"context"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// Option configures a factory. client-go's own options cannot be used, because they modify an unexported
// type. The options here have the same names and meanings.
type Option func(*options)

type options struct {
	namespace string
	tweak     internalinterfaces.TweakListOptionsFunc
	transform cache.TransformFunc
	keep      wire.Fields
	keeps     bool // keep is set
	store     sharedinformer.Store
	resync    time.Duration
	custom    map[reflect.Type]time.Duration
	identity  *cache.InformerName
}

func gather(resync time.Duration, chosen []Option) options {
	o := options{resync: resync, custom: make(map[reflect.Type]time.Duration)}
	for _, option := range chosen {
		option(&o)
	}
	return o
}

// whole returns the options for a factory whose clientset decodes the objects.
func (o options) whole() options {
	if o.keeps {
		panic("clientgo: WithKeep requires a factory created for a config, as by NewSharedInformerFactoryForConfig: a clientset decodes whole objects")
	}
	return o
}

// WithNamespace limits the informers to one namespace.
func WithNamespace(namespace string) Option { return func(o *options) { o.namespace = namespace } }

// WithTweakListOptions sets a function that changes the options of every list and watch, for example to set
// selectors.
func WithTweakListOptions(tweak internalinterfaces.TweakListOptionsFunc) Option {
	return func(o *options) { o.tweak = tweak }
}

// WithTransform sets the transform of every informer. Transformed objects do not share equal values, so
// WithKeep is cheaper than a transform that only drops fields.
func WithTransform(transform cache.TransformFunc) Option {
	return func(o *options) { o.transform = transform }
}

// WithKeep sets the object fields that the informers keep, such as wire.WithoutManagedFields. The decoder
// skips all other fields, and objects share equal values in the remaining ones. Informers for objects without
// such a field fail to sync with wire.ErrFields. WithKeep requires a factory created for a config, because
// such a factory decodes objects itself; the constructors for clientsets panic.
func WithKeep(wanted wire.Fields) Option {
	return func(o *options) { o.keep, o.keeps = wanted, true }
}

// WithStore sets how the informers cache objects. With sharedinformer.Packed they store objects as
// bytes, using a fraction of the memory, and decode an object each time it is read. Use it for kinds
// with many objects. Listing all objects with GetStore().List() or a lister decodes all of them each
// time.
func WithStore(s sharedinformer.Store) Option { return func(o *options) { o.store = s } }

// caching determines how an informer created by this package caches objects.
func (o *options) caching(i cache.SharedIndexInformer) cache.SharedIndexInformer {
	if made, ok := i.(*informer); ok {
		made.caches = o.store
	}
	return i
}

// WithCustomResyncConfig sets the resync periods for some types. It has no effect on a ResourceFactory, whose
// objects all have the same type.
func WithCustomResyncConfig(periods map[metav1.Object]time.Duration) Option {
	return func(o *options) {
		for example, period := range periods {
			o.custom[reflect.TypeOf(example)] = period
		}
	}
}

// WithInformerName sets the result of Factory.InformerName, for informers passed to InformerFor. Shutdown
// releases it.
func WithInformerName(name *cache.InformerName) Option {
	return func(o *options) { o.identity = name }
}

// resyncOf returns the resync period of a type.
func (o *options) resyncOf(t reflect.Type) time.Duration {
	if period, ok := o.custom[t]; ok {
		return period
	}
	return o.resync
}

// listing returns a cache.ListerWatcher that tweaks the options. It supports streaming lists if client does.
func listing[L runtime.Object](o *options, from typedClient[L], client any) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(o.tweaked(listWatch(from)), client)
}

// tweaked returns lw with its options tweaked.
func (o *options) tweaked(lw *cache.ListWatch) *cache.ListWatch {
	if o.tweak == nil {
		return lw
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			o.tweak(&opts)
			return lw.ListWithContextFunc(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			o.tweak(&opts)
			return lw.WatchFuncWithContext(ctx, opts)
		},
	}
}

// byNamespace returns the namespace index that all factory informers have.
func byNamespace() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}
