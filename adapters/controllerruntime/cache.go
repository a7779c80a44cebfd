package controllerruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	clientrest "k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/wire"
)

// Cache is a cache.Cache that uses Millrace informers. Create it with [NewCache].
type Cache struct {
	client       *rest.Client
	pool         *wire.Pool
	scheme       *runtime.Scheme
	mapper       meta.RESTMapper
	configs      configs
	keep         wire.Fields
	store        sharedinformer.Store
	snapshots    *snapshot.Directory
	shards       shards
	failMissing  bool
	onWatchError toolscache.WatchErrorHandlerWithContext

	started chan struct{} // closed by Start

	mu      sync.RWMutex // guards the fields below; held only briefly
	kinds   map[form]*kind
	ctx     context.Context // of Start
	stopped bool
	running sync.WaitGroup
}

var _ cache.Cache = (*Cache)(nil)

// Options contains settings that cache.Options does not have. The zero value is valid.
type Options struct {
	// Keep selects the object fields to cache, for all kinds. Other fields are never decoded.
	// wire.WithoutManagedFields has the effect of cache.TransformStripManagedFields, but lets objects share
	// equal values.
	//
	// If the Go type of a kind lacks one of these fields, as ConfigMap and PartialObjectMetadata lack status,
	// reads and GetInformer fail with wire.ErrFields.
	Keep wire.Fields

	// Store determines how objects are cached. By default they are packed: the cache stores them as bytes,
	// using a fraction of the memory, and each read decodes an object instead of copying one. Objects that
	// are read without copying, because of cache.Options.DefaultUnsafeDisableDeepCopy or ByObject, are cached
	// whole. Use sharedinformer.Whole to cache all objects whole, or sharedinformer.Packed to pack all of
	// them.
	Store sharedinformer.Store

	// Snapshot is where informers save their objects, so that the next process can start from them without
	// a list; see sharedinformer.Options. If it is nil, nothing is saved. Informers with a transform or an
	// entry in Shards do not save any.
	Snapshot *snapshot.Directory

	// Shards selects this process's share of each kind's objects, with Group.Shard or any other
	// shard.Share. Each key is an example object that stands for its kind, in all versions, Go types and
	// namespaces. Kinds not listed are not sharded. NewCache returns an error if a kind is not served or
	// cannot be sharded this way.
	//
	// Get, List and indexes see only the share. An object that moves to another process leaves the cache
	// without an event; an object that moves to this process causes a create event. [Sharded] limits a
	// reconciler to the share.
	Shards map[client.Object]shard.Scope
}

// errNewInformer lists the alternatives to NewInformer.
var errNewInformer = errors.New("cache.Options.NewInformer: this cache creates its own informers. " +
	"If it is set for metrics, leave it nil: metrics.NewInformers exports this cache. " +
	"Otherwise keep controller-runtime's cache, and let NewInformer call clientgo.NewInformerWithOptions, which takes the same arguments as cache.NewSharedIndexInformerWithOptions")

// NewCache can be used as manager.Options.NewCache. It supports all options except NewInformer. If you
// need NewInformer, keep cache.New and set NewInformer to clientgo.NewInformerWithOptions. NewCache also
// rejects selectors that match nothing.
func NewCache(cfg *clientrest.Config, opts cache.Options) (cache.Cache, error) {
	return Options{}.NewCache(cfg, opts)
}

// NewCache is like the function [NewCache], with more options.
func (o Options) NewCache(cfg *clientrest.Config, opts cache.Options) (cache.Cache, error) {
	if opts.NewInformer != nil {
		return nil, errNewInformer
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	address, err := addressOf(cfg) // checked first, because the errors below would quote a malformed address
	if err != nil {
		return nil, err
	}
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = clientrest.HTTPClientFor(cfg); err != nil {
			return nil, fmt.Errorf("create an HTTP client: %w", err)
		}
	}
	client, err := newClient(address, cfg.UserAgent, opts.HTTPClient, opts.Scheme)
	if err != nil {
		return nil, err
	}
	if opts.Mapper == nil {
		if opts.Mapper, err = apiutil.NewDynamicRESTMapper(cfg, opts.HTTPClient); err != nil {
			return nil, fmt.Errorf("make a RESTMapper: %w", err)
		}
	}
	configs, err := newConfigs(opts)
	if err != nil {
		return nil, err
	}
	shards, err := newShards(o.Shards, opts, configs, o.Keep)
	if err != nil {
		return nil, err
	}
	return &Cache{
		client: client, pool: wire.NewPool(), scheme: opts.Scheme, mapper: opts.Mapper, configs: configs, keep: o.Keep, store: o.Store, snapshots: o.Snapshot, shards: shards,
		failMissing: opts.ReaderFailOnMissingInformer, onWatchError: opts.DefaultWatchErrorHandler,
		started: make(chan struct{}), kinds: make(map[form]*kind),
	}, nil
}

