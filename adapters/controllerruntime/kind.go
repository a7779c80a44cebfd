package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// kind contains the informers for a form: one per namespace in the options, or one for all
// namespaces.
type kind struct {
	form
	namespaced bool
	whole      bool // no informer has a transform
	shard      shard.Scope
	scopes     map[string]*scope
	ctx        context.Context // done when the kind is removed or the cache stops
	end        context.CancelCauseFunc
}

// scope is an informer that covers one namespace, all namespaces, or all but the listed ones.
type scope struct {
	informer toolscache.SharedIndexInformer
	copies   bool        // reads return copies
	needed   atomic.Bool // the informer runs with the cache; set with Cache.mu held
}

// newKind creates the informers for a form; none is needed yet. If the kind is not served, it returns the RESTMapper's
// error. If its objects lack a field in Options.Keep, it returns wire.ErrFields.
func (c *Cache) newKind(f form) (*kind, error) {
	if f.as == typed && !c.scheme.Recognizes(f.gvk) {
		return nil, runtime.NewNotRegisteredErrForKind(c.scheme.Name(), f.gvk)
	}
	m, err := c.mapper.RESTMapping(f.gvk.GroupKind(), f.gvk.Version)
	if err != nil {
		return nil, err
	}
	decoded := wire.Options{Scheme: c.scheme, Kind: f.gvk, Type: f.as.goType(), Keep: c.keep}
	if _, err := wire.NewDecoder(wire.MediaJSON, decoded); errors.Is(err, wire.ErrFields) {
		return nil, fmt.Errorf("Options.Keep: %w", err)
	}
	k := &kind{form: f, namespaced: m.Scope.Name() == meta.RESTScopeNameNamespace, whole: true, shard: c.shards[f.gvk.GroupKind()], scopes: make(map[string]*scope)}
	k.ctx, k.end = context.WithCancelCause(context.Background())
	place := discovery.Mapping{Kind: f.gvk, Resource: m.Resource, Namespaced: k.namespaced}
	for namespace, config := range c.configs.of(f.gvk, k.namespaced) {
		informer, err := c.newInformer(f.as, place, namespace, config)
		if err != nil {
			return nil, err
		}
		k.whole = k.whole && config.Transform == nil
		k.scopes[namespace] = &scope{informer: informer, copies: !ptr.Deref(config.UnsafeDisableDeepCopy, false)}
	}
	return k, nil
}

// defaultSyncPeriod is the default resync period, as in controller-runtime.
const defaultSyncPeriod = 10 * time.Hour

// newInformer creates the informer for one namespace, or for all namespaces if namespace is empty.
func (c *Cache) newInformer(as shape, place discovery.Mapping, namespace string, config cache.Config) (toolscache.SharedIndexInformer, error) {
	if namespace == metav1.NamespaceAll && place.Namespaced && config.FieldSelector != nil {
		namespace, _ = config.FieldSelector.RequiresExactMatch("metadata.namespace")
	}
	bookmarks := ptr.Deref(config.EnableWatchBookmarks, true)
	// Add up to 10 % jitter, so that kinds do not all resync at once.
	period := float64(ptr.Deref(config.SyncPeriod, defaultSyncPeriod)) * (0.9 + 0.2*rand.Float64())
	opts := clientgo.ResourceOptions{
		ResyncPeriod: time.Duration(period),
		Indexers:     toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc},
		Pool:         c.pool,
		Store:        c.storeOf(config),
		Snapshot:     c.snapshots,
		Shard:        c.shards[place.Kind.GroupKind()],
		Pages:        !bookmarks, // a streaming list ends with a bookmark
		Tweak: func(o *metav1.ListOptions) {
			o.AllowWatchBookmarks = o.AllowWatchBookmarks && bookmarks
			if config.LabelSelector != nil {
				o.LabelSelector = config.LabelSelector.String()
			}
			if config.FieldSelector != nil {
				o.FieldSelector = config.FieldSelector.String()
			}
		},
	}
	var informer toolscache.SharedIndexInformer
	switch as {
	case untyped:
		informer = informerOf[*unstructured.Unstructured](c, place, namespace, opts)
	case partial:
		informer = informerOf[*metav1.PartialObjectMetadata](c, place, namespace, opts)
	default:
		informer = informerOf[object.Object](c, place, namespace, opts)
	}
	if c.onWatchError != nil {
		if err := informer.SetWatchErrorHandlerWithContext(c.onWatchError); err != nil {
			return nil, err
		}
	}
	return informer, informer.SetTransform(config.Transform)
}

