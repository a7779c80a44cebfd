package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

func request(name string) controller.Request {
	return controller.Request{Key: object.Key{Namespace: "shop", Name: name}}
}

// to maps everything to one request.
func to[T object.Object](name string) func(context.Context, T) ([]controller.Request, error) {
	return func(context.Context, T) ([]controller.Request, error) {
		return []controller.Request{request(name)}, nil
	}
}

// cr#1996: map functions cannot fail.
func TestAMapFunctionThatFailsIsCalledAgain(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j, broken := &journal{}, errors.New("broken")
		var mended atomic.Bool
		c := newController(e, j, controller.Options{}, controller.Map(pods, func(_ context.Context, p *corev1.Pod) ([]controller.Request, error) {
			if !mended.Load() && p.Name != "good" {
				return nil, broken
			}
			return []controller.Request{request(p.Name + "-" + p.Labels["to"])}, nil
		}))
		e.Start(c)
		controllertest.Put(e, pod("a", labelled("to", "x")))
		for n := range 20 {
			controllertest.Put(e, pod("a", labelled("to", fmt.Sprint("y", n))))
		}
		controllertest.Put(e, pod("good", labelled("to", "z")))
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"})
		require.Equal(e, []string{"shop/good-z"}, j.read(), "one object's failure is none of another's")
		s := c.Status().Sources[0]
		require.ErrorIs(e, s.Failure, broken)
		require.Positive(e, s.Failures)

		mended.Store(true)
		e.Settle(10 * time.Minute)
		asked := j.read()
		require.Contains(e, asked, "shop/a-x", "the oldest state is not forgotten")
		require.Contains(e, asked, "shop/a-y19", "nor the newest, though the object is gone")
		require.LessOrEqual(e, len(asked), 8, "what is kept is bounded")
		failures := c.Status().Sources[0].Failures
		e.Settle(time.Hour)
		require.Equal(e, failures, c.Status().Sources[0].Failures)
	})
}

// A state for which the map function always fails does not keep later states of the object from being mapped. It is
// given up in the end, unless the object still has it.
func TestAStateThatCannotBeMapped(t *testing.T) {
	for _, before := range []bool{true, false} { // the source waits for it, or is synced
		controllertest.Run(t, func(e *controllertest.Env) {
			pods := factory.Informer[*corev1.Pod](e.Factory)
			j := &journal{}
			var mu sync.Mutex
			failures := map[string]int{}
			c := newController(e, j, controller.Options{}, controller.Map(pods, func(_ context.Context, p *corev1.Pod) ([]controller.Request, error) {
				if p.Labels["to"] == "bad" {
					mu.Lock()
					defer mu.Unlock()
					failures[p.Name]++
					return nil, errors.New("a bad label")
				}
				return []controller.Request{request(p.Labels["to"])}, nil
			}))
			if before {
				controllertest.Put(e, pod("a", labelled("to", "bad")))
			}
			e.Start(c)
			controllertest.Put(e, pod("a", labelled("to", "bad")))
			e.Settle(time.Hour)
			controllertest.Put(e, pod("a", labelled("to", "x")))
			e.Settle(time.Second)
			require.Equal(e, []string{"shop/x"}, j.read(), "it is mapped at once")
			require.NoError(e, c.Ready())
			controllertest.Put(e, pod("a", labelled("to", "z")))
			e.Settle(time.Second)
			require.ElementsMatch(e, []string{"shop/x", "shop/z"}, j.read(), "the old and the new")
			controllertest.Put(e, pod("deleted", labelled("to", "bad")))
			controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "deleted"})
			controllertest.Put(e, pod("b", labelled("to", "y")))
			controllertest.Put(e, pod("still", labelled("to", "bad")))
			e.Settle(24 * time.Hour)
			require.Equal(e, []string{"shop/y"}, j.read())
			mu.Lock()
			clear(failures)
			mu.Unlock()
			e.Settle(24 * time.Hour)
			mu.Lock()
			defer mu.Unlock()
			require.Len(e, failures, 1)
			require.Positive(e, failures["still"])
		})
	}
}

