package controller_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

type podPredicate = controller.Predicate[*corev1.Pod]

// A nil predicate used to be called for each event, and failed each time.
func TestNilPredicatesAreRefusedAtOnce(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		all := controller.On[*corev1.Pod](sharedinformer.Add)
		for _, none := range []podPredicate{nil, controller.PredicateFunc[*corev1.Pod](nil), controller.HeadPredicate[*corev1.Pod](nil)} {
			for _, s := range []controller.Source{
				controller.For(pods.Informer(), all, none),
				controller.Owns(pods.Informer(), pods, all, none),
				controller.MapFunc(pods.Informer(), func(*corev1.Pod) []controller.Request { return nil }, all, none),
				controller.Handle(pods.Informer(), func(context.Context, sharedinformer.Event[*corev1.Pod], *controller.Inbox) error { return nil }, all, none),
			} {
				require.EqualError(e, s.Err(), "predicate 2 of 2 is nil")
			}
			const mistake = ": predicate 1 of 1 is nil"
			require.PanicsWithValue(e, failure.Place(0)+mistake, func() { controller.And(none) })
			require.PanicsWithValue(e, failure.Place(0)+mistake, func() { controller.Or(none) })
			require.PanicsWithValue(e, failure.Place(0)+mistake, func() { controller.Not(none) })
		}
		const nothing = ": the predicate's function is nil"
		require.PanicsWithValue(e, failure.Place(0)+nothing, func() { controller.Selected[*corev1.Pod](nil) })
		require.PanicsWithValue(e, failure.Place(0)+nothing, func() { controller.Changed[*corev1.Pod, string](nil) })
		require.Panics(e, func() { controller.Labelled[*corev1.Pod](nil) })
		c, err := controller.New("pods", controller.Objects(pods, func(context.Context, *corev1.Pod) (controller.Result, error) { return controller.Result{}, nil }), controller.Options{})
		require.NoError(e, err)
		c.Watch(controller.For(pods.Informer(), podPredicate(nil)))
		require.ErrorContains(e, c.Run(e.Context()), "predicate 1 of 1 is nil")
	})
}

// Without the kind of the owners, every event of an object with an owner would fail.
func TestNilKindsOfOwnersAreRefusedAtOnce(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		var none *controller.Client[*corev1.Pod]
		for _, kind := range []controller.Kind{nil, none} {
			require.ErrorContains(e, controller.Owns(pods.Informer(), kind).Err(), "the owner kind is nil")
			require.ErrorContains(e, controller.OwnsAny(pods.Informer(), kind).Err(), "the owner kind is nil")
		}
	})
}

func TestUnprintableNamesAreRefused(t *testing.T) {
	nothing := controller.Func(func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil })
	for _, name := range []string{"a\x1b[2J", "a\nb", "a\xff", "a\u202eb"} {
		_, err := controller.New(name, nothing, controller.Options{})
		require.ErrorContains(t, err, "control characters")
		require.NotContains(t, err.Error(), name)
	}
}

func TestNoFunctionChangesNothing(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods, ctx, p := controller.ClientFor[*corev1.Pod](e.Factory), e.Context(), pod("a")
		const mistake = ": the function that is to change the object is nil"
		require.PanicsWithValue(e, failure.Place(0)+mistake, func() { _, _ = controller.Patch(ctx, pods, p, nil) })
		require.PanicsWithValue(e, failure.Place(0)+mistake, func() { _, _ = controller.PatchLocked(ctx, pods, p, nil) })
		require.PanicsWithValue(e, failure.Place(0)+mistake, func() { _, _ = controller.PatchStatus(ctx, pods, p, nil) })
		require.PanicsWithValue(e, failure.Place(0)+mistake, func() { _, _, _ = controller.CreateOrUpdate(ctx, pods, p, nil) })
		require.PanicsWithValue(e, failure.Place(0)+mistake, func() { _, _ = pods.Resource().Change(ctx, object.KeyOf(p), nil, rest.ChangeOptions{}) })
	})
}
