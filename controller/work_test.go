package controller_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// oneSlot is a share that owns one slot, which it can lose.
type oneSlot struct {
	mu      sync.Mutex
	owned   shard.Slots
	changed chan struct{}
	term    context.Context
	end     context.CancelCauseFunc
}

func newOneSlot() *oneSlot {
	s := &oneSlot{owned: shard.AllSlots(1), changed: make(chan struct{})}
	s.term, s.end = context.WithCancelCause(context.Background())
	return s
}

func (s *oneSlot) Owned() (shard.Slots, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned, s.changed
}

func (s *oneSlot) Term(slot int) (shard.Token, bool) {
	owned, _ := s.Owned()
	return shard.Token{Slot: slot, Epoch: 1}, owned.Has(slot)
}

func (s *oneSlot) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	if owned, _ := s.Owned(); !owned.HasHash(hash) {
		return nil, nil, shard.ErrNotOurs
	}
	working, cancel := context.WithCancelCause(shard.WithToken(ctx, shard.Token{Epoch: 1}))
	stop := context.AfterFunc(s.term, func() { cancel(context.Cause(s.term)) })
	return working, func() { stop(); cancel(nil) }, nil
}

// lose takes the slot away, as an election does when the lease was not renewed in time.
func (s *oneSlot) lose() {
	s.end(shard.ErrLost)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned = shard.NewSlots(1)
	close(s.changed)
	s.changed = make(chan struct{})
}

// S03: a move is not a deletion. A reconcile that loses its slot while it runs does not see its object
// as deleted. Otherwise it might clean up, and no guard would stop it.
func TestS03_ReadInALostSlotFails(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		share := newOneSlot()
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share}}})
		p := controllertest.Put(e, pod("a"))
		var before, after error
		var cause error
		done := make(chan struct{})
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			defer close(done)
			_, before = pods.Read(ctx, req.Key)
			time.Sleep(time.Minute) // a call to another system, during which the slot is lost
			cause = context.Cause(ctx)
			_, after = pods.Read(ctx, req.Key)
			return controller.Result{}, after
		})
		e.Start(newController(e, r, controller.Options{}, controller.For(pods.Informer())))
		e.Settle(10 * time.Second)
		share.lose()
		e.Settle(2 * time.Minute)
		<-done
		require.NoError(e, before)
		require.ErrorIs(e, cause, shard.ErrLost)
		_, err := e.Server.Get(corev1.SchemeGroupVersion.WithResource("pods"), object.KeyOf(p))
		require.NoError(e, err, "it is there")
		require.ErrorIs(e, after, shard.ErrLost)
		require.False(e, apierrors.IsNotFound(after))
	})
}