// Each state is given up after failures of its own, not of earlier states.
func TestAStateIsNotGivenUpForTheFailuresOfOthers(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		var down atomic.Bool
		down.Store(true)
		c := newController(e, j, controller.Options{}, controller.Map(pods, func(_ context.Context, p *corev1.Pod) ([]controller.Request, error) {
			if down.Load() && p.Name == "a" {
				return nil, errors.New("down")
			}
			return []controller.Request{request(p.Labels["to"])}, nil
		}))
		e.Start(c)
		controllertest.Put(e, pod("a", labelled("to", "x")))
		e.Settle(2 * time.Hour)
		controllertest.Put(e, pod("b", labelled("to", "w")))
		controllertest.Put(e, pod("a", labelled("to", "y")))
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"})
		e.Settle(10 * time.Minute)
		down.Store(false)
		e.Settle(24 * time.Hour)
		require.Contains(e, j.read(), "shop/y")
	})
}

// An update that the predicates reject does not make the state before it outdated.
func TestARejectedUpdateMakesNoStateOutdated(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		var down atomic.Bool
		down.Store(true)
		c := newController(e, j, controller.Options{}, controller.Map(pods, func(_ context.Context, p *corev1.Pod) ([]controller.Request, error) {
			if down.Load() && p.Name == "a" {
				return nil, errors.New("down")
			}
			return []controller.Request{request(p.Labels["to"])}, nil
		}, controller.LabelsChanged[*corev1.Pod]()))
		e.Start(c)
		controllertest.Put(e, pod("a", labelled("to", "x")))
		controllertest.Put(e, pod("a", labelled("to", "x"), func(p *corev1.Pod) { p.Annotations = map[string]string{"n": "1"} }))
		controllertest.Put(e, pod("b", labelled("to", "w")))
		e.Settle(2 * time.Hour)
		down.Store(false)
		e.Settle(24 * time.Hour)
		require.Contains(e, j.read(), "shop/x")
	})
}

// If nothing can be mapped, deleted objects are given up too, and a source waits for none of them.
func TestDeletedObjectsThatCannotBeMapped(t *testing.T) {
	for name, predicates := range map[string][]controller.Predicate[*corev1.Pod]{
		"all events":   nil,
		"no deletions": {controller.On[*corev1.Pod](sharedinformer.Add, sharedinformer.Update)},
	} {
		t.Run(name, func(t *testing.T) { deleteUnmapped(t, predicates) })
	}
}

func deleteUnmapped(t *testing.T, predicates []controller.Predicate[*corev1.Pod]) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		var calls atomic.Int64
		c := newController(e, &journal{}, controller.Options{}, controller.Map(pods, func(context.Context, *corev1.Pod) ([]controller.Request, error) {
			calls.Add(1)
			return nil, errors.New("it never works")
		}, predicates...))
		const objects = 1500
		for n := range objects {
			_, err := e.Server.Put(pod(fmt.Sprint("a", n)))
			require.NoError(e, err)
		}
		e.Start(c)
		e.Settle(time.Minute)
		require.Error(e, c.Ready())
		for n := range objects {
			require.NoError(e, e.Server.Delete(object.GVR{Version: "v1", Resource: "pods"}, object.Key{Namespace: "shop", Name: fmt.Sprint("a", n)}))
		}
		e.Settle(48 * time.Hour)
		require.NoError(e, c.Ready())
		calls.Store(0)
		e.Settle(time.Hour)
		require.LessOrEqual(e, calls.Load(), int64(2*13*1000), "the rest is bounded")
	})
}

