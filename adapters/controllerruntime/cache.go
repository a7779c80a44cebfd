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

// Cache is a cache.Cache whose informers are Millrace's. Make it with NewCache.
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

	mu      sync.RWMutex // guards all below; nothing is waited for while it is held
	kinds   map[form]*kind
	ctx     context.Context // of Start
	stopped bool
	running sync.WaitGroup
}

var _ cache.Cache = (*Cache)(nil)

// Options are what cache.Options cannot say. The zero value works.
type Options struct {
	// Keep says which fields of objects are cached, of all kinds; the others are
	// not even decoded. wire.WithoutManagedFields does what
	// cache.TransformStripManagedFields does, and lets objects share parts.
	Keep wire.Fields

	// Store says how objects are cached. By default they are packed: the cache holds bytes, in
	// a small part of the memory, and makes a copy of them for each read, where another cache
	// would copy an object. Those that are read without a copy, because of
	// cache.Options.DefaultUnsafeDisableDeepCopy or ByObject, are cached whole, as are all with
	// sharedinformer.Whole. With sharedinformer.Packed none are.
	Store sharedinformer.Store

	// Snapshot is where informers keep what they have, so that a later process begins with
	// it and need not list it; see sharedinformer.Options. Nil means nowhere. Those with a
	// transform or a share have no snapshot.
	Snapshot *snapshot.Directory

	// Shards says what this process has of the objects of a kind, where processes share them:
	// by Group.Shard, or with any other shard.Share. An example stands for the kind, in all its
	// versions, Go types and namespaces. Kinds that are not named are whole. NewCache
	// fails where a kind is not served, or cannot be shared so.
	//
	// Get, List and indexes show the share alone. What moves to another process leaves the
	// cache without an event, and what comes is a create event. Sharded makes a
	// reconciler of it that works on the share.
	Shards map[client.Object]shard.Scope
}

// errNewInformer says how to have what NewInformer is set for.
var errNewInformer = errors.New("cache.Options.NewInformer: this cache makes its own informers. " +
	"If it is set for metrics, leave it nil: metrics.NewInformers exports this cache. " +
	"Otherwise keep controller-runtime's cache, and let NewInformer call clientgo.NewInformerWithOptions, which takes what cache.NewSharedIndexInformerWithOptions does")

// NewCache fits manager.Options.NewCache. All that the options say holds, but
// for NewInformer, which is refused. Where NewInformer is needed, keep cache.New and
// let it call clientgo.NewInformerWithOptions. A selector that selects nothing is refused, too.
func NewCache(cfg *clientrest.Config, opts cache.Options) (cache.Cache, error) {
	return Options{}.NewCache(cfg, opts)
}

