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

// ResourceOptions configure NewInformerFor. The zero value is valid.
type ResourceOptions struct {
	ResyncPeriod time.Duration
	Indexers     cache.Indexers

	// Tweak changes the options of every list and watch, for example to set selectors.
	Tweak func(*metav1.ListOptions)

	// Pages reads the initial state with an ordinary list even if the server could stream it. Later lists are
	// paged.
	Pages bool

	// Pool lets objects share equal values. Informers with a transform ignore it, because a transform may
	// modify objects. If Pool is nil, nothing is shared.
	Pool *wire.Pool

	// Store sets how objects are cached; see WithStore.
	Store sharedinformer.Store

	// Snapshot is where the informer saves its objects for the next process; see sharedinformer.Options.
	// Informers with a transform or a Shard do not save their objects.
	Snapshot *snapshot.Directory

	// Shard selects this process's share of the objects; see sharedinformer.Options. The zero value
	// selects all of them.
	//
	// When an object moves to another process, it leaves the store without a call to OnDelete, because it was
	// not deleted (S03). Handlers that need to be notified implement MoveHandler. When an object moves to
	// this process, OnAdd is called, but not as part of the initial list. As a result, a handler may receive
	// two consecutive OnAdd calls for the same object.
	Shard shard.Scope
}

// NewInformerFor returns an informer with client-go's interface for a Millrace resource. It decodes
// objects directly from the response bytes.
func NewInformerFor[T object.Object](objects *rest.Resource[T], opts ResourceOptions) cache.SharedIndexInformer {
	name := objects.String()
	i := newInformer(name, opts.ResyncPeriod, opts.Indexers)
	i.holds = reflect.TypeFor[T]().String()
	if origin, ok := objects.Source().Describe().Origin(); ok { // if T is an interface, the origin has the actual type
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

// WaitForHandlers waits until each current handler of informer has received every object of its initial
// list, or has stopped. It returns ctx's cause if ctx is done first. If informer is not a Millrace
// informer, it returns immediately.
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
			select { // both may be ready
			case <-r.synced.Done():
			case <-r.ended:
			default:
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