func TestAMapFunctionThatPanicsIsCalledAgain(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j, calls := &journal{}, 0
		c := newController(e, j, controller.Options{}, controller.Map(pods, func(ctx context.Context, p *corev1.Pod) ([]controller.Request, error) {
			if calls++; calls == 1 {
				panic("oh")
			}
			return to[*corev1.Pod]("x")(ctx, p)
		}))
		e.Start(c)
		controllertest.Put(e, pod("a"))
		require.Empty(e, j.read())
		require.ErrorContains(e, c.Status().Sources[0].Failure, "map function panicked: oh")
		e.Settle(time.Second)
		require.Equal(e, []string{"shop/x"}, j.read())
	})
}

func TestChannelsAndFunctionsAreSources(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
		ch, bad := make(chan int), errors.New("bad number")
		attempts := 0
		j := &journal{do: func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			for _, cause := range controller.Causes(ctx) {
				require.Equal(e, controller.Generic, cause.Type)
			}
			return controller.Result{}, nil
		}}
		c := newController(e, j, controller.Options{},
			controller.Channel("numbers", ch, func(_ context.Context, n int) ([]controller.Request, error) {
				if n < 0 {
					return nil, bad
				}
				return []controller.Request{request(fmt.Sprint(n))}, nil
			}),
			controller.SourceFunc("clock", func(ctx context.Context, in *controller.Inbox) error {
				if attempts++; attempts < 3 {
					panic("not yet")
				}
				in.Add(controller.Generic, object.Key{}, request("tick"))
				in.Synced()
				<-ctx.Done()
				return nil
			}))
		e.Start(c)
		require.ErrorContains(e, c.Ready(), "clock: source clock panicked: not yet")
		e.Settle(time.Second)
		require.NoError(e, c.Ready())
		require.Equal(e, []string{"shop/tick"}, j.read())
		ch <- 1
		ch <- -1
		ch <- 2
		require.Equal(e, []string{"shop/1", "shop/2"}, j.read())
		require.ErrorIs(e, c.Status().Sources[0].Failure, bad)
		close(ch)
		synctest.Wait()
		require.True(e, c.Status().Sources[0].Ended)
		require.False(e, c.Status().Sources[1].Ended)
		require.EqualValues(e, 2, c.Status().Sources[1].Failures)
	})
}

func TestASourceKnowsItsCluster(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		east, west := factory.Informer[*corev1.Pod](e.Factory), factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		e.Start(newController(e, j, controller.Options{},
			controller.For(east).InCluster("east"), controller.For(west).InCluster("west").Named("pods of the west")))
		controllertest.Put(e, pod("a"))
		require.ElementsMatch(e, []string{"east:shop/a", "west:shop/a"}, j.read())
	})
}

var widgets = apiservertest.Resource{GVR: object.GVR{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Namespaced: true}

func widget(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(widgets.GVK())
	u.SetNamespace("shop")
	u.SetName(name)
	return u
}

// A kind that is not installed does not delay the controller, and works as soon as it is installed.
// Missing rights are another matter.
func TestAnOptionalKindMayComeAndGo(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		custom := factory.InformerWith(e.Factory, factory.For[*unstructured.Unstructured]{Kind: widgets.GVK()})
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.For(pods), controller.For(custom).Optional())
		controllertest.Put(e, pod("a"))
		e.Start(c)
		e.Settle(2 * time.Second)
		require.Equal(e, []string{"shop/a"}, j.read())
		require.ErrorContains(e, c.Status().Sources[1].Waiting, "Widget")
		for range 2 {
			e.Settle(time.Hour)
			require.NoError(e, e.Server.AddResource(widgets))
			_, err := e.Server.Create(widget("w"))
			require.NoError(e, err)
			e.Settle(5 * time.Minute)
			require.Equal(e, []string{"shop/w"}, j.read())
			require.NoError(e, c.Status().Sources[1].Waiting)
			require.NoError(e, e.Server.RemoveResource(widgets.GVR))
			e.Settle(5 * time.Minute)
			require.Equal(e, []string{"shop/w"}, j.read(), "it is told of the objects that went with it")
			require.NoError(e, c.Ready())
		}
	})
}

