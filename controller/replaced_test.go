package controller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func (s *slotsOfOurs) gain(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned = s.owned.Union(shard.NewSlots(someSlots, slot))
	close(s.changed)
	s.changed = make(chan struct{})
}

// A sharded source is replaced without a gap: the new one is added before the old one is removed and its informer
// stops. The old informer never holds a slot that is gained afterwards, and must not be waited for. The same holds if
// the other source is for another cluster.
func TestL27_StoppedInformerOfARemovedSourceHoldsNoGainedSlotBack(t *testing.T) {
	for name, cluster := range map[string]string{"replaced": "", "in another cluster": "west"} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				const gained, kept = 3, 40
				share := newSlotsOfOurs()
				share.lose(gained)
				run := func() (i *sharedinformer.Informer[*corev1.Pod], stop func()) {
					i = sharedinformer.New[*corev1.Pod](rest.ResourceFor[*corev1.Pod](e.Client).Source(), sharedinformer.Options{Shard: shard.Scope{Share: share}})
					ctx, cancel := context.WithCancel(e.Context())
					ended := make(chan struct{})
					go func() { defer close(ended); _ = i.Run(ctx) }()
					return i, func() { cancel(); <-ended }
				}
				older, stopOlder := run()
				newer, stopNewer := run()
				defer stopNewer()
				j := &journal{}
				c := newController(e, j, controller.Options{}, controller.For(newer))
				remove := c.Watch(controller.For(older).InCluster(cluster))
				e.Start(c)
				controllertest.Put(e, podOf("a", gained))
				controllertest.Put(e, podOf("b", kept))
				e.Settle(time.Minute)
				require.Contains(e, j.read(), "shop/b")
				<-remove()
				stopOlder()
				share.gain(gained)
				e.Settle(time.Hour)
				require.Equal(e, []string{"shop/a"}, j.read(), "%d checks found the slot not held", c.Status().Held)
			})
		})
	}
}

// The same, and then a label moves an object to another process. The stopped informer still has it, but that must not
// make a request that is due look like one for a deleted object.
func TestS03_ObjectThatMovedAfterItsSourceWasReplacedDoesNotLookDeleted(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		key := shard.ByLabel("shop")
		in := func(slot int) *corev1.Pod {
			for n := 0; ; n++ {
				p := pod("a", func(p *corev1.Pod) { p.Labels = map[string]string{"shop": fmt.Sprint(n)} })
				if shard.SlotOf(key.Hash(p), someSlots) == slot {
					return p
				}
			}
		}
		const ours, others = 40, 3
		share := newSlotsOfOurs()
		share.lose(others)
		of := shard.Scope{Share: share, Key: key}
		older := sharedinformer.New[*corev1.Pod](rest.ResourceFor[*corev1.Pod](e.Client).Source(), sharedinformer.Options{Shard: of})
		ctx, cancel := context.WithCancel(e.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = older.Run(ctx) }()
		newer := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: of}})
		deleted := false
		c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			_, err := newer.Read(ctx, req.Key)
			deleted = deleted || apierrors.IsNotFound(err)
			return controller.Result{RequeueAfter: time.Hour}, nil
		}), controller.Options{}, controller.For(newer))
		remove := c.Watch(controller.For(older))
		e.Start(c)
		controllertest.Put(e, in(ours))
		e.Settle(time.Minute)
		<-remove()
		cancel()
		<-ended
		deleted = false // the older informer may have been ahead of the newer one
		controllertest.Put(e, in(others))
		e.Settle(3 * time.Hour)
		require.False(e, deleted, "it still exists")
	})
}

// Once the sharded source of one cluster has been removed, the unsharded source of another one does not need a slot.
func TestL27_UnshardedSourceAfterAShardedOneWasRemoved(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		share := newSlotsOfOurs()
		sharded := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share}}})
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.Channel("idle", make(chan int), func(context.Context, int) ([]controller.Request, error) { return nil, nil }))
		remove := c.Watch(controller.For(sharded).InCluster("west"))
		e.Start(c)
		<-remove()
		c.Watch(controller.For(factory.Informer[*corev1.Pod](e.Factory)))
		controllertest.Put(e, pod("a"))
		e.Settle(time.Hour)
		require.NoError(e, c.Err())
		require.Equal(e, []string{"shop/a"}, j.read(), "%d requests were taken for another process's", c.Status().Elsewhere)
	})
}

// remove may be called more than once, even in a later run: a source that was removed before that run has no requests in
// its queue, so the requests of other sources do not wait for a slot.
func TestL27_RemovingAShardedSourceAgainInALaterRunDropsNothing(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		sharded := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: newSlotsOfOurs()}}})
		j, values := &journal{}, make(chan string)
		c := newController(e, j, controller.Options{}, controller.Channel("values", values, func(_ context.Context, name string) ([]controller.Request, error) {
			return []controller.Request{{Key: object.Key{Namespace: "shop", Name: name}}}, nil
		}))
		remove := c.Watch(controller.For(sharded))
		stop := e.Start(c)
		<-remove()
		stop()
		e.Start(c)
		values <- "a"
		e.Settle(time.Minute)
		require.Equal(e, []string{"shop/a"}, j.read())
		<-remove()
		values <- "b"
		e.Settle(time.Minute)
		require.Equal(e, []string{"shop/b"}, j.read(), "%d requests were taken for another process's", c.Status().Elsewhere)
	})
}
