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

// Option configures a factory. Those of client-go cannot be used, because they
// change a type that only client-go can name; here are the same by the same
// names.
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

// whole returns the options of a factory whose client decodes.
func (o options) whole() options {
	if o.keeps {
		panic("clientgo: WithKeep is for a factory that is made for a config, such as NewSharedInformerFactoryForConfig: a client decodes whole objects")
	}
	return o
}

// WithNamespace narrows the informers to one namespace.
func WithNamespace(namespace string) Option { return func(o *options) { o.namespace = namespace } }

// WithTweakListOptions sets what changes the options of every list and watch,
// to set selectors for example.
func WithTweakListOptions(tweak internalinterfaces.TweakListOptionsFunc) Option {
	return func(o *options) { o.tweak = tweak }
}

// WithTransform sets the transform of every informer. Objects that are
// transformed do not share equal parts: where a transform only drops fields,
// WithKeep does the same for less.
func WithTransform(transform cache.TransformFunc) Option {
	return func(o *options) { o.transform = transform }
}

// WithKeep sets which fields of objects the informers hold, such as
// wire.WithoutManagedFields. The others are skipped on the wire, and equal parts
// of what is left are shared. Objects that do not have such a field fail to sync
// with wire.ErrFields. It is for factories that decode themselves, which
// are made for a config: where a clientset decodes, the constructor panics.
func WithKeep(wanted wire.Fields) Option {
	return func(o *options) { o.keep, o.keeps = wanted, true }
}

// WithStore says how the informers cache objects. With sharedinformer.Packed they hold bytes,
// in a small part of the memory, and make an object of them whenever one is asked for. That
// suits kinds of which there are many. A program that walks all objects all the time, by
// GetStore().List() or a lister, has them made each time.
func WithStore(s sharedinformer.Store) Option { return func(o *options) { o.store = s } }

// caching returns an informer that was made here, with the store that is wanted.
func (o *options) caching(i cache.SharedIndexInformer) cache.SharedIndexInformer {
	if made, ok := i.(*informer); ok {
		made.caches = o.store
	}
	return i
}

// WithCustomResyncConfig sets the resync periods of some types. It means
// nothing to a ResourceFactory, where all objects are of one type.
func WithCustomResyncConfig(periods map[metav1.Object]time.Duration) Option {
	return func(o *options) {
		for example, period := range periods {
			o.custom[reflect.TypeOf(example)] = period
		}
	}
}

// WithInformerName sets what InformerName of a Factory returns, for informers
// that are given to InformerFor. Shutdown releases it.
func WithInformerName(name *cache.InformerName) Option {
	return func(o *options) { o.identity = name }
}

// resyncOf is the resync period of a type.
func (o *options) resyncOf(t reflect.Type) time.Duration {
	if period, ok := o.custom[t]; ok {
		return period
	}
	return o.resync
}

// listing returns client as a cache.ListerWatcher with tweaked options, and with
// what client says of streaming lists.
func listing[L runtime.Object](o *options, from typedClient[L], client any) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(o.tweaked(listWatch(from)), client)
}

// tweaked returns lw with tweaked options.
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

// byNamespace is the index that the informers of all factories have.
func byNamespace() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}
