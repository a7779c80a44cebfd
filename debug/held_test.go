package debug_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// late is a share that gets its only slot when told.
type late struct {
	mu      sync.Mutex
	owned   shard.Slots
	changed chan struct{}
}

func (l *late) Owned() (shard.Slots, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owned, l.changed
}

func (l *late) Term(slot int) (shard.Token, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return shard.Token{Slot: slot, Epoch: 1}, l.owned.Has(slot)
}

func (l *late) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.owned.HasHash(hash) {
		return nil, nil, shard.ErrNotOurs
	}
	return shard.WithToken(ctx, shard.Token{Epoch: 1}), func() {}, nil
}

func (l *late) gain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owned = shard.AllSlots(1)
	close(l.changed)
	l.changed = make(chan struct{})
}

// A request waits because one cache cannot list the objects of a slot that was gained. No reconcile asked for the delay.
func TestWhyNamesTheCacheThatLacksASlot(t *testing.T) {
	recorder := flight.New(flight.DefaultSize)
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Flight: recorder}}, func(e *controllertest.Env) {
		share := &late{owned: shard.NewSlots(1), changed: make(chan struct{})}
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share}}})
		maps := factory.InformerWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Shard: shard.Scope{Share: share, Key: shard.ByOwner()}}})
		c, err := controller.New("keeper", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		}), controller.Options{Flight: recorder})
		require.NoError(e, err)
		c.Watch(controller.For(pods))
		c.Watch(controller.Awaited(maps))
		controllertest.Put(e, pod("shop", "p", ""))
		e.Start(c)
		e.Settle(time.Minute)
		e.Server.SetAuthorizer(apiservertest.Deny("", "configmaps"))
		share.gain()
		e.Settle(10 * time.Minute)
		process := debug.New(debug.Options{
			Recorder: recorder, Informers: debug.Of(e.Factory), Controllers: func() []controller.View { return []controller.View{c} },
		})
		why, err := attached(process).Why(e.Context(), "", "", object.Key{Namespace: "shop", Name: "p"})
		require.NoError(e, err)
		require.Equal(e, debug.Unsynced, why.Reasons[0].Cause, "%+v", why.Reasons)
		require.Regexp(e, `^The controller keeper received a request for shop/p .+ ago and has not started it: its caches do not have all objects of the slot yet: configmaps \(\*v1\.ConfigMap\): forbidden: `, why.Reasons[0].Text)
	})
}