func TestAnOptionalKindThatIsForbiddenIsWaitedFor(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.SetAuthorizer(apiservertest.Deny("", "secrets"))
		c := newController(e, &journal{}, controller.Options{}, controller.For(factory.Informer[*corev1.Secret](e.Factory)).Optional())
		e.Start(c)
		e.Settle(time.Hour)
		require.ErrorContains(e, c.Ready(), "forbidden")
		e.Server.SetAuthorizer(nil)
		e.Settle(5 * time.Minute)
		require.NoError(e, c.Ready())
	})
}

// Sources come and go a thousand times and leave nothing behind. synctest itself fails if a goroutine is
// left at the end.
func TestRemovedSourcesLeaveNothingBehind(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.For(pods))
		controllertest.Put(e, pod("a"))
		e.Start(c)
		flight.Process().Resize(0) // otherwise it grows to a megabyte
		defer flight.Process().Resize(flight.DefaultSize)
		before, memory := runtime.NumGoroutine(), heap()
		for n := range 1000 {
			removeFor := c.Watch(controller.For(pods))
			removeMap := c.Watch(controller.Map(pods, to[*corev1.Pod]("b")))
			if n%2 == 0 {
				synctest.Wait()
			}
			<-removeFor()
			<-removeMap()
		}
		synctest.Wait()
		require.Less(e, runtime.NumGoroutine(), before+10, "but for the runtime's own")
		require.Len(e, pods.Status().Handlers, 1)
		require.Len(e, c.Status().Sources, 1)
		require.Less(e, heap(), memory+(1<<20))
		j.read()
		controllertest.Put(e, pod("a", labelled("x", "y")))
		require.Equal(e, []string{"shop/a"}, j.read())
	})
}

// The reported position of a handler is the call of Watch.
func TestHandlerHasTheSourceLineOfWatch(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		c, err := controller.New("c", &journal{}, controller.Options{})
		require.NoError(e, err)
		c.Watch(controller.For(pods))
		_, _, line, _ := runtime.Caller(0)
		e.Start(c)
		require.Equal(e, fmt.Sprint("controller/source_test.go:", line-1), pods.Status().Handlers[0].Place)
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A source may be removed by the very function that it calls.
func TestASourceMayRemoveItself(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		c := newController(e, j, controller.Options{})
		var remove func() <-chan struct{}
		remove = c.Watch(controller.Map(pods, func(context.Context, *corev1.Pod) ([]controller.Request, error) {
			remove()
			return []controller.Request{request("late")}, nil
		}))
		e.Start(c)
		controllertest.Put(e, pod("a"))
		<-remove()
		require.Empty(e, j.read(), "it asks for nothing after it was removed")
	})
}

// Live changes take precedence over the initial list, but do not starve it.
func TestLiveChangesPrecedeTheInitialList(t *testing.T) {
	const objects = 5_000
	controllertest.Run(t, func(e *controllertest.Env) {
		for n := range objects {
			_, err := e.Server.Put(pod(fmt.Sprint("p", n)))
			require.NoError(e, err)
		}
		pods := factory.Informer[*corev1.Pod](e.Factory)
		var turns atomic.Int64
		var asked sync.Map // by name, when a live change was made, in turns
		var waits []int64  // of live changes, in turns
		r := controller.Func(func(_ context.Context, req controller.Request) (controller.Result, error) {
			turn := turns.Add(1)
			if at, ok := asked.Load(req.Name); ok {
				waits = append(waits, turn-at.(int64))
			}
			time.Sleep(time.Millisecond)
			return controller.Result{}, nil
		})
		e.Start(newController(e, r, controller.Options{}, controller.For(pods)))
		for n := range 100 {
			e.Settle(20 * time.Millisecond)
			name := fmt.Sprint("live", n)
			asked.Store(name, turns.Load())
			controllertest.Put(e, pod(name))
		}
		require.Less(e, turns.Load(), int64(objects/2), "the initial list is still being worked on")
		e.Settle(time.Minute)
		require.EqualValues(e, objects+100, turns.Load())
		require.Len(e, waits, 100)
		require.LessOrEqual(e, slices.Max(waits), int64(3), "a live change is next, or next but one")
	})
}

