package controller_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
)

// A reconcile deletes an object that the cache still has, creates another one with its name, and writes to that.
// The next reconcile sees all of it, and waits no longer than that.
func TestO01_WritesToAnObjectThatTheReconcileRecreated(t *testing.T) {
	selected := labels.Set{"app": "web"}
	type clients struct {
		pods     *controller.Client[*corev1.Pod]
		selected *controller.Client[*corev1.ConfigMap]
	}
	for name, c := range map[string]struct {
		write func(context.Context, clients) error
		sees  func(clients) bool
	}{
		"eviction": {
			func(ctx context.Context, c clients) error {
				p, _ := c.pods.Get(object.KeyOf(pod("a")))
				err := c.pods.Delete(ctx, p)
				if err == nil {
					_, err = c.pods.Create(ctx, pod("a"))
				}
				time.Sleep(time.Second)
				if err == nil {
					_, err = controller.SubresourceFor[*policyv1.Eviction](c.pods, "eviction").Create(ctx, &policyv1.Eviction{ObjectMeta: pod("a").ObjectMeta})
				}
				return err
			},
			func(c clients) bool {
				p, ok := c.pods.Get(object.KeyOf(pod("a")))
				return !ok || p.DeletionTimestamp != nil
			},
		},
		"unselected": {
			func(ctx context.Context, c clients) error {
				m, _ := c.selected.Get(object.KeyOf(configMap("old")))
				err := c.selected.Delete(ctx, m)
				if err == nil {
					_, err = c.selected.Create(ctx, configMap("old"))
				}
				return err
			},
			func(c clients) bool {
				_, ok := c.selected.Get(object.KeyOf(configMap("old")))
				return !ok
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				all := clients{
					controller.ClientFor[*corev1.Pod](e.Factory),
					controller.ClientWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Labels: labels.SelectorFromSet(selected)}}),
				}
				controllertest.Put(e, pod("a"))
				controllertest.Put(e, configMap("old", func(m *corev1.ConfigMap) { m.Labels = selected }))
				ring := make(chan string)
				var calls []time.Time
				reconciler := newController(e, controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
					if calls = append(calls, time.Now()); len(calls) == 1 {
						return controller.Result{Requeue: true}, c.write(ctx, all)
					}
					if !c.sees(all) {
						e.Error("the next reconcile does not see the writes")
					}
					return controller.Result{}, nil
				}), controller.Options{}, controller.Channel("bell", ring, func(context.Context, string) ([]controller.Request, error) {
					return []controller.Request{{Key: object.Key{Name: "all"}}}, nil
				}))
				for _, client := range []controller.Watchable{all.pods, all.selected} {
					reconciler.Watch(controller.Awaited(client))
				}
				e.Start(reconciler)
				e.Server.SetLag(5 * time.Second)
				ring <- "ring"
				e.Settle(time.Minute)
				require.Len(e, calls, 2)
				require.LessOrEqual(e, calls[1].Sub(calls[0]), 9*time.Second, "it waits on, though the cache has seen the writes; the failure: %v", all.selected.Informer().Status().Reflector.Failure)
				require.Zero(e, reconciler.Status().Stale)
			})
		})
	}
}
