package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

const finalizer = "example.com/dns"

// The life of an object with our finalizer and another controller's.
func TestFinalize(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		var cleaned []string
		done, fails := false, error(nil)
		cleanup := func(_ context.Context, p *corev1.Pod) (bool, error) {
			cleaned = append(cleaned, p.Name)
			return done, fails
		}
		finalize := func() (*corev1.Pod, error) {
			p, _ := pods.Copy(podA)
			return pods.Finalize(e.Context(), p, finalizer, cleanup)
		}
		sent := func() int { return e.Server.Stats().Requests("patch", "pods") }

		controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/other"} }))
		p, err := finalize()
		require.NoError(t, err)
		require.Equal(t, []string{"example.com/other", finalizer}, p.Finalizers)
		require.Equal(t, p.ResourceVersion, controllertest.Get[*corev1.Pod](e, podA).ResourceVersion, "what follows is not stale")
		e.Settle(0)
		before := sent()
		_, err = finalize()
		require.NoError(t, err)
		require.Equal(t, before, sent())
		require.Empty(t, cleaned)

		controllertest.Delete[*corev1.Pod](e, podA)
		p, err = finalize()
		require.NoError(t, err)
		require.NotNil(t, p.DeletionTimestamp)
		fails = errors.New("no such zone")
		_, err = finalize()
		require.ErrorIs(t, err, fails)
		require.Equal(t, []string{"a", "a"}, cleaned)
		require.Equal(t, before, sent(), "the finalizer stays")

		done, fails = true, errors.New("done, and failed")
		_, err = finalize()
		require.ErrorIs(t, err, fails)
		require.Equal(t, before, sent(), "the finalizer stays")

		fails = nil
		p, err = finalize()
		require.NoError(t, err)
		require.Equal(t, []string{"example.com/other"}, p.Finalizers)
		e.Settle(0)
		_, err = finalize()
		require.NoError(t, err)
		require.Len(t, cleaned, 4, "it is cleaned up already")
	})
}

// A finalizer that another controller adds in the meantime stays, because the patch fails with a
// conflict.
func TestFinalizeKeepsOthersFinalizers(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		done := func(context.Context, *corev1.Pod) (bool, error) { return true, nil }
		controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Finalizers = []string{finalizer} }))
		controllertest.Delete[*corev1.Pod](e, podA)
		stale := controllertest.Get[*corev1.Pod](e, podA)
		fresh := stale.DeepCopy()
		fresh.Labels = map[string]string{"changed": "yes"}
		controllertest.Put(e, fresh)
		_, err := pods.Finalize(e.Context(), stale, finalizer, done)
		require.True(t, apierrors.IsConflict(err), "%v", err)

		controllertest.Put(e, pod("b"))
		b := controllertest.Get[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "b"})
		other := b.DeepCopy()
		other.Finalizers = []string{"example.com/other"}
		controllertest.Put(e, other)
		_, err = pods.Finalize(e.Context(), b, finalizer, done)
		require.True(t, apierrors.IsConflict(err), "%v", err)
		require.Equal(t, []string{"example.com/other"}, controllertest.Get[*corev1.Pod](e, object.KeyOf(b)).Finalizers)
	})
}

// A cleanup that changes the object in memory, its argument or the caller's, changes neither the cache
// nor the patch.
func TestACleanupThatChangesTheObject(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		for _, shared := range []bool{true, false} {
			controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Finalizers = []string{finalizer, "example.com/other"} }))
			controllertest.Delete[*corev1.Pod](e, podA)
			p, _ := pods.Get(podA)
			if !shared {
				p, _ = pods.Copy(podA)
			}
			released, err := pods.Finalize(e.Context(), p, finalizer, func(_ context.Context, given *corev1.Pod) (bool, error) {
				changes := given
				if !shared {
					changes = p
				}
				changes.Labels = map[string]string{"cleaned": "yes"}
				require.True(t, controller.RemoveFinalizer(changes, finalizer))
				return true, nil
			})
			require.NoError(t, err)
			require.Equal(t, []string{"example.com/other"}, released.Finalizers)
			there := controllertest.Get[*corev1.Pod](e, podA)
			require.Equal(t, []string{"example.com/other"}, there.Finalizers, "it is removed at the server")
			require.Empty(t, there.Labels)
			there.Finalizers = nil
			controllertest.Put(e, there)
		}
	})
}

// A cleanup that writes the status is called again after the conflict with its own write.
func TestACleanupThatWrites(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		budgets := controller.ClientFor[*policyv1.PodDisruptionBudget](e.Factory)
		var errs []error
		c, err := controller.New("c", controller.Objects(budgets, func(ctx context.Context, b *policyv1.PodDisruptionBudget) (controller.Result, error) {
			_, err := budgets.Finalize(ctx, b, finalizer, func(ctx context.Context, b *policyv1.PodDisruptionBudget) (bool, error) {
				_, err := controller.SetCondition(ctx, budgets, b, metav1.Condition{Type: "Deleting", Status: metav1.ConditionTrue, Reason: "Deleting"})
				return true, err
			})
			errs = append(errs, err)
			return controller.Result{}, err
		}), controller.Options{})
		require.NoError(t, err)
		c.Watch(controller.For(budgets))
		e.Start(c)
		controllertest.Put(e, budget)
		errs = nil
		controllertest.Delete[*policyv1.PodDisruptionBudget](e, object.KeyOf(budget))
		e.Settle(time.Minute)
		require.Empty(t, controllertest.All[*policyv1.PodDisruptionBudget](e))
		require.Len(t, errs, 2)
		require.True(t, apierrors.IsConflict(errs[0]), "%v", errs[0])
		require.NoError(t, errs[1])
	})
}