// NewCache is the function NewCache with more options.
func (o Options) NewCache(cfg *clientrest.Config, opts cache.Options) (cache.Cache, error) {
	if opts.NewInformer != nil {
		return nil, errNewInformer
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	address, err := addressOf(cfg) // first, since others quote what they cannot read
	if err != nil {
		return nil, err
	}
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = clientrest.HTTPClientFor(cfg); err != nil {
			return nil, fmt.Errorf("make an HTTP client: %w", err)
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

// kind returns the informers of a form. They are made if there are none.
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
		return k, nil // another caller was faster
	}
	c.kinds[f] = made
	if c.ctx != nil {
		c.run(made)
	}
	return made, nil
}

// all returns all there are.
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

// run runs the informers of k until it is removed or the cache ends. It is
// called under mu.
func (c *Cache) run(k *kind) {
	if c.stopped {
		k.end(errEnded)
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	context.AfterFunc(k.ctx, cancel)
	for _, s := range k.scopes {
		c.running.Go(func() { s.informer.RunWithContext(ctx) })
	}
}

// Start runs the informers, and those that are asked for later, until ctx is
// done. It returns when all have ended, and can be called once.
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
		c.run(k)
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

// NeedLeaderElection tells a manager that the cache runs on every replica.
func (c *Cache) NeedLeaderElection() bool { return false }

// WaitForCacheSync waits until every informer has synced. Where it reports
// false, the reasons are logged; WaitForSync returns them.
//
// It then gives the handlers a moment to hear of all objects: controllers ask
// them next, and do not ask again for 100 ms where one has not.
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

// handlersPatience is how long a handler may hold up callers that wait for the
// cache. It may wait for something that begins only then.
const handlersPatience = time.Second

// WaitForSync waits until the cache is started and every informer that is not
// removed meanwhile has synced. The error names each that has not, with its
// state and last failure (L22).
func (c *Cache) WaitForSync(ctx context.Context) error {
	select {
	case <-c.started:
	case <-ctx.Done():
		if !c.isStarted() { // else both at once
			return fmt.Errorf("%w: %w", &cache.ErrCacheNotStarted{}, context.Cause(ctx))
		}
	}
	var failures []error
	for _, k := range c.all() {
		if err := k.wait(ctx, k.namespaces()); context.Cause(k.ctx) != errRemoved {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// Status returns the status of every informer, by name. It makes the cache a
// metrics.InformerSource.
func (c *Cache) Status() []sharedinformer.Status {
	var all []sharedinformer.Status
	for _, v := range c.Views() {
		all = append(all, v.Status())
	}
	return all
}

// Views returns every informer, by name, for those who look at all of them, such as package
// debug.
func (c *Cache) Views() []sharedinformer.View {
	var all []sharedinformer.View
	for _, k := range c.all() {
		all = append(all, k.views()...)
	}
	slices.SortFunc(all, func(a, b sharedinformer.View) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

// GetInformer returns the informer of obj's kind and Go type. Unless told
// otherwise, it waits until the informer has synced if the cache runs.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	f, err := c.formOf(obj)
	if err != nil {
		return nil, err
	}
	return c.informer(ctx, f, opts)
}

// GetInformerForKind is GetInformer for the Go type that the scheme has.
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
	if ptr.Deref(o.BlockUntilSynced, true) && c.isStarted() {
		if err := k.synced(ctx, k.namespaces()); err != nil {
			return nil, err
		}
	}
	return k.informer(), nil
}

// RemoveInformer stops and forgets the informer of obj's kind and Go type.
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

// IndexField lets List find objects of obj's kind and Go type by the values that
// extract draws from them, with client.MatchingFields. It may be called at any
// time.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if extract == nil {
		return fmt.Errorf("index the field %q of %T: the function is nil: give one that returns the values of an object", field, obj)
	}
	i, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	return i.AddIndexers(toolscache.Indexers{indexOf(field): valuesOf(extract)})
}

// Get puts the object under key into out, a copy unless the options or those of
// the cache say otherwise. Where ctx is that of a reconciler of Sharded, an object that
// may be another process's by now is another error than not found.
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

// List puts the objects that the options select into out, copies unless the
// options or those of the cache say otherwise. A field selector needs an index
// for each of its fields; see IndexField. Where ctx is that of a reconciler of Sharded,
// List fails once what is shared may not be all there any more.
func (c *Cache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	r, err := c.reader(ctx, "list", out, o.Namespace)
	if err != nil {
		return err
	}
	return cmp.Or(r.list(out, &o), r.lacking(ctx))
}

// reader returns what reads objects of obj's kind and Go type in a namespace, or in all, which have
// synced. It waits for no other namespace, and fails at once if the cache does not have this one.
func (c *Cache) reader(ctx context.Context, verb string, obj runtime.Object, namespace string) (reader, error) {
	f, err := c.formOf(obj)
	if err != nil {
		return reader{}, err
	}
	r, err := c.readerOf(f)
	if err != nil {
		return reader{}, err
	}
	if !c.isStarted() {
		return reader{}, &cache.ErrCacheNotStarted{}
	}
	r.from = r.namespaces()
	if r.namespaced && namespace != metav1.NamespaceAll {
		name, ok := r.covering(namespace)
		if !ok {
			return reader{}, fmt.Errorf("unable to %s %v in namespace %q: the cache does not have that namespace: add it to the DefaultNamespaces or ByObject of its options", verb, f.gvk, namespace)
		}
		r.from = []string{name}
	}
	return r, r.synced(ctx, r.from)
}

// readerOf finds or makes the informers to read a form from. Metadata that has
// none of its own is read from objects that are there, if these are whole.
func (c *Cache) readerOf(f form) (reader, error) {
	if k, ok := c.peek(f); ok {
		return reader{kind: k}, nil
	}
	if f.as == partial {
		for _, as := range []shape{typed, untyped} {
			if k, ok := c.peek(form{f.gvk, as}); ok && k.whole {
				return reader{kind: k, partial: true}, nil
			}
		}
	}
	if c.failMissing {
		return reader{}, &cache.ErrResourceNotCached{GVK: f.gvk}
	}
	k, err := c.kind(f)
	return reader{kind: k}, err
}
