package clientgo

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// ResourceOptions configure NewInformerFor. The zero value works.
type ResourceOptions struct {
	ResyncPeriod time.Duration
	Indexers     cache.Indexers

	// Tweak changes the options of every list and watch, to set selectors for
	// example.
	Tweak func(*metav1.ListOptions)

	// Pages lists in pages even where the server could stream a list.
	Pages bool

	// Pool is where equal parts of objects are there once. It is not used where
	// a transform is set, which may change objects. Nil shares nothing.
	Pool *wire.Pool

	// Store says how objects are cached; see WithStore.
	Store sharedinformer.Store

	// Snapshot is where the informer keeps what it has for the next process; see
	// sharedinformer.Options. Informers with a transform or a share have none.
	Snapshot *snapshot.Directory

	// Shard is what of the objects this process has, where processes share them; see
	// sharedinformer.Options. The zero value is all of them.
	//
	// An object that moves to another process leaves the store. OnDelete is not called, since
	// nothing has happened to it (S03); a handler that wants to know is a MoveHandler. One
	// that comes is told by OnAdd, and is not of the initial list. So a handler may hear
	// OnAdd of one object twice, and nothing between.
	Shard shard.Scope
}

// NewInformerFor returns an informer, with the surface of client-go's, of the
// objects of a resource of a Millrace client. They are decoded straight from
// the bytes.
func NewInformerFor[T object.Object](objects *rest.Resource[T], opts ResourceOptions) cache.SharedIndexInformer {
	name := objects.String()
	i := newInformer(name, opts.ResyncPeriod, opts.Indexers)
	i.holds = reflect.TypeFor[T]().String()
	if origin, ok := objects.Source().Describe().Origin(); ok { // it knows what an interface holds
		i.holds = origin.Type.String()
	}
	i.lists, i.caches, i.snapshots, i.shard = opts.Pages, opts.Store, opts.Snapshot, opts.Shard
	i.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, i.store, cache.ReflectorOptions{Name: name, TypeDescription: name})
	i.open = func(transform transform) source.ListerWatcher {
		if transform != nil {
			return transform(narrowed(objects.Source(), opts.Tweak))
		}
		return narrowed(objects.Sharing(opts.Pool).Source(), opts.Tweak)
	}
	return i
}

// WaitForHandlers waits until each handler that informer has by now has heard of
// every object of its initial list, or is called no more. The error is the cause
// of ctx. An informer that is not Millrace's is not waited for.
func WaitForHandlers(ctx context.Context, informer cache.SharedIndexInformer) error {
	c, ok := informer.GetController().(controller)
	if !ok {
		return nil
	}
	c.mu.Lock()
	handlers := slices.Collect(maps.Keys(c.handlers))
	c.mu.Unlock()
	for _, r := range handlers {
		select {
		case <-r.synced.Done():
		case <-r.ended:
		case <-ctx.Done():
			select { // several at once
			case <-r.synced.Done():
			case <-r.ended:
			default:
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