// kind returns the informers for a form, creating them if necessary.
func (c *Cache) kind(f form) (*kind, error) {
	if k, ok := c.peek(f); ok {
		return k, nil
	}
	made, err := c.newKind(f)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.kinds[f]; ok {
		return k, nil // another caller got there first
	}
	c.kinds[f] = made
	return made, nil
}

// need runs the informers for the given scopes in k, now if the cache is running, or else when it starts.
func (c *Cache) need(k *kind, scopes []string) {
	if k.needs(scopes) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range scopes {
		if s := k.scopes[name]; !s.needed.Swap(true) && c.ctx != nil {
			c.run(k, s)
		}
	}
}

// all returns all kinds.
func (c *Cache) all() []*kind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.kinds))
}

func (c *Cache) peek(f form) (*kind, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, ok := c.kinds[f]
	return k, ok
}

// run runs the informer for a scope in k until k is removed or the cache stops. c.mu must be held.
func (c *Cache) run(k *kind, s *scope) {
	if c.stopped {
		k.end(errEnded)
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	context.AfterFunc(k.ctx, cancel)
	c.running.Go(func() { s.informer.RunWithContext(ctx) })
}

// Start runs the informers, including those requested later, until ctx is done. It returns when all have
// stopped. It can be called only once.
func (c *Cache) Start(ctx context.Context) error {
	if err := c.begin(log.IntoContext(ctx, log.Log.WithName("cache"))); err != nil {
		return err
	}
	<-ctx.Done()
	c.mu.Lock()
	c.stopped = true
	for _, k := range c.kinds {
		k.end(errEnded)
	}
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

func (c *Cache) begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		return errors.New("informer already started: a cache runs once")
	}
	c.ctx = ctx
	for _, k := range c.kinds {
		for _, name := range k.needed() {
			c.run(k, k.scopes[name])
		}
	}
	close(c.started)
	return nil
}

func (c *Cache) isStarted() bool {
	select {
	case <-c.started:
		return true
	default:
		return false
	}
}

// NeedLeaderElection returns false: the cache runs on every replica.
func (c *Cache) NeedLeaderElection() bool { return false }

// WaitForCacheSync waits until every informer has synced. If it returns false, it has logged the reasons;
// WaitForSync returns them.
//
// It then gives the handlers a moment to receive all objects, because controllers check for that next, and
// if any handler is not done, they wait 100 ms before checking again.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	if err := c.WaitForSync(ctx); err != nil {
		log.FromContext(ctx).WithName("cache").Error(err, "The cache has not synced")
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, handlersPatience)
	defer cancel()
	for _, k := range c.all() {
		k.waitForHandlers(ctx)
	}
	return true
}

// handlersPatience limits how long to wait for handlers, because a handler may itself be waiting for
// something that starts later.
const handlersPatience = time.Second