// storeOf returns the Store setting for objects with a given configuration.
func (c *Cache) storeOf(config cache.Config) sharedinformer.Store {
	switch {
	case c.store != sharedinformer.DefaultStore:
		return c.store
	case ptr.Deref(config.UnsafeDisableDeepCopy, false):
		return sharedinformer.Whole
	}
	return sharedinformer.Packed
}

func informerOf[T object.Object](c *Cache, place discovery.Mapping, namespace string, opts clientgo.ResourceOptions) toolscache.SharedIndexInformer {
	return clientgo.NewInformerFor(rest.ResourceForMapping[T](c.client, place).Namespace(namespace).Keep(c.keep), opts)
}

// informer returns the informer for handlers.
func (k *kind) informer() cache.Informer {
	informers := make([]toolscache.SharedIndexInformer, 0, len(k.scopes))
	for _, namespace := range k.namespaces() {
		informers = append(informers, k.scopes[namespace].informer)
	}
	if len(informers) == 1 {
		return informers[0]
	}
	return newJoined(informers, k.ctx.Done())
}

// namespaces returns the sorted names of the scopes.
func (k *kind) namespaces() []string { return slices.Sorted(maps.Keys(k.scopes)) }

// needed returns the sorted names of the scopes that a read or GetInformer has needed. The informers for the
// others do not run.
func (k *kind) needed() []string {
	return slices.DeleteFunc(k.namespaces(), func(name string) bool { return !k.scopes[name].needed.Load() })
}

// needs reports whether the given scopes are needed.
func (k *kind) needs(scopes []string) bool {
	return !slices.ContainsFunc(scopes, func(name string) bool { return !k.scopes[name].needed.Load() })
}

// covering returns the name of the scope that covers a namespace. The empty namespace stands for
// all namespaces, or for a kind without namespaces.
func (k *kind) covering(namespace string) (name string, ok bool) {
	if _, ok := k.scopes[namespace]; ok && k.namespaced {
		return namespace, true
	}
	_, ok = k.scopes[metav1.NamespaceAll]
	return metav1.NamespaceAll, ok
}

// wait waits until the informers for the given scopes have synced. The error explains why an informer has
// not synced.
func (k *kind) wait(ctx context.Context, scopes []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.ctx, func() { cancel(context.Cause(k.ctx)) })()
	var failures []error
	for _, namespace := range scopes {
		failures = append(failures, clientgo.WaitForSync(ctx, k.scopes[namespace].informer))
	}
	return errors.Join(failures...)
}

// waitForHandlers waits until each handler has received all objects, or ctx is done.
func (k *kind) waitForHandlers(ctx context.Context) {
	for _, s := range k.scopes {
		_ = clientgo.WaitForHandlers(ctx, s.informer) // best effort
	}
}

// Reasons to stop waiting for an informer.
var (
	errRemoved = errors.New("the informer was removed")
	errEnded   = errors.New("the cache has stopped")
)

// synced is like wait, but for readers. It returns a timeout error, as in controller-runtime.
func (k *kind) synced(ctx context.Context, scopes []string) error {
	if !slices.ContainsFunc(scopes, func(name string) bool { return !k.scopes[name].informer.HasSynced() }) {
		return nil
	}
	if err := k.wait(ctx, scopes); err != nil {
		return apierrors.NewTimeoutError(fmt.Sprintf("failed waiting for the informer of %v to sync: %v", k.form.gvk, err), 0)
	}
	return nil
}

func (k *kind) views() (all []sharedinformer.View) {
	for _, name := range k.needed() {
		if v, ok := clientgo.ViewOf(k.scopes[name].informer); ok {
			all = append(all, v)
		}
	}
	return all
}
