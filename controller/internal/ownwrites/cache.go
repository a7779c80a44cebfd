package ownwrites

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// cache is what a Barrier needs of a Cache. Two that are equal are of one informer.
type cache interface {
	// reached reports whether the cache has seen all changes of a namespace up to a
	// resource version, or need not see them.
	reached(namespace, rv string) bool
	// wait waits until done is true, and asks that after every change. It fails
	// where the informer does.
	wait(ctx context.Context, done func() bool) error
	// heard counts what the watch of a namespace has told.
	heard(namespace string) uint64
	// reconnect has the watch of a namespace be opened again, if that has told nothing since
	// heard was read, for d or longer.
	reconnect(namespace string, heard uint64, d time.Duration, why error)
	name() string
}

// Cache is the cache of an informer.
type Cache struct {
	informer *sharedinformer.Informer[object.Object]
}

// Of returns the cache of an informer.
func Of(i *sharedinformer.Informer[object.Object]) Cache { return Cache{i} }

// Answer returns what the cache has to see of a write that the server answered with o of
// the given kind, false if o never reaches the cache. An object that the informer does not
// select reaches it only if it was there before: then the cache loses it. The version of
// an object that the write has removed is no later than the one before it, so the cache
// has to lose the object.
func (c Cache) Answer(o object.Object, kind object.GVK) (w Write, ok bool) {
	key := object.KeyOf(o)
	if _, cached := c.UID(key); !cached && !c.informer.Selects(o) {
		return w, false
	}
	w = Write{cache: c, about: key, rv: o.GetResourceVersion(), alive: o.GetDeletionTimestamp() == nil}
	if removed(o) && !(kind.Group == "" && kind.Kind == "Namespace") { // which has other finalizers, in its spec
		cached, uid := c.informer.Heads(), o.GetUID()
		w.gone = func() bool {
			o, ok := cached.Get(key)
			return !ok || o.GetUID() != uid
		}
	}
	return w, true
}

// removed reports whether the server removes o when it has written it: o is being deleted, has no
// finalizer, and nobody is given time to end it.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
func removed(o object.Object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// Version returns a write of the object under key that the cache has seen when it has
// reached the resource version.
func (c Cache) Version(key object.Key, rv string) Write {
	return Write{cache: c, about: key, rv: rv}
}

// Deletion returns what the cache has to see of the deletion of the object of that UID under key.
// If the UID is empty, the deletion is seen when the cache has no object under key.
func (c Cache) Deletion(key object.Key, uid types.UID) Write {
	cached := c.informer.Heads()
	return Write{cache: c, about: key, uid: uid, gone: func() bool {
		o, ok := cached.Get(key)
		return !ok || uid != "" && o.GetUID() != uid || o.GetDeletionTimestamp() != nil
	}}
}

// Conflict returns what the cache has to see after a conflict: it does not have the version
// that was sent any more.
func (c Cache) Conflict(key object.Key, sent string) Write {
	cached := c.informer.Heads()
	return Write{cache: c, about: key, sent: sent, gone: func() bool {
		o, ok := cached.Get(key)
		return !ok || o.GetResourceVersion() != sent
	}}
}

// UID returns the UID of the cached object under key. Read it before a deletion: afterwards the
// cache may already have the next object of that key.
func (c Cache) UID(key object.Key) (uid types.UID, cached bool) {
	o, cached := c.informer.Heads().Get(key)
	if cached {
		uid = o.GetUID()
	}
	return uid, cached
}

func (c Cache) reached(namespace, rv string) bool {
	have := c.informer.Cache().NamespaceRV(namespace)
	if have == "" {
		return !c.informer.Watches(namespace) // by now: its namespaces may change
	}
	return object.ReachedRV(have, rv)
}

func (c Cache) wait(ctx context.Context, done func() bool) error {
	return c.informer.WaitUntil(ctx, done)
}

func (c Cache) heard(namespace string) uint64 {
	s, _ := c.informer.StatusIn(namespace)
	return heardBy(s)
}

func heardBy(s reflector.Status) uint64 { return s.Events + s.Bookmarks + s.Passed + s.Duplicates }

func (c Cache) reconnect(namespace string, heard uint64, d time.Duration, why error) {
	s, watched := c.informer.StatusIn(namespace)
	if watched && s.State == reflector.Watching && time.Since(s.Since) >= d && heardBy(s) == heard {
		c.informer.Reconnect(why, namespace)
	}
}

func (c Cache) name() string { return c.informer.Name() }