// WaitForSync waits until the cache has started and every informer has synced or was removed. The error
// lists each informer that has not, with its state and last failure (L22).
func (c *Cache) WaitForSync(ctx context.Context) error {
	select {
	case <-c.started:
	case <-ctx.Done():
		if !c.isStarted() { // otherwise both happened at once
			return fmt.Errorf("%w: %w", &cache.ErrCacheNotStarted{}, context.Cause(ctx))
		}
	}
	var failures []error
	for _, k := range c.all() {
		if err := k.wait(ctx, k.needed()); context.Cause(k.ctx) != errRemoved {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// Status returns the status of every informer that is needed, sorted by name. It makes Cache a metrics.InformerSource.
func (c *Cache) Status() []sharedinformer.Status {
	var all []sharedinformer.Status
	for _, v := range c.Views() {
		all = append(all, v.Status())
	}
	return all
}

// Views returns every informer that is needed, sorted by name, for tools such as package debug.
func (c *Cache) Views() []sharedinformer.View {
	var all []sharedinformer.View
	for _, k := range c.all() {
		all = append(all, k.views()...)
	}
	slices.SortFunc(all, func(a, b sharedinformer.View) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

// GetInformer returns the informer for obj's kind and Go type. If the cache is running, it waits until the
// informer has synced, unless an option says otherwise.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	f, err := c.formOf(obj)
	if err != nil {
		return nil, err
	}
	return c.informer(ctx, f, opts)
}

// GetInformerForKind is like GetInformer, but takes a kind and uses the scheme's Go type for it.
func (c *Cache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := c.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return c.informer(ctx, form{gvk, shapeOf(obj)}, opts)
}

func (c *Cache) informer(ctx context.Context, f form, opts []cache.InformerGetOption) (cache.Informer, error) {
	var o cache.InformerGetOptions
	for _, opt := range opts {
		opt(&o)
	}
	k, err := c.kind(f)
	if err != nil {
		return nil, err
	}
	c.need(k, k.namespaces())
	if ptr.Deref(o.BlockUntilSynced, true) && c.isStarted() {
		if err := k.synced(ctx, k.namespaces()); err != nil {
			return nil, err
		}
	}
	return k.informer(), nil
}

// RemoveInformer stops and removes the informer for obj's kind and Go type.
func (c *Cache) RemoveInformer(_ context.Context, obj client.Object) error {
	f, err := c.formOf(obj)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.kinds[f]; ok {
		k.end(errRemoved)
		delete(c.kinds, f)
	}
	return nil
}

// IndexField lets List select objects of obj's kind and Go type by the values that extract returns, using
// client.MatchingFields. It may be called at any time.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if extract == nil {
		return fmt.Errorf("index the field %q of %T: the function is nil: pass one that returns an object's values", field, obj)
	}
	i, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	return i.AddIndexers(toolscache.Indexers{indexOf(field): valuesOf(extract)})
}

// Get stores the object with the given key in out. out is a copy unless the options of the call or the
// cache say otherwise. If ctx comes from a [Sharded] reconciler and the object may have moved to
// another process, Get returns an error other than "not found".
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	r, err := c.reader(ctx, "get", out, key.Namespace)
	if err != nil {
		return err
	}
	var o client.GetOptions
	o.ApplyOptions(opts)
	err = r.get(key, out, ptr.Deref(o.UnsafeDisableDeepCopy, false))
	if apierrors.IsNotFound(err) {
		err = cmp.Or(r.absent(ctx, key), err)
	}
	return err
}

// List stores the objects selected by the options in out. They are copies unless the options of the call
// or the cache say otherwise. A field selector needs an index for each of its fields; see IndexField.
// If ctx comes from a [Sharded] reconciler and sharded objects may have moved to another process, List
// returns an error.
func (c *Cache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	r, err := c.reader(ctx, "list", out, o.Namespace)
	if err != nil {
		return err
	}
	return cmp.Or(r.list(out, &o), r.lacking(ctx, o.Namespace))
}

// reader returns a reader for objects of obj's kind and Go type in one or all namespaces, once they have
// synced. It neither starts nor waits for the informers of other namespaces. It fails immediately if the
// cache does not cover the namespace.
func (c *Cache) reader(ctx context.Context, verb string, obj runtime.Object, namespace string) (reader, error) {
	f, err := c.formOf(obj)
	if err != nil {
		return reader{}, err
	}
	from := func(k *kind) ([]string, bool) {
		if !k.namespaced || namespace == metav1.NamespaceAll && verb == "list" {
			return k.namespaces(), true
		}
		name, ok := k.covering(namespace)
		return []string{name}, ok
	}
	r, err := c.readerOf(f, from)
	if err != nil {
		return reader{}, err
	}
	var ok bool
	if r.from, ok = from(r.kind); ok {
		c.need(r.kind, r.from)
	}
	switch {
	case !c.isStarted():
		return reader{}, &cache.ErrCacheNotStarted{}
	case !ok:
		return reader{}, fmt.Errorf("unable to %s %v in namespace %q: the cache does not cover that namespace: add it to DefaultNamespaces or ByObject in its options", verb, f.gvk, namespace)
	}
	return r, r.synced(ctx, r.from)
}

// readerOf finds or creates the informers that serve reads for a form. If there are no informers for
// metadata alone, it is read from whole objects if the scopes to read, which from returns, already cache them.
func (c *Cache) readerOf(f form, from func(*kind) ([]string, bool)) (reader, error) {
	serves := func(k *kind) bool { // or, if k does not cover the namespace, leads to the error that says so
		scopes, ok := from(k)
		return !ok || k.needs(scopes)
	}
	k, ok := c.peek(f)
	if ok && serves(k) {
		return reader{kind: k}, nil
	}
	if f.as == partial {
		for _, as := range []shape{typed, untyped} {
			if k, ok := c.peek(form{f.gvk, as}); ok && k.whole && serves(k) {
				return reader{kind: k, partial: true}, nil
			}
		}
	}
	if ok {
		return reader{kind: k}, nil
	}
	if c.failMissing {
		return reader{}, &cache.ErrResourceNotCached{GVK: f.gvk}
	}
	k, err := c.kind(f)
	return reader{kind: k}, err
}
