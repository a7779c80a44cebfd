package debug_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func waitInHandler(ctx context.Context)   { <-ctx.Done() }
func waitInReconcile(ctx context.Context) { <-ctx.Done() }

// A process may report a stack without frames.
func TestAStackWithoutFrames(t *testing.T) {
	require.Equal(t, "an unknown function", (&debug.Stack{Count: 1}).Where())
}

// A hanging handler or reconciler is reported with its key and its position in the
// code.
func TestTheKeyAndThePlaceOfACallThatBlocks(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		pods.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(ctx context.Context, event sharedinformer.Event[*corev1.Pod]) error {
			if event.Object.Name == "blocks" {
				waitInHandler(ctx)
			}
			return nil
		}))
		c, err := controller.New("keeper", controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			waitInReconcile(ctx)
			return controller.Result{}, nil
		}), controller.Options{})
		require.NoError(e, err)
		c.Watch(controller.For(pods))
		e.Start(c)
		controllertest.Put(e, pod("shop", "blocks", ""))
		controllertest.Put(e, pod("shop", "waits", ""))
		e.Settle(time.Minute)
		process := debug.New(debug.Options{Informers: debug.Of(e.Factory), Controllers: func() []controller.View { return []controller.View{c} }}).Client()
		status, err := process.Status(e.Context())
		require.NoError(e, err)
		h := status.Informers[0].Handlers[0]
		require.Equal(e, object.Key{Namespace: "shop", Name: "blocks"}, h.Key)
		require.Equal(e, time.Minute, h.Busy)
		require.Zero(e, status.Informers[0].Handlers[1].Key, "the other one is in no call")
		why, err := process.Why(e.Context(), "pods", "", object.Key{Namespace: "shop", Name: "waits"})
		require.NoError(e, err)
		require.Regexp(e, `^shop/waits has been waiting for a worker of keeper for 1m0s, behind 0 others; 1 of 1 workers are busy, one with shop/blocks for 1m0s\. It is in debug_test\.waitInReconcile \(stacks_test\.go:20\)\.$`, why.Reasons[0].Text)
		require.Regexp(e, ` Its call for shop/blocks has taken 1m0s so far\. It is in debug_test\.waitInHandler \(stacks_test\.go:19\)\.$`, why.Reasons[1].Text)
		all, err := process.Stacks(e.Context(), "keeper")
		require.NoError(e, err)
		require.Len(e, all.Stacks, 1)
		require.Equal(e, "keeper", all.Stacks[0].Controller)
		require.Contains(e, all.Stacks[0].Frames[0], "waitInReconcile (stacks_test.go:20)")
		require.Len(e, all.Stacks[0].Frames, 2, "of the library there are none: %v", all.Stacks[0].Frames)
	})
}