func TestResyncRequestsEveryObject(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{do: func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			if causes := controller.Causes(ctx); len(causes) != 1 || causes[0].Type != controller.Initial && causes[0].Type != controller.Resynced {
				e.Errorf("causes: %v", causes)
			}
			return controller.Result{}, nil
		}}
		controllertest.Put(e, pod("a"))
		e.Start(newController(e, j, controller.Options{Resync: 10 * time.Hour}, controller.For(pods)))
		j.read()
		e.Settle(9*time.Hour - time.Second)
		require.Empty(e, j.read())
		e.Settle(2 * time.Hour)
		require.Equal(e, []string{"shop/a"}, j.read())
		e.Settle(7*time.Hour - time.Second)
		require.Empty(e, j.read())
	})
}

func TestAReconcileKnowsWhyItHappens(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		var log strings.Builder
		opts := controller.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		var seen []string
		ids := map[string]bool{}
		block := make(chan struct{})
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			<-block
			var causes []string
			for _, cause := range controller.Causes(ctx) {
				causes = append(causes, cause.String())
			}
			seen = append(seen, fmt.Sprintf("%d %s", controller.Attempt(ctx), strings.Join(causes, ", ")))
			ids[controller.ID(ctx)] = true
			controller.Logger(ctx).Info("at work")
			if len(seen) == 1 {
				return controller.Result{}, errors.New("no luck")
			}
			return controller.Result{}, nil
		})
		controllertest.Put(e, pod("a"))
		e.Start(newController(e, r, opts, controller.For(pods), controller.Map(pods, to[*corev1.Pod]("a")).Named("others")))
		require.Empty(e, seen)
		controllertest.Put(e, pod("a", labelled("x", "1")))
		for n := range 20 {
			controllertest.Put(e, pod(fmt.Sprint("b", n)))
			controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: fmt.Sprint("b", n)})
		}
		close(block)
		e.Settle(time.Second)
		require.True(e, slices.ContainsFunc(seen, func(s string) bool {
			return strings.HasPrefix(s, "1 initial") && strings.Contains(s, "initial pods shop/a") && strings.Contains(s, "initial others shop/a")
		}), "%q", seen)
		require.True(e, slices.ContainsFunc(seen, func(s string) bool { return strings.HasPrefix(s, "2 updated ") }), "%q", seen)
		for _, s := range seen {
			require.LessOrEqual(e, strings.Count(s, ","), 7, "causes are bounded: %s", s)
		}
		require.Len(e, ids, len(seen), "ids differ")
		require.Contains(e, log.String(), `msg="at work" controller=test request=shop/a reconcile=`)
		require.Contains(e, log.String(), `msg="reconcile failed" controller=test request=shop/a reconcile=`)
		require.Contains(e, log.String(), `attempt=1 err="no luck"`)
	})
}

