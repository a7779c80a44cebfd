package controller_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
)

// After a conflict, the reconcile is called again when the cache has another version than the one that
// was sent. The first conflicts in a row are not logged as errors.
func TestAConflictWaitsForTheCache(t *testing.T) {
	finalizer := func(p *corev1.Pod) error { controller.AddFinalizer(p, hold); return nil }
	for name, write := range map[string]func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error{
		"Update": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			p = p.DeepCopy()
			p.Annotations = map[string]string{"a": "b"}
			_, err := pods.Update(ctx, p)
			return err
		},
		"UpdateStatus": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			p = p.DeepCopy()
			p.Status.Message = "written"
			_, err := pods.UpdateStatus(ctx, p)
			return err
		},
		"CreateOrUpdate": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			_, _, err := controller.CreateOrUpdate(ctx, pods, p, finalizer)
			return err
		},
		"Patch of finalizers": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			_, err := controller.Patch(ctx, pods, p, finalizer)
			return err
		},
		"PatchLocked": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			_, err := controller.PatchLocked(ctx, pods, p, finalizer)
			return err
		},
		"PatchStatusLocked": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			_, err := controller.PatchStatusLocked(ctx, pods, p, func(p *corev1.Pod) error { p.Status.Message = "written"; return nil })
			return err
		},
		"Delete with a precondition": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			return pods.DeleteWith(ctx, p, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &p.ResourceVersion}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				pods := controller.ClientFor[*corev1.Pod](e.Factory)
				var log bytes.Buffer
				var calls []time.Time
				var conflict error
				c := newController(e, controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
					calls = append(calls, time.Now())
					p, ok := pods.Get(r.Key)
					if !ok {
						return controller.Result{}, nil
					}
					if len(calls) == 1 {
						e.Server.SetLag(2 * time.Second)
						controllertest.Put(e, pod("a", labelled("theirs", "yes")))
					}
					err := write(ctx, pods, p)
					if len(calls) == 1 {
						conflict = err
					}
					return controller.Result{}, err
				}), controller.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, controller.For(pods.Informer()))
				controllertest.Put(e, pod("a"))
				failures := make(chan int, 1) // of the request while it is parked
				go func() {
					for e.Context().Err() == nil {
						if parked := c.Contents(1).Parked; len(parked) > 0 {
							failures <- parked[0].Requeues
							return
						}
						time.Sleep(100 * time.Millisecond)
					}
				}()
				e.Start(c)
				e.Settle(time.Minute)
				require.Equal(e, 1, <-failures, "a parked request keeps its failures")
				require.True(e, apierrors.IsConflict(conflict), "%v", conflict)
				require.Greater(e, len(calls), 1)
				require.GreaterOrEqual(e, calls[1].Sub(calls[0]), 2*time.Second, "the cache has no other version yet")
				require.Less(e, calls[1].Sub(calls[0]), 3*time.Second)
				s := c.Status()
				require.EqualValues(e, 1, s.Errors, "%s", log.String())
				require.Zero(e, s.Stale)
				require.NotContains(e, log.String(), "level=ERROR")
			})
		})
	}
}

// A conflict that keeps occurring is logged as an error. A conflict that is not about the object's
// version is retried after the back-off alone.
func TestRepeatedConflicts(t *testing.T) {
	for name, err := range map[string]error{
		"of no write":     apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("it was changed")),
		"joined":          errors.Join(apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("it was changed")), nil),
		"about a quota":   apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "small", errors.New("it was changed")),
		"and more":        errors.Join(apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("it was changed")), errors.New("the disk is full")),
		"without details": &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonConflict, Code: 409}},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				pods := controller.ClientFor[*corev1.Pod](e.Factory)
				var log bytes.Buffer
				calls := 0
				c := newController(e, controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
					if calls++; calls > 6 {
						return controller.Result{}, nil
					}
					return controller.Result{}, err
				}), controller.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, controller.For(pods.Informer()))
				controllertest.Put(e, pod("a"))
				e.Start(c)
				e.Settle(time.Second)
				require.Equal(e, 7, calls)
				want := 3
				if name == "and more" {
					want = 6
				}
				require.Equal(e, want, strings.Count(log.String(), "level=ERROR"), "%s", log.String())
				require.EqualValues(e, 6, c.Status().Errors)
			})
		})
	}
}

// After a conflict about another version than the cached one, the request does not wait. No request
// waits for longer than the controller's patience.
func TestAConflictWaitsNoLonger(t *testing.T) {
	for name, of := range map[string]struct {
		version     string // the version that is sent; empty for the cached one
		least, most time.Duration
	}{
		"the cached version": {"", 10 * time.Second, 11 * time.Second},
		"another version":    {"1", 0, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				pods := controller.ClientFor[*corev1.Pod](e.Factory)
				var calls []time.Time
				c := newController(e, controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
					if calls = append(calls, time.Now()); len(calls) > 1 {
						return controller.Result{}, nil
					}
					e.Server.SetLag(time.Hour)
					controllertest.Put(e, pod("a", labelled("theirs", "yes")))
					p, _ := pods.Copy(r.Key)
					p.ResourceVersion = cmp.Or(of.version, p.ResourceVersion)
					_, err := pods.Update(ctx, p)
					require.True(e, apierrors.IsConflict(err), "%v", err)
					return controller.Result{}, err
				}), controller.Options{}, controller.For(pods.Informer()))
				controllertest.Put(e, pod("a"))
				e.Start(c)
				e.Settle(time.Minute)
				require.Len(e, calls, 2)
				require.GreaterOrEqual(e, calls[1].Sub(calls[0]), of.least)
				require.LessOrEqual(e, calls[1].Sub(calls[0]), of.most)
			})
		})
	}
}