func TestFinalizeOfADeletedObject(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		called := 0
		done := func(context.Context, *corev1.Pod) (bool, error) { called++; return true, nil }
		gone := controllertest.Put(e, pod("a"))
		controllertest.Delete[*corev1.Pod](e, podA)
		_, err := pods.Finalize(e.Context(), gone, finalizer, done)
		require.True(t, apierrors.IsNotFound(err), "it must not be worked on: %v", err)

		controllertest.Put(e, pod("a"))
		_, err = pods.Finalize(e.Context(), gone, finalizer, done)
		require.True(t, apierrors.IsConflict(err), "another object of the name gets no finalizer: %v", err)
		require.Empty(t, controllertest.Get[*corev1.Pod](e, podA).Finalizers)

		deleted := controllertest.Put(e, pod("b", func(p *corev1.Pod) { p.Finalizers = []string{finalizer} }))
		controllertest.Delete[*corev1.Pod](e, object.KeyOf(deleted))
		deleted = controllertest.Get[*corev1.Pod](e, object.KeyOf(deleted))
		free := deleted.DeepCopy()
		free.Finalizers = nil
		controllertest.Put(e, free)
		_, err = pods.Finalize(e.Context(), deleted, finalizer, done)
		require.NoError(t, err, "another client has removed the finalizer")
		require.Equal(t, 1, called)
	})
}

// A proxy without a route to the API server, which answers 404, does not know that the object is gone.
func TestAProxyDoesNotSayThatAnObjectIsGone(t *testing.T) {
	secret := corev1.SchemeGroupVersion.WithKind("Secret")
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{DisableFor: []object.GVK{secret}}}, func(e *controllertest.Env) {
		lost := []apiservertest.Action{
			apiservertest.Answer{Code: 404, Body: []byte("404 page not found\n")},
			apiservertest.Header{Name: "Content-Type", Values: []string{"text/plain"}},
		}
		pods, secrets := controller.ClientFor[*corev1.Pod](e.Factory), controller.ClientFor[*corev1.Secret](e.Factory)
		calls := 0
		reconciler := controller.Objects(secrets, func(context.Context, *corev1.Secret) (controller.Result, error) {
			calls++
			return controller.Result{}, nil
		})
		e.Start()
		deleted := controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Finalizers = []string{finalizer} }))
		controllertest.Delete[*corev1.Pod](e, object.KeyOf(deleted))
		deleted = controllertest.Get[*corev1.Pod](e, object.KeyOf(deleted))
		e.Server.Faults().Add(apiservertest.Fault{Verb: "patch", Resource: "pods", Count: 1, Do: lost})
		done := func(context.Context, *corev1.Pod) (bool, error) { return true, nil }
		_, err := pods.Finalize(e.Context(), deleted, finalizer, done)
		require.ErrorContains(e, err, "could not find the requested resource")
		_, err = pods.Finalize(e.Context(), deleted, finalizer, done)
		require.NoError(e, err)

		req := controller.Request{Key: object.KeyOf(controllertest.Put(e, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}))}
		e.Server.Faults().Add(apiservertest.Fault{Verb: "get", Resource: "secrets", Count: 1, Do: lost})
		_, err = reconciler.Reconcile(e.Context(), req)
		require.Error(e, err)
		_, err = reconciler.Reconcile(e.Context(), req)
		require.NoError(e, err)
		require.Equal(e, 1, calls)
	})
}

func TestInvalidFinalize(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		parts := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Keep: wire.Only("metadata.labels"), Scope: factory.Scope{Namespaces: []string{"shop"}}})
		e.Start()
		done := func(context.Context, *corev1.Pod) (bool, error) { return true, nil }
		_, err := pods.Finalize(e.Context(), nil, finalizer, done)
		require.ErrorContains(t, err, "the object is nil")
		p := controllertest.Put(e, pod("a"))
		_, err = pods.Finalize(e.Context(), p, "", done)
		require.ErrorContains(t, err, "finalize pods shop/a: the finalizer is empty: use a name")
		part, ok := parts.Copy(podA)
		require.True(t, ok)
		_, err = parts.Finalize(e.Context(), part, finalizer, done)
		require.ErrorContains(t, err, "the cached metadata.finalizers may be incomplete")
		func() {
			defer func() {
				require.Regexp(t, `^controller/finalize_test.go:\d+: the cleanup function passed to Finalize is nil$`, recover())
			}()
			_, _ = pods.Finalize(e.Context(), p, finalizer, nil)
		}()

		p.Finalizers, p.UID = []string{finalizer}, types.UID("")
		p = controllertest.Put(e, p)
		controllertest.Delete[*corev1.Pod](e, podA)
		p = controllertest.Get[*corev1.Pod](e, podA)
		require.Panics(t, func() {
			_, _ = pods.Finalize(e.Context(), p, finalizer, func(context.Context, *corev1.Pod) (bool, error) { panic("broken") })
		})
		require.Equal(t, []string{finalizer}, controllertest.Get[*corev1.Pod](e, podA).Finalizers)
	})
}
