package controller_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// The client itself waits for at most half a minute, so it is the controller that would retry after
// milliseconds.
func TestL19_ReconcileIsRetriedWhenTheServerAsksForIt(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		var mu sync.Mutex
		var causes []controller.CauseType
		begun := func() []controller.CauseType {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(causes)
		}
		c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			why := controller.Causes(ctx)
			mu.Lock()
			causes = append(causes, why[len(why)-1].Type)
			mu.Unlock()
			p, _ := pods.Get(req.Key)
			p = p.DeepCopy()
			p.Labels = map[string]string{"seen": "yes"}
			_, err := pods.Update(ctx, p)
			return controller.Result{}, err
		}), controller.Options{}, controller.For(pods.Informer(), controller.PredicateFunc[*corev1.Pod](func(e sharedinformer.Event[*corev1.Pod]) bool { return e.Object.Labels["seen"] == "" })))
		e.Start(c)
		e.Server.Faults().Add(apiservertest.Fault{Verb: "update", Count: 2, Do: []apiservertest.Action{apiservertest.Fail{Code: 429, RetryAfter: "40"}}})
		controllertest.Put(e, pod("a"))
		e.Settle(39 * time.Second)
		require.Equal(e, []controller.CauseType{controller.Created}, begun())
		controllertest.Put(e, pod("a", labelled("x", "y")))
		require.Equal(e, []controller.CauseType{controller.Created, controller.Updated}, begun(), "a newer change does not wait")
		e.Settle(39 * time.Second)
		require.Len(e, begun(), 2)
		e.Settle(11 * time.Second)
		require.Equal(e, []controller.CauseType{controller.Created, controller.Updated, controller.Failed}, begun())
		require.Equal(e, "yes", controllertest.Get[*corev1.Pod](e, request("a").Key).Labels["seen"])
	})
}

func TestL19_SourcesAndMapFunctionsAreRetriedWhenTheServerAsksForIt(t *testing.T) {
	busy := apierrors.NewTooManyRequests("busy", 40)
	first := func(calls *atomic.Int32) error {
		if calls.Add(1) == 1 {
			return errors.Join(errors.New("asked a server"), busy)
		}
		return nil
	}
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		var mapped, run atomic.Int32
		c := newController(e, &journal{}, controller.Options{},
			controller.Map(pods.Informer(), func(context.Context, *corev1.Pod) ([]controller.Request, error) { return nil, first(&mapped) }),
			controller.SourceFunc("runs", func(context.Context, *controller.Inbox) error { return first(&run) }))
		e.Start(c)
		controllertest.Put(e, pod("a"))
		e.Settle(39 * time.Second)
		require.Equal(e, []int32{1, 1}, []int32{mapped.Load(), run.Load()})
		e.Settle(12 * time.Second)
		require.Equal(e, []int32{2, 2}, []int32{mapped.Load(), run.Load()})
	})
}
