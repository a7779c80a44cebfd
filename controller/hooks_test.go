package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// A function that ends its goroutine, as FailNow does, is reported, and nothing is lost.
func TestFunctionThatCallsGoexit(t *testing.T) {
	exit := func(times *int) {
		if *times++; *times <= 2 {
			runtime.Goexit()
		}
	}
	one := func(o *corev1.Pod) []controller.Request { return []controller.Request{controller.RequestFor(o)} }
	for name, source := range map[string]func(pods *sharedinformer.Informer[*corev1.Pod]) controller.Source{
		"map function": func(pods *sharedinformer.Informer[*corev1.Pod]) controller.Source {
			times := 0
			return controller.MapFunc(pods, func(o *corev1.Pod) []controller.Request { exit(&times); return one(o) })
		},
		"predicate": func(pods *sharedinformer.Informer[*corev1.Pod]) controller.Source {
			times := 0
			return controller.For(pods, controller.PredicateFunc[*corev1.Pod](func(sharedinformer.Event[*corev1.Pod]) bool { exit(&times); return true }))
		},
		"predicate of a map": func(pods *sharedinformer.Informer[*corev1.Pod]) controller.Source {
			times := 0
			return controller.MapFunc(pods, one, controller.PredicateFunc[*corev1.Pod](func(sharedinformer.Event[*corev1.Pod]) bool { exit(&times); return true }))
		},
		"source": func(*sharedinformer.Informer[*corev1.Pod]) controller.Source {
			times := 0
			return controller.SourceFunc("source", func(ctx context.Context, in *controller.Inbox) error {
				exit(&times)
				for _, name := range []string{"a", "b", "c"} {
					in.Add(controller.Generic, object.Key{}, controller.Request{Key: object.Key{Namespace: "shop", Name: name}})
				}
				in.Synced()
				<-ctx.Done()
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				pods := factory.Informer[*corev1.Pod](e.Factory)
				j := &journal{}
				for _, name := range []string{"a", "b"} {
					controllertest.Put(e, pod(name))
				}
				c := newController(e, j, controller.Options{}, source(pods))
				e.Start(c)
				controllertest.Put(e, pod("c"))
				e.Settle(time.Minute)
				require.ElementsMatch(e, []string{"shop/a", "shop/b", "shop/c"}, j.read())
				s := c.Status().Sources[0]
				require.EqualValues(e, 2, s.Failures)
				require.ErrorContains(e, s.Failure, " called runtime.Goexit")
				require.True(e, s.Synced)
			})
		})
	}
}

// A source whose function fails for every initial object is not synced.
func TestASourceThatMapsNothingIsNotSynced(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		controllertest.Put(e, pod("a"))
		controllertest.Put(e, pod("b"))
		var works atomic.Pointer[string] // the names for which the function works
		works.Store(new(""))
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.Map(pods, func(_ context.Context, p *corev1.Pod) ([]controller.Request, error) {
			if !strings.Contains(*works.Load(), p.Name) {
				return nil, errors.New("not yet")
			}
			return []controller.Request{controller.RequestFor(p)}, nil
		}))
		e.Start(c)
		e.Settle(time.Hour)
		require.False(e, c.Status().Sources[0].Synced)
		require.ErrorContains(e, c.Ready(), "waiting for pods: not yet")
		works.Store(new("b"))
		e.Settle(time.Hour)
		require.NoError(e, c.Ready(), "one object of many holds up nobody")
		require.Equal(e, []string{"shop/b"}, j.read())
		works.Store(new("ab"))
		e.Settle(time.Hour)
		require.Equal(e, []string{"shop/a"}, j.read())
	})
}

func TestNilFunctionIsReportedAtOnce(t *testing.T) {
	for name, call := range map[string]func(){
		"Map":        func() { controller.Map[*corev1.Pod](nil, nil) },
		"MapFunc":    func() { controller.MapFunc[*corev1.Pod](nil, nil) },
		"Handle":     func() { controller.Handle[*corev1.Pod](nil, nil) },
		"SourceFunc": func() { controller.SourceFunc("x", nil) },
		"Channel":    func() { controller.Channel[int]("x", nil, nil) },
		"Objects":    func() { controller.Objects[*corev1.Pod](nil, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				require.Contains(t, recover(), "controller/hooks_test.go:")
			}()
			call()
			t.Fatal("it was taken")
		})
	}
}