func TestPredicates(t *testing.T) {
	type event = sharedinformer.Event[*corev1.Pod]
	type predicate = controller.Predicate[*corev1.Pod]
	update := func(change func(*corev1.Pod)) event {
		old, now := pod("a", labelled("app", "web")), pod("a", labelled("app", "web"))
		old.Generation, now.Generation = 1, 1
		change(now)
		return event{Type: sharedinformer.Update, Old: old, Object: now}
	}
	events := map[string]event{
		"add":        {Type: sharedinformer.Add, Object: pod("a", labelled("app", "web"))},
		"delete":     {Type: sharedinformer.Delete, Object: pod("a", labelled("app", "web"))},
		"resync":     {Type: sharedinformer.Resync, Object: pod("a", labelled("app", "web"))},
		"nothing":    update(func(*corev1.Pod) {}),
		"generation": update(func(p *corev1.Pod) { p.Generation++ }),
		"label":      update(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} }),
		"annotation": update(func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }),
		"phase":      update(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }),
		"empty":      update(func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{} }),
		"other":      {Type: sharedinformer.Add, Object: pod("b")},
		"uncounted":  {Type: sharedinformer.Update, Old: pod("c"), Object: pod("c")},
	}
	web := controller.Selected(func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
	always := []string{"add", "delete", "other"}
	for name, c := range map[string]struct {
		predicate predicate
		pass      []string
	}{
		"generation":            {controller.GenerationChanged[*corev1.Pod](), append(always, "generation", "uncounted")},
		"labels":                {controller.LabelsChanged[*corev1.Pod](), append(always, "label")},
		"annotations":           {controller.AnnotationsChanged[*corev1.Pod](), append(always, "annotation")},
		"a part":                {controller.Changed(func(p *corev1.Pod) corev1.PodPhase { return p.Status.Phase }), append(always, "phase")},
		"an empty list is none": {controller.Changed(func(p *corev1.Pod) corev1.PodSpec { return p.Spec }), always},
		"by hash":               {controller.Changed(func(p *corev1.Pod) int { return len(p.Status.Phase) }), append(always, "phase")},
		"type":                  {controller.On[*corev1.Pod](sharedinformer.Add, sharedinformer.Delete), always},
		"not":                   {controller.Not(web), []string{"other", "uncounted"}},
		"leaving":               {web, []string{"add", "delete", "resync", "nothing", "generation", "label", "annotation", "phase", "empty"}},
		"or":                    {controller.Or(controller.LabelsChanged[*corev1.Pod](), controller.GenerationChanged[*corev1.Pod]()), append(always, "label", "generation", "uncounted")},
		"and":                   {controller.And(controller.LabelsChanged[*corev1.Pod](), web), []string{"add", "delete", "label"}},
		"version":               {controller.VersionChanged[*corev1.Pod](), []string{"add", "delete", "other", "uncounted", "nothing", "generation", "label", "annotation", "phase", "empty"}},
	} {
		var pass []string
		for what, e := range events {
			if c.predicate.Pass(e) {
				pass = append(pass, what)
			}
		}
		require.ElementsMatch(t, c.pass, pass, name)
	}
}

// Predicates that need only heads decode nothing, alone or combined. If one needs more, the others are
// evaluated first.
func TestPredicatesOfHeadsDecodeNothing(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Store: sharedinformer.Packed})
		j := &journal{}
		seen := 0
		e.Start(newController(e, j, controller.Options{},
			controller.For(pods, controller.LabelsChanged[*corev1.Pod]()),
			controller.For(pods, controller.GenerationChanged[*corev1.Pod]()),
			controller.For(pods, controller.Labelled[*corev1.Pod](labels.SelectorFromSet(labels.Set{"app": "web"}))),
			controller.Owns(pods, rest.ResourceFor[*corev1.Node](e.Client), controller.And(controller.VersionChanged[*corev1.Pod](), controller.On[*corev1.Pod](sharedinformer.Update))),
			controller.For(pods, controller.Selected(func(*corev1.Pod) bool { seen++; return false }), controller.Not(controller.Labelled[*corev1.Pod](labels.SelectorFromSet(labels.Set{"app": "web"})))),
			controller.Map(pods, to[*corev1.Pod]("mapped"), controller.On[*corev1.Pod](sharedinformer.Delete))))
		controllertest.Put(e, pod("a", labelled("app", "web")))
		require.Equal(e, []string{"shop/a"}, slices.Compact(j.read()))
		controllertest.Put(e, pod("a", labelled("app", "web"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }))
		require.Equal(e, []string{"shop/a"}, slices.Compact(j.read()))
		controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", "more": "yes"} }))
		require.Equal(e, []string{"shop/a"}, slices.Compact(j.read()))
		require.Zero(e, pods.Status().Packed.Opened)
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"})
		require.Subset(e, j.read(), []string{"shop/a", "shop/mapped"})
		require.EqualValues(e, 1, pods.Status().Packed.Opened, "to be mapped")
		require.Zero(e, seen)
		controllertest.Put(e, pod("b", labelled("app", "db")))
		require.Equal(e, 1, seen)
		require.EqualValues(e, 2, pods.Status().Packed.Opened)
	})
}

