package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/shard"
)

// Sharded returns a reconciler that calls r for this process's share of a kind's objects, and drops
// requests for all others. from is the manager's cache, created with Options.Shards. It must have a scope for
// the reconciled kind and for each kind it owns, which are the kinds passed to For and Owns in the builder.
// If the Share of the reconciled kind is nil, nothing is sharded and Sharded returns r.
//
//	r, err := millrace.Sharded(m.GetCache(), &reconciler{m.GetClient()}, &v1.Cart{}, &corev1.ConfigMap{})
//	err = ctrl.NewControllerManagedBy(m).For(&v1.Cart{}).Owns(&corev1.ConfigMap{}).Complete(r)
//
// Sharded returns an error if a kind has no scope or a different share, or if owners and owned objects
// would be in different processes (shard.Key.Follows).
//
// At most one process at a time runs r for the objects in a slot (S01). The context passed to r carries
// the shard.Token. It is canceled when the slot is lost, with a cause that wraps shard.ErrLost or
// shard.ErrMoved. Errors that r returns after that are dropped, because the slot's new owner starts over. If the
// object is in another of this process's slots by then, the request is repeated.
//
// A request waits until the informers for all kinds hold the slot, which it checks every 20 ms to 5 s, so r
// sees the previous owner's writes (S04). r must pass its context when reading, so that a Get or List of a
// sharded kind whose objects have left the cache returns an error and never "not found". The slot is released
// however r exits, even if it panics or calls runtime.Goexit.
//
// There are some limitations due to controller-runtime's interfaces:
//
//   - A request has no UID. Therefore, with any key except shard.ByNamespace, the owner of a
//     deleted object is unknown, and no process reconciles its deletion. Use a finalizer for
//     cleanup. With shard.ByNamespace deletions are reconciled, unless the slot is lost at that
//     moment. Likewise, requests that identify no object, such as a single request for everything,
//     reach a reconciler only with shard.ByNamespace.
//   - A controller that runs only on the elected leader reconciles only the leader's share, so the
//     rest is not reconciled. If you use leader election, set NeedLeaderElection in
//     controller.Options to false.
//   - Sharded does not know a controller's sources, so it does not wait for the kinds passed to
//     Watches, which are not arguments of Sharded.
//   - controller-runtime's metrics count a dropped request as a success, and a waiting one as
//     requeued.
//   - Reads with a different context, such as context.Background, mistake moved objects for
//     deleted ones.
//   - With client.CacheOptions.EnableReadYourWritesConsistency, a read waits for objects that may
//     be in another process until its context is done. Leave it off.
func Sharded(from cache.Cache, r reconcile.Reconciler, reconciles client.Object, owns ...client.Object) (reconcile.Reconciler, error) {
	c, ok := from.(*Cache)
	switch {
	case r == nil:
		return nil, errors.New("share a reconciler: it is nil")
	case !ok:
		return nil, fmt.Errorf("share a reconciler: a %T cannot shard objects: set ctrl.Options.NewCache to the NewCache method of Options with Shards", from)
	}
	f, err := c.formOf(reconciles)
	if err != nil {
		return nil, fmt.Errorf("share a reconciler: %T: %w", reconciles, err)
	}
	s := &sharded{cache: c, next: r, form: f, kinds: map[schema.GroupKind]bool{f.gvk.GroupKind(): true}}
	if s.scope, ok = c.shards[f.gvk.GroupKind()]; !ok {
		return nil, fmt.Errorf("share a reconciler: %v has no scope: add it to Options.Shards", f.gvk.GroupKind())
	}
	m, err := c.mapper.RESTMapping(f.gvk.GroupKind(), f.gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("share a reconciler: %v: %w", f.gvk, err)
	}
	s.plain = m.Scope.Name() != meta.RESTScopeNameNamespace
	for _, obj := range owns {
		owned, err := c.formOf(obj)
		if err != nil {
			return nil, fmt.Errorf("share a reconciler: %T: %w", obj, err)
		}
		kind := owned.gvk.GroupKind()
		if err := s.parted(c.shards[kind]); err != nil {
			return nil, fmt.Errorf("share a reconciler of %v, which owns %v: %w", f.gvk.GroupKind(), kind, err)
		}
		s.kinds[kind] = true
	}
	if s.scope.Everything() {
		return r, nil
	}
	return s, nil
}

// sharded is a reconciler for a share of the objects.
type sharded struct {
	cache *Cache
	next  reconcile.Reconciler
	form  form // of the reconciled kind
	scope shard.Scope
	plain bool                      // the form has no namespaces
	kinds map[schema.GroupKind]bool // kinds whose informers must hold the slot before work starts
	waits sharding.Waits
	reads sharding.Waits // for reads of other kinds, once the slot is entered again
}

