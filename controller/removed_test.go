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
	"github.com/millrace-dev/millrace/shard"
)

// The sharded source is removed, as Controller.Watch allows, while it has requests in the queue. They belong to slots that
// are now unknown, so they are not reconciled: another process may do that, and objects that have moved would look
// deleted (S01, S03). A new source delivers their objects again.
func TestS01_RequestsOfARemovedSourceAreNotReconciledWithoutASlot(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		const lost, kept = 3, 40
		share := newSlotsOfOurs()
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share}}})
		var seen []string
		j := &journal{do: func(ctx context.Context, req controller.Request) (controller.Result, error) {
			token, ours := shard.TokenOf(ctx)
			_, err := pods.Read(ctx, req.Key)
			seen = append(seen, fmt.Sprintf("%s in %d, ours %t, deleted %t", req.Name, token.Slot, ours, apierrors.IsNotFound(err)))
			return controller.Result{RequeueAfter: time.Hour}, nil
		}}
		c := newController(e, j, controller.Options{})
		remove := c.Watch(controller.For(pods))
		controllertest.Put(e, podOf("a", lost))
		e.Start(c)
		controllertest.Put(e, podOf("b", kept))
		e.Settle(time.Minute)
		require.ElementsMatch(e, []string{"a in 3, ours true, deleted false", "b in 40, ours true, deleted false"}, seen)
		seen = nil
		remove()
		share.lose(lost) // another process acquires it
		e.Settle(90 * time.Minute)
		require.Empty(e, seen)
		c.Watch(controller.For(pods))
		e.Settle(time.Minute)
		require.Equal(e, []string{"b in 40, ours true, deleted false"}, seen)
	})
}
