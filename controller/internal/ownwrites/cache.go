package ownwrites

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// cache is the part of [Cache] that a [Barrier] uses. Values compare equal if they wrap the same
// informer.
type cache interface {
	// reached reports whether the cache has seen all changes in a namespace up to a resource version. It
	// also returns true if the cache does not have to see them.
	reached(namespace, rv string) bool
	// wait calls done after every change until it returns true. It fails if the informer does.
	wait(ctx context.Context, done func() bool) error
	// heard returns the number of messages received by the watch of a namespace.
	heard(namespace string) uint64
	// reconnect reopens a namespace's watch if it has been open for at least d and has received nothing
	// since heard was read.
	reconnect(namespace string, heard uint64, d time.Duration, why error)
	name() string
}

// Cache is an informer's cache.
type Cache struct {
	informer *sharedinformer.Informer[object.Object]
}

// Of returns i's cache.
func Of(i *sharedinformer.Informer[object.Object]) Cache { return Cache{i} }

// removed reports whether the server removed o as a result of this write: o is being deleted and has
// neither finalizers nor a grace period. Namespaces also have finalizers in their spec, which may be unknown if o has
// only the kept fields. See https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
func removed(o object.Object, kind object.GVK, kept wire.Fields) bool {
	if kind.Group == "" && kind.Kind == "Namespace" && !(kept.KeepsAll("spec.finalizers") && finalized(o)) {
		return false
	}
	grace := o.GetDeletionGracePeriodSeconds()
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// finalized reports whether a Namespace's spec has no finalizers.
func finalized(namespace object.Object) bool {
	switch n := namespace.(type) {
	case *corev1.Namespace:
		return len(n.Spec.Finalizers) == 0
	case *unstructured.Unstructured:
		left, _, err := unstructured.NestedSlice(n.Object, "spec", "finalizers")
		return err == nil && len(left) == 0
	}
	return false // its type has no spec
}

// Version returns a write to the object under key. The cache has seen it once it has reached that resource
// version.
func (c Cache) Version(key object.Key, rv string) Write {
	return Write{cache: c, about: key, rv: rv}
}

// Deletion returns the deletion of the object with the given key and UID. If the UID is empty, the cache
// has seen the deletion once it contains no object under key.
func (c Cache) Deletion(key object.Key, uid types.UID) Write {
	cached := c.informer.Heads()
	return Write{cache: c, about: key, uid: uid, gone: func() bool {
		o, ok := cached.Get(key)
		return !ok || uid != "" && o.GetUID() != uid || o.GetDeletionTimestamp() != nil
	}}
}

// Conflict returns a write that failed with a conflict. The cache has seen it once it no longer contains
// the version that was sent.
func (c Cache) Conflict(key object.Key, sent string) Write {
	cached := c.informer.Heads()
	return Write{cache: c, about: key, sent: sent, gone: func() bool {
		o, ok := cached.Get(key)
		return !ok || o.GetResourceVersion() != sent
	}}
}

// UID returns the UID of the cached object under key, or "" if there is none. Call it before deleting the object;
// afterwards, the cache may already contain a new object with the same key.
func (c Cache) UID(key object.Key) types.UID {
	if o, cached := c.informer.Heads().Get(key); cached {
		return o.GetUID()
	}
	return ""
}

func (c Cache) reached(namespace, rv string) bool {
	have := c.informer.Cache().NamespaceRV(namespace)
	if have != "" && object.ReachedRV(have, rv) {
		return true
	}
	return !c.informer.Watches(namespace) // check now, since the informer's namespaces may change
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