// brokenMetrics are a Metrics whose Recorder always panics.
type brokenMetrics struct{}

func (m brokenMetrics) Register(controller.View) controller.Metrics { return m }
func (brokenMetrics) Started(controller.View)                       { panic("started") }
func (brokenMetrics) Stopped(controller.Status)                     { panic("stopped") }
func (brokenMetrics) ReconcileTime(time.Duration)                   { panic("took") }

// leavingMetrics are a Metrics whose Recorder ends its goroutine.
type leavingMetrics struct{}

func (m leavingMetrics) Register(controller.View) controller.Metrics { return m }
func (leavingMetrics) Started(controller.View)                       { runtime.Goexit() }
func (leavingMetrics) Stopped(controller.Status)                     { runtime.Goexit() }
func (leavingMetrics) ReconcileTime(time.Duration)                   { runtime.Goexit() }

func TestFailingRecorderDoesNoHarm(t *testing.T) {
	for says, metrics := range map[string]controller.MetricsProvider{
		"the metrics panicked: started":     brokenMetrics{},
		"the metrics called runtime.Goexit": leavingMetrics{},
	} {
		controllertest.Run(t, func(e *controllertest.Env) {
			pods := factory.Informer[*corev1.Pod](e.Factory)
			controllertest.Put(e, pod("a"))
			j := &journal{}
			var log strings.Builder
			logger := slog.New(slog.NewTextHandler(&log, nil))
			c := newController(e, j, controller.Options{Metrics: metrics, Logger: logger}, controller.For(pods))
			for range 2 {
				stop := e.Start(c)
				e.Settle(time.Minute)
				require.Equal(e, []string{"shop/a"}, j.read())
				stop()
				require.Equal(e, controller.Stopped, c.Status().State)
			}
			require.Contains(e, log.String(), says)
		})
	}
}

// askingMetrics ask a controller for its status while its queue registers.
type askingMetrics struct{ ask func() }

func (m askingMetrics) Register(string, func() workqueue.Status) workqueue.Metrics {
	m.ask()
	return nil
}

func TestQueueMetricsMayAskTheController(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		var c *controller.Controller
		asked := controller.Status{}
		j := &journal{}
		metrics := askingMetrics{func() {
			c.Watch(controller.Awaited(controller.ClientFor[*corev1.ConfigMap](e.Factory)))
			asked = c.Status()
		}}
		c = newController(e, j, controller.Options{QueueMetrics: metrics}, controller.For(factory.Informer[*corev1.Pod](e.Factory)))
		controllertest.Put(e, pod("a"))
		e.Start(c)
		e.Settle(time.Minute)
		require.Len(e, asked.Sources, 2)
		require.Equal(e, []string{"shop/a"}, j.read())
		require.NoError(e, c.Ready())
	})
}

// stoppedMetrics call a function the first time that the controller has stopped.
type stoppedMetrics struct {
	brokenMetrics
	again atomic.Bool
	stop  func()
}

func (m *stoppedMetrics) Register(controller.View) controller.Metrics { return m }

func (m *stoppedMetrics) Stopped(controller.Status) {
	if !m.again.Swap(true) {
		m.stop()
	}
}

// A run does not begin before the metrics know that the last one is over: otherwise, they would drop the new run's view.
func TestMetricsAreToldOfOneRunAfterTheOther(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		var c *controller.Controller
		var err error
		c = newController(e, &journal{}, controller.Options{Metrics: &stoppedMetrics{stop: func() { err = c.Run(ctx) }}},
			controller.For(factory.Informer[*corev1.Pod](e.Factory)))
		require.NoError(e, c.Run(ctx))
		require.ErrorIs(e, err, controller.ErrRunning)
		require.NoError(e, c.Run(ctx))
	})
}

// failingMetrics panics or exits when a controller is registered.
type failingMetrics struct{ fail func() }