// A predicate about a field that the cache does not keep would drop every update, so the source reports
// it.
func TestPredicatesNeedTheirFields(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		labelsChanged, annotationsChanged := controller.LabelsChanged[*corev1.Pod](), controller.AnnotationsChanged[*corev1.Pod]()
		changed := controller.Changed(func(p *corev1.Pod) corev1.PodPhase { return p.Status.Phase })
		kept := func(fields wire.Fields) *sharedinformer.Informer[*corev1.Pod] {
			return sharedinformer.New[*corev1.Pod](rest.ResourceFor[*corev1.Pod](e.Client).Keep(fields).Source(), sharedinformer.Options{})
		}
		for _, c := range []struct {
			kept      wire.Fields
			predicate controller.Predicate[*corev1.Pod]
			misses    string // empty if nothing
		}{
			{wire.Only("status.phase"), labelsChanged, "metadata.labels"},
			{wire.Only("status.phase"), annotationsChanged, "metadata.annotations"},
			{wire.Only("status.phase"), controller.Labelled[*corev1.Pod](labels.Everything()), "metadata.labels"},
			{wire.Only("status.phase"), controller.Or(changed, controller.Not(controller.And(labelsChanged))), "metadata.labels"},
			{wire.Only("status.phase"), changed, ""},
			{wire.Only("metadata.labels"), controller.Or(labelsChanged, annotationsChanged), "metadata.annotations"},
			{wire.Only("metadata"), controller.Or(labelsChanged, annotationsChanged), ""},
			{wire.Without("metadata.annotations"), annotationsChanged, "metadata.annotations"},
			{wire.WithoutManagedFields, annotationsChanged, ""},
			{wire.Fields{}, controller.And(labelsChanged, annotationsChanged), ""},
		} {
			for _, s := range []controller.Source{
				controller.For(kept(c.kept), c.predicate),
				controller.MapFunc(kept(c.kept), func(*corev1.Pod) []controller.Request { return nil }, c.predicate),
			} {
				if c.misses == "" {
					require.NoError(e, s.Err())
				} else {
					require.ErrorContains(e, s.Err(), "a predicate compares "+c.misses+", which the cache of pods does not keep")
				}
			}
		}
	})
}

func TestPredicatesOfASource(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		selected := controller.Selected(func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
		e.Start(newController(e, j, controller.Options{},
			controller.For(pods, selected, controller.LabelsChanged[*corev1.Pod]()),
			controller.Map(pods, to[*corev1.Pod]("mapped"), controller.On[*corev1.Pod](sharedinformer.Delete))))
		controllertest.Put(e, pod("a", labelled("app", "db")))
		require.Empty(e, j.read())
		controllertest.Put(e, pod("a", labelled("app", "web")))
		require.Equal(e, []string{"shop/a"}, j.read())
		controllertest.Put(e, pod("a", labelled("app", "web"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }))
		require.Empty(e, j.read())
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"})
		require.ElementsMatch(e, []string{"shop/a", "shop/mapped"}, j.read())
	})
}

// A predicate that panics must not lose a change.
func TestAPredicateThatPanicsLetsTheEventPass(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		broken := controller.Selected(func(*corev1.Pod) bool { panic("oh") })
		c := newController(e, j, controller.Options{}, controller.For(pods, broken), controller.Map(pods, to[*corev1.Pod]("b"), broken))
		e.Start(c)
		controllertest.Put(e, pod("a"))
		require.ElementsMatch(e, []string{"shop/a", "shop/b"}, j.read())
		for _, s := range c.Status().Sources {
			require.ErrorContains(e, s.Failure, "predicate panicked: oh")
		}
	})
}
