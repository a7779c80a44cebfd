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

// Sharded returns a reconciler that calls r for this process's share of the objects of a kind,
// and drops requests for all others. The cache is that of the manager, made with
// Options.Shards, which has the scope of the kind that is reconciled, and of each
// kind that it owns: those of For and Owns of the builder. Where the share of the first is nil
// nothing is shared, and Sharded returns r.
//
//	r, err := millrace.Sharded(m.GetCache(), &reconciler{m.GetClient()}, &v1.Cart{}, &corev1.ConfigMap{})
//	err = ctrl.NewControllerManagedBy(m).For(&v1.Cart{}).Owns(&corev1.ConfigMap{}).Complete(r)
//
// It fails where a kind has no scope or another share, and where owners and what they own
// would be in different processes (shard.Key.Follows).
//
// At any moment r works in one process at most on what is in one slot (S01). Its context
// carries the shard.Token, and ends when the slot is lost, with a cause that wraps
// shard.ErrLost or shard.ErrMoved. An error that r returns then is dropped: the process that
// has the slot begins anew. A request waits until every informer of the kinds holds the slot,
// from 20 ms to 5 s at a time, so that r sees what the process before has written (S04). Let r
// read with the context that it is given: then a Get or List of a shared kind whose objects
// have left the cache is an error, and never "not found". However r ends, also by a panic or
// runtime.Goexit, the slot is left.
//
// What controller-runtime's interfaces do not let it do:
//
//   - A request has no UID. So by shard.ByUID, and by anything else but shard.ByNamespace, nobody
//     knows whose an object was that is gone: its deletion is reconciled by nobody. What must
//     be done then belongs under a finalizer. By namespace a deletion is reconciled, unless
//     the slot is lost just then. In the same way requests for what is no object, such as a
//     name that stands for everything, come by namespace alone.
//   - A controller that runs with the elected leader alone works on its own share alone, and
//     nobody on the rest: where there is leader election, set NeedLeaderElection of
//     controller.Options to false. Nor are sources seen: those of Watches, whose kinds are not
//     named here, are not waited for.
//   - A dropped request counts as a success in controller-runtime's metrics, and one that waits
//     as requeued.
//   - Reads with another context, such as context.Background, take what has moved for deleted.
//   - client.CacheOptions.EnableReadYourWritesConsistency waits for objects that may be
//     another process's, until the context of a read is done. Leave it off.
func Sharded(from cache.Cache, r reconcile.Reconciler, reconciles client.Object, owns ...client.Object) (reconcile.Reconciler, error) {
	c, ok := from.(*Cache)
	switch {
	case r == nil:
		return nil, errors.New("share a reconciler: it is nil")
	case !ok:
		return nil, fmt.Errorf("share a reconciler: a %T shares nothing: set ctrl.Options.NewCache to NewCache of Options with Shards", from)
	}
	f, err := c.formOf(reconciles)
	if err != nil {
		return nil, fmt.Errorf("share a reconciler: %T: %w", reconciles, err)
	}
	s := &sharded{cache: c, next: r, form: f, kinds: map[schema.GroupKind]bool{f.gvk.GroupKind(): true}}
	if s.scope, ok = c.shards[f.gvk.GroupKind()]; !ok {
		return nil, fmt.Errorf("share a reconciler: %v has no scope: name it in Options.Shards", f.gvk.GroupKind())
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

// sharded is a reconciler of a share.
type sharded struct {
	cache *Cache
	next  reconcile.Reconciler
	form  form // of what is reconciled
	scope shard.Scope
	plain bool                      // the form has no namespaces
	kinds map[schema.GroupKind]bool // that must hold a slot before work begins in it
	waits sharding.Waits
	reads sharding.Waits // of reads of other kinds, which go on while the slot is entered anew
}

// parted says why what is owned cannot have a scope; nil if it can.
func (s *sharded) parted(owned shard.Scope) error {
	switch {
	case owned.Everything() && s.scope.Everything():
		return nil
	case owned.Everything():
		return errors.New("what is owned is whole in every process, and the owners are shared: give it the same share in Options.Shards")
	case owned.Share != s.scope.Share:
		return errors.New("the two do not have the same share: give both one in Options.Shards")
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
	case in == nil: // if there is no wait either, it is another process's
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	defer func() {
		if err := in.Leave(); err != nil {
			log.FromContext(ctx).Error(err, "The slot may not be left", failure.Stack(err)...)
		}
	}()
	result, err := s.next.Reconcile(withWork(in.Context, in), req)
	switch {
	case err == nil:
	case errors.Is(err, sharding.ErrNotHeld):
		return reconcile.Result{RequeueAfter: s.reads.Next(in.Token)}, nil
	case errors.Is(err, errElsewhere), sharding.Over(in.Context):
		return reconcile.Result{}, nil // the process that has it now begins anew
	}
	return result, err
}

// enter enters the share for a request. It returns no work where that is another process's, or, with
// a wait, where it is too early.
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
		return !slices.ContainsFunc(s.cache.all(), func(k *kind) bool { return s.kinds[k.gvk.GroupKind()] && !k.holds(hash) })
	})
	if in == nil {
		return nil, wait, err
	}
	return &work{Work: in, kind: s.form.gvk.GroupKind(), key: key}, 0, nil
}

// hashOf returns the hash of the object of a key. By namespace it is that of the key alone,
// so that a deletion is known too; otherwise that of the object, if the cache has it.
// It fails with errNotSynced where that cannot be said yet.
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
		read++
		name, ok := k.covering(key.Namespace)
		if !ok {
			continue
		}
		heads, ok := clientgo.HeadsOf(k.scopes[name].informer)
		if !ok {
			return 0, false, errNotSynced
		}
		if head, has := heads.Get(key); has {
			return s.scope.Key.Hash(head), true, nil
		}
	}
	if read == 0 { // nobody has read the kind, or its informer was removed
		if _, err = s.cache.kind(s.form); err == nil {
			err = errNotSynced
		}
	}
	return 0, false, err
}