func (m failingMetrics) Register(controller.View) controller.Metrics { m.fail(); return nil }

func TestMetricsThatFailToRegister(t *testing.T) {
	for says, fail := range map[string]func(){
		"controller x: the metrics panicked: full":        func() { panic("full") },
		"controller x: the metrics called runtime.Goexit": runtime.Goexit,
	} {
		_, err := controller.New("x", &journal{}, controller.Options{Metrics: failingMetrics{fail}})
		require.ErrorContains(t, err, says)
	}
}

func TestZeroSourceIsRefused(t *testing.T) {
	c, err := controller.New("x", &journal{}, controller.Options{})
	require.NoError(t, err)
	c.Watch(controller.Source{})
	require.ErrorContains(t, c.Run(t.Context()), "it is the zero Source: create one with For")
}

func TestANilObjectIsAnError(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods, ctx := controller.ClientFor[*corev1.Pod](e.Factory), e.Context()
		same := func(*corev1.Pod) error { return nil }
		for name, err := range map[string]error{
			"create":    second(pods.Create(ctx, nil)),
			"update":    second(pods.Update(ctx, nil)),
			"status":    second(pods.UpdateStatus(ctx, nil)),
			"apply":     second(pods.Apply(ctx, nil, "me")),
			"delete":    pods.Delete(ctx, nil),
			"or update": third(controller.CreateOrUpdate(ctx, pods, nil, same)),
			"patch":     second(controller.PatchStatus(ctx, pods, nil, same)),
		} {
			require.ErrorContains(e, err, "pods: the object is nil", name)
		}
	})
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

// noted is an error as users write them, with a receiver that may be nil.
type noted struct{ why string }

func (e *noted) Error() string { return e.why }

// A panicking error of a source does not break Status.
func TestAnErrorOfASourceMayPanic(t *testing.T) {
	for name, source := range map[string]func() controller.Source{
		"Channel": func() controller.Source {
			ch := make(chan int, 1)
			ch <- 1
			return controller.Channel("bus", ch, func(context.Context, int) ([]controller.Request, error) { return nil, (*noted)(nil) })
		},
		"Failed": func() controller.Source {
			return controller.SourceFunc("bus", func(ctx context.Context, in *controller.Inbox) error {
				in.Failed(nil)
				in.Failed((*noted)(nil))
				in.Synced()
				<-ctx.Done()
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
				c := newController(e, &journal{}, controller.Options{}, source())
				e.Start(c)
				s := c.Status()
				require.EqualValues(e, 1, s.Sources[0].Failures, "nil is no failure")
				body, err := json.Marshal(s)
				require.NoError(e, err)
				require.Contains(e, string(body), "a *controller_test.noted, which source bus returned as an error, panicked: ")
			})
		})
	}
}

// The informer reports failures of a handler. A failure of Handle's function is also a failure of the
// source.
func TestErrorOfHandleIsReportedForTheSource(t *testing.T) {
	for name, c := range map[string]struct {
		fail func() error
		want string
	}{
		"error":  {func() error { return errors.New("no quota") }, "no quota"},
		"panic":  {func() error { panic("boom") }, "its function panicked or called runtime.Goexit"},
		"Goexit": {func() error { runtime.Goexit(); return nil }, "its function panicked or called runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
				pods := factory.Informer[*corev1.Pod](e.Factory)
				controller := newController(e, &journal{}, controller.Options{}, controller.Handle(pods, func(_ context.Context, ev sharedinformer.Event[*corev1.Pod], _ *controller.Inbox) error {
					if ev.Object.Name == "a" {
						return c.fail()
					}
					return nil
				}))
				controllertest.Put(e, pod("a"))
				controllertest.Put(e, pod("b"))
				e.Start(controller)
				e.Settle(time.Second)
				s := controller.Status().Sources[0]
				require.EqualValues(e, 1, s.Failures)
				require.ErrorContains(e, s.Failure, c.want)
				h := pods.Status().Handlers[0]
				require.EqualValues(e, 1, h.Errors+h.Panics)
			})
		})
	}
}
