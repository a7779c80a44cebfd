package controller_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Objects that the cache holds in part, or transformed, never replace whole ones.
func TestPartialObjectsAreNotWrittenBack(t *testing.T) {
	for name, of := range map[string]factory.For[*corev1.Pod]{
		"kept in part": {Keep: wire.Only("metadata.labels", "status.phase")},
		"transformed": {Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			p.Annotations, p.Spec, p.Status = nil, corev1.PodSpec{}, corev1.PodStatus{Phase: p.Status.Phase}
			return p, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				pods := controller.ClientWith(e.Factory, of)
				e.Start()
				controllertest.Put(e, pod("a", labelled("app", "web"), func(p *corev1.Pod) {
					p.Annotations = map[string]string{"precious": "data"}
					p.Status = corev1.PodStatus{Phase: corev1.PodPending, Message: "precious"}
				}))
				key := object.Key{Namespace: "shop", Name: "a"}
				before := controllertest.Get[*corev1.Pod](e, key)
				change := func(p *corev1.Pod) error {
					p.Labels = map[string]string{"app": "shop"}
					p.Status.Phase = corev1.PodRunning
					p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True"}}
					return nil
				}
				read := func() *corev1.Pod {
					p, ok := pods.Copy(key)
					require.True(e, ok)
					require.NoError(e, change(p))
					return p
				}
				ways := map[string]func(ctx context.Context) error{
					"Update":       func(ctx context.Context) error { _, err := pods.Update(ctx, read()); return err },
					"UpdateStatus": func(ctx context.Context) error { _, err := pods.UpdateStatus(ctx, read()); return err },
					"Apply":        func(ctx context.Context) error { _, err := pods.Apply(ctx, read(), "me"); return err },
					"CreateOrUpdate": func(ctx context.Context) error {
						_, _, err := controller.CreateOrUpdate(ctx, pods, pod("a"), change)
						return err
					},
					"PatchStatus": func(ctx context.Context) error {
						p, _ := pods.Get(key)
						_, err := controller.PatchStatus(ctx, pods, p, change)
						return err
					},
					"Objects": func(ctx context.Context) error {
						_, err := controller.Objects(pods, func(ctx context.Context, p *corev1.Pod) (controller.Result, error) {
							require.NoError(e, change(p))
							_, err := pods.Update(ctx, p)
							return controller.Result{}, err
						}).Reconcile(ctx, controller.Request{Key: key})
						return err
					},
				}
				if name == "kept in part" { // the resource does not transform
					ways["Resource"] = func(ctx context.Context) error {
						_, err := pods.Resource().Update(ctx, read(), metav1.UpdateOptions{})
						return err
					}
				}
				for way, write := range ways {
					err := write(e.Context())
					require.ErrorContains(e, err, "would replace the whole", way)
					require.ErrorContains(e, err, "shop/a", way)
				}
				require.Equal(e, before, controllertest.Get[*corev1.Pod](e, key))

				_, err := pods.Create(e.Context(), pod("b"))
				require.NoError(e, err)
				mine := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Labels: map[string]string{"x": "y"}}}
				_, err = pods.Apply(e.Context(), mine, "me")
				require.NoError(e, err)
				require.Equal(e, "data", controllertest.Get[*corev1.Pod](e, key).Annotations["precious"])
			})
		})
	}
}

// Objects that are whole except for managed fields, or whose status is whole, may be sent.
func TestObjectsThatAreKeptWholeMayBeWritten(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Keep: wire.WithoutManagedFields})
		statuses := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Keep: wire.Only("status"), Scope: factory.Scope{Namespaces: []string{"shop"}}})
		e.Start()
		controllertest.Put(e, pod("a"))
		p, ok := pods.Copy(object.Key{Namespace: "shop", Name: "a"})
		require.True(e, ok)
		p.Labels = map[string]string{"x": "y"}
		_, err := pods.Update(e.Context(), p)
		require.NoError(e, err)
		p, _ = statuses.Get(object.KeyOf(p))
		_, err = controller.PatchStatus(e.Context(), statuses, p, func(p *corev1.Pod) error { p.Status.Phase = corev1.PodRunning; return nil })
		require.NoError(e, err)
		_, err = statuses.Update(e.Context(), p)
		require.ErrorContains(e, err, "the cache contains only status, which would replace the whole")
		now := controllertest.Get[*corev1.Pod](e, object.KeyOf(p))
		require.Equal(e, corev1.PodRunning, now.Status.Phase)
		require.Equal(e, "y", now.Labels["x"])
	})
}