// parted returns an error explaining why an owned kind cannot have a scope, or nil if it can.
func (s *sharded) parted(owned shard.Scope) error {
	switch {
	case owned.Everything() && s.scope.Everything():
		return nil
	case owned.Everything():
		return errors.New("the owned kind is not shared but its owners are: give both the same share in Options.Shards")
	case owned.Share != s.scope.Share:
		return errors.New("the two have different shares: give both the same share in Options.Shards")
	}
	return owned.Key.Follows(s.scope.Key)
}

// Reconcile implements reconcile.Reconciler.
func (s *sharded) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var in *work
	var wait time.Duration
	err := failure.Apart("the share", func() (err error) {
		in, wait, err = s.enter(ctx, req)
		return err
	})
	switch {
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("enter the share: %w", err)
	case in == nil: // a zero wait means that the object belongs to another process
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	defer func() {
		if err := in.Leave(); err != nil {
			log.FromContext(ctx).Error(err, "The slot may not have been left", failure.Stack(err)...)
		}
	}()
	result, err := s.next.Reconcile(withWork(in.Context, in), req)
	switch {
	case err == nil:
	case errors.Is(err, sharding.ErrNotHeld):
		return reconcile.Result{RequeueAfter: s.reads.Next(in.Token)}, nil
	case errors.Is(err, errElsewhere), sharding.Over(in.Context):
		return reconcile.Result{RequeueAfter: s.again(in)}, nil
	}
	return result, err
}

// again returns how long to wait before repeating work that could not finish, or 0 if the object's new owner
// starts over. The object may still be here: in another slot, or in an informer that is ahead of the one that the
// reconciler reads.
func (s *sharded) again(in *work) time.Duration {
	var hash uint64
	var known bool
	err := failure.Apart("the share", func() (err error) {
		hash, known, err = s.hashOf(in.key)
		return err
	})
	if err == nil && (!known || hash == in.Hash && sharding.Over(in.Context)) {
		return 0
	}
	return s.waits.Next(in.Token) // which starts again once the slot has been entered
}

// enter enters the share for a request. It returns nil work if the object belongs to another process. If it
// is too early to enter, it returns nil work and the time to wait.
func (s *sharded) enter(ctx context.Context, req reconcile.Request) (*work, time.Duration, error) {
	key := req.NamespacedName
	if s.plain {
		key.Namespace = ""
	}
	hash, known, err := s.hashOf(key)
	if errors.Is(err, errNotSynced) {
		return nil, sharding.Soon, nil
	}
	if err != nil || !known {
		return nil, 0, err
	}
	in, wait, err := s.waits.Enter(ctx, s.scope.Share, hash, func(hash uint64) bool {
		return !slices.ContainsFunc(s.cache.all(), func(k *kind) bool { return s.kinds[k.gvk.GroupKind()] && !k.holds(hash, key.Namespace) })
	})
	if in == nil {
		return nil, wait, err
	}
	return &work{Work: in, kind: s.form.gvk.GroupKind(), key: key}, 0, nil
}

// hashOf returns the hash of the object with a given key. With shard.ByNamespace the hash depends only
// on the key, so it is known for deleted objects too. Otherwise it is the hash of the cached object, if
// any. It returns errNotSynced while the cache cannot be read.
func (s *sharded) hashOf(key client.ObjectKey) (hash uint64, known bool, err error) {
	if s.scope.Key.String() == shard.ByNamespace().String() {
		named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		return s.scope.Key.Hash(named), true, nil
	}
	read := 0
	for _, k := range s.cache.all() {
		if k.gvk.GroupKind() != s.form.gvk.GroupKind() {
			continue
		}
		name, ok := k.covering(key.Namespace)
		if !ok || !k.needs([]string{name}) {
			continue
		}
		read++
		heads, ok := clientgo.HeadsOf(k.scopes[name].informer)
		if !ok {
			return 0, false, errNotSynced
		}
		if head, has := heads.Get(key); has {
			return s.scope.Key.Hash(head), true, nil
		}
	}
	if read > 0 {
		return 0, false, nil
	}
	k, err := s.cache.kind(s.form) // it has not been read in this namespace yet, or its informer was removed
	if err != nil {
		return 0, false, err
	}
	name, ok := k.covering(key.Namespace)
	if !ok {
		return 0, false, nil
	}
	s.cache.need(k, []string{name})
	return 0, false, errNotSynced
}
