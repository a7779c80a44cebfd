package manager_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
)

type result = controller.Result

func aNamespace(name, greet string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"greet": greet}}}
}

// addGreeter gives each namespace a greeting.
func addGreeter(m *manager.Manager) error {
	maps := controller.ClientFor[*corev1.ConfigMap](m.Factory())
	events := m.Events("greeter")
	return manager.ControllerFor(m, controller.LabelsChanged[*corev1.Namespace]()).Owns(maps).
		Complete(func(ctx context.Context, ns *corev1.Namespace) (result, error) {
			greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "greeting"}}
			_, did, err := controller.CreateOrUpdate(ctx, maps.OwnedBy(ns), greeting, func(m *corev1.ConfigMap) error {
				m.Data = map[string]string{"text": "hello " + ns.Labels["greet"]}
				return nil
			})
			events.Recordf(ns, corev1.EventTypeNormal, "Greeted", "Greet", "greeting %s", did)
			return result{}, err
		})
}

// A controller that could not be added leaves no traces in the metrics and the report.
func TestRefusedControllerLeavesNothing(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		never := func(context.Context, *corev1.ConfigMap) (controller.Result, error) { return controller.Result{}, nil }
		require.NoError(r, manager.ControllerFor[*corev1.ConfigMap](m).Complete(never))
		for range 100 {
			require.ErrorContains(r, manager.ControllerFor[*corev1.ConfigMap](m).Complete(never), "configmap")
		}
		require.Len(r, m.Report().Controllers, 1)
		families, err := m.Metrics().Gather()
		require.NoError(r, err)
		workers := 0.0
		for _, f := range families {
			if f.GetName() == "controller_runtime_max_concurrent_reconciles" {
				workers = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		require.EqualValues(r, 1, workers, "those of the same name are added up")
	})
}

func TestABuiltControllerReconciles(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		var log bytes.Buffer
		m := e.Manager(manager.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(e, addGreeter(m))
		ns := controllertest.Put(e, aNamespace("shop", "world"))
		stop := e.Start(m)

		key := object.Key{Namespace: "shop", Name: "greeting"}
		greeting := controllertest.Get[*corev1.ConfigMap](e, key)
		require.Equal(e, "hello world", greeting.Data["text"])
		require.True(e, controller.Controls(ns, greeting), "the owner is set")
		require.Equal(e, "Namespace", greeting.OwnerReferences[0].Kind)

		controllertest.Delete[*corev1.ConfigMap](e, key)
		require.Equal(e, "hello world", controllertest.Get[*corev1.ConfigMap](e, key).Data["text"], "what it owns is watched")

		controllers := m.Report().Controllers
		require.Len(e, controllers, 1)
		require.Equal(e, "namespace", controllers[0].Name, "it is in the report")
		before := controllers[0].Successes
		ns = controllertest.Get[*corev1.Namespace](e, object.Key{Name: "shop"})
		ns.Annotations = map[string]string{"a": "b"}
		controllertest.Put(e, ns)
		require.Equal(e, before, m.Report().Controllers[0].Successes, "the predicate drops it")

		require.Contains(e, exposition(e, m), `controller_runtime_reconcile_total{controller="namespace",result="success"}`)
		require.Contains(e, log.String(), "controller=namespace")
		require.Equal(e, "greeter", controllertest.All[*eventsv1.Event](e)[0].ReportingController, "the manager sends its events")
		stop()
	})
}

// exposition returns the response of /metrics.
func exposition(t testing.TB, m *manager.Manager) string {
	t.Helper()
	families, err := m.Metrics().Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, f := range families {
		for _, metric := range f.Metric {
			text.WriteString(f.GetName() + "{")
			for i, l := range metric.Label {
				if i > 0 {
					text.WriteString(",")
				}
				text.WriteString(l.GetName() + `="` + l.GetValue() + `"`)
			}
			text.WriteString("}\n")
		}
	}
	return text.String()
}

// Options that are not set are taken from the manager, and the others are kept.
func TestABuiltControllerHasOptions(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m := e.Manager(manager.Options{SyncPeriod: time.Hour, LeaderElection: &leaderelection.Options{Name: "other", Namespace: "shop"}})
		controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: labels.Set{"app": "web"}}})
		controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}})
		var mu sync.Mutex // guards counts, because several controllers count
		counts := map[string]int{}
		calls := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(counts)
		}
		count := func(name string) controller.Reconciler {
			return controller.Func(func(_ context.Context, req controller.Request) (result, error) {
				mu.Lock()
				defer mu.Unlock()
				counts[name+" "+req.Name]++
				return result{}, nil
			})
		}
		web := factory.For[*corev1.Pod]{Scope: factory.Scope{Labels: labels.SelectorFromSet(labels.Set{"app": "web"})}}
		_, err := manager.ControllerWith(m, web).Named("often").With(controller.Options{Concurrency: 3, Resync: time.Minute}).Build(count("often"))
		require.NoError(e, err)
		_, err = manager.ControllerFor[*corev1.Pod](m).Build(count("hourly"))
		require.NoError(e, err)
		_, err = manager.ControllerWith(m, web).Named("never").With(controller.Options{Resync: -1}).Build(count("never"))
		require.NoError(e, err)
		e.Start(m)
		require.Equal(e, map[string]int{"often web-0": 1, "hourly web-0": 1, "hourly db-0": 1, "never web-0": 1}, calls())
		require.Equal(e, 3, m.Report().Controllers[0].Concurrency)
		e.Settle(10 * time.Minute)
		require.InDelta(e, 10, calls()["often web-0"], 2)
		require.Equal(e, 1, calls()["hourly web-0"])
		e.Settle(time.Hour)
		require.Equal(e, 2, calls()["hourly web-0"])
		require.Equal(e, 1, calls()["never web-0"])
	})
}

// The debug page shows the recorder of Options.Factory.
func TestBuiltControllerUsesTheFlightRecorderOfItsInformers(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		recorder := flight.New(1 << 20)
		m := r.manager(options{Factory: factory.Options{Flight: recorder}})
		require.NoError(r, manager.ControllerFor[*corev1.Pod](m).Complete(func(context.Context, *corev1.Pod) (result, error) {
			return result{}, nil
		}))
		r.pod("a")
		run := r.start(m)
		settle(time.Second)
		roles := map[flight.Role]bool{}
		for _, track := range recorder.Status().Tracks {
			roles[track.Role] = true
		}
		require.Equal(r, map[flight.Role]bool{flight.Informer: true, flight.Handler: true, flight.Controller: true}, roles)
		require.NoError(r, run.end())
	})
}

func TestABuiltControllerRunsInItsGroup(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m := e.Manager(manager.Options{})
		nothing := func(context.Context, *corev1.Pod) (result, error) { return result{}, nil }
		require.NoError(e, manager.ControllerFor[*corev1.Pod](m).In(manager.Others).Complete(nothing))
		require.NoError(e, manager.ControllerFor[*corev1.Pod](m).Named("led").Complete(nothing))
		in := map[string][]string{}
		for _, g := range m.Report().Groups {
			in[g.Group] = g.Waiting
		}
		require.Contains(e, in["Others"], "pod")
		require.Contains(e, in["LeaderElected"], "led")
	})
}

// The first reconcile waits for a kind that is only read.
func TestBuiltControllerWaitsForTheCachesItReads(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.Faults().Add(apiservertest.Fault{Resource: "secrets", Do: []apiservertest.Action{apiservertest.Fail{Code: 403}}})
		m := e.Manager(manager.Options{})
		var called atomic.Bool
		secrets := controller.ClientFor[*corev1.Secret](m.Factory())
		require.NoError(e, manager.ControllerFor[*corev1.Namespace](m).Reads(secrets).Complete(
			func(context.Context, *corev1.Namespace) (result, error) {
				called.Store(true)
				return result{}, nil
			}))
		controllertest.Put(e, aNamespace("shop", ""))
		e.Start(m)
		e.Settle(time.Minute)
		require.False(e, called.Load())
		e.Server.Faults().Clear()
		e.Settle(10 * time.Minute)
		require.True(e, called.Load())
		controllertest.Put(e, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}})
		require.EqualValues(e, 1, m.Report().Controllers[0].Successes, "a change of it leads to nothing")
	})
}

// Other sources are identified by the position of the call that named them.
func TestABuiltControllerWatches(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m := e.Manager(manager.Options{})
		pods := factory.Informer[*corev1.Pod](m.Factory())
		var seen []string
		require.NoError(e, manager.ControllerFor[*corev1.Namespace](m).
			Watches(controller.MapFunc(pods, func(p *corev1.Pod) []controller.Request {
				return []controller.Request{{Key: object.Key{Name: p.Namespace}}}
			})).
			Complete(func(ctx context.Context, ns *corev1.Namespace) (result, error) {
				for _, c := range controller.Causes(ctx) {
					seen = append(seen, c.String())
				}
				return result{}, nil
			}))
		controllertest.Put(e, aNamespace("shop", ""))
		e.Start(m)
		controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}})
		require.Equal(e, []string{"initial namespaces shop", "created pods shop/web-0"}, seen)
		handlers := pods.Status().Handlers
		require.Len(e, handlers, 1)
		require.Contains(e, handlers[0].Place, "manager/builder_test.go:")
	})
}

type unregistered struct{ corev1.Pod }

func TestBuilderRefusesInvalidControllers(t *testing.T) {
	m, err := manager.New(&config.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: sharedScheme(), Factory: factory.Options{DisableFor: []object.GVK{corev1.SchemeGroupVersion.WithKind("Secret")}},
	})
	require.NoError(t, err)
	nothing := func(context.Context, *corev1.Pod) (result, error) { return result{}, nil }
	secrets := controller.ClientFor[*corev1.Secret](m.Factory())
	var none *controller.Client[*corev1.Pod]

	require.NoError(t, manager.ControllerFor[*corev1.Pod](m).Complete(nothing))
	for name, c := range map[string]struct {
		build func() error
		want  []string
	}{
		"a name twice": {func() error { return manager.ControllerFor[*corev1.Pod](m).Complete(nothing) },
			[]string{"controller pod: ", `two runnables are named "pod": give one of them a different name`}},
		"no function": {func() error { return manager.ControllerFor[*corev1.Pod](m).Named("a").Complete(nil) },
			[]string{"controller a: the reconcile function is nil"}},
		"no reconciler": {func() error { _, err := manager.ControllerFor[*corev1.Pod](m).Named("b").Build(nil); return err },
			[]string{"controller b: the reconciler is nil"}},
		"no name": {func() error { return manager.ControllerFor[*corev1.Pod](m).Named("").Complete(nothing) },
			[]string{"the name is empty"}},
		"options": {func() error {
			return manager.ControllerFor[*corev1.Pod](m).Named("c").With(controller.Options{Concurrency: -1}).Complete(nothing)
		}, []string{"controller c: option Concurrency is -1: want 1 or more"}},
		"a type that the scheme does not know": {func() error {
			return manager.ControllerFor[*unregistered](m).Complete(func(context.Context, *unregistered) (result, error) { return result{}, nil })
		}, []string{"controller *manager_test.unregistered: manager/builder_test.go:", "is not registered in the client's scheme: add it with the AddToScheme of its package to the scheme of the client (manager.Options.Scheme)"}},
		"a type that the scheme does not know, and all else": {func() error {
			return manager.ControllerFor[*unregistered](m).Owns(nil).Watches(controller.Source{}).With(controller.Options{Concurrency: -1}).Complete(nil)
		}, []string{"is not registered", "client 1 of 1 is nil", "it is the zero Source", "the reconcile function is nil", "\noption Concurrency is -1"}},
		"a type of many kinds": {func() error {
			return manager.ControllerFor[*unstructured.Unstructured](m).Complete(func(context.Context, *unstructured.Unstructured) (result, error) { return result{}, nil })
		}, []string{"or set it in factory.For"}},
		"a group": {func() error { return manager.ControllerFor[*corev1.Pod](m).Named("d").In(99).Complete(nothing) },
			[]string{"controller d: ", "there is no Group(99)"}},
		"several at once": {func() error {
			return manager.ControllerFor[*corev1.Pod](m).Named("e").
				Owns(secrets, none, nil).
				Reads(secrets).
				Watches(controller.Source{}).
				Complete(nothing)
		}, []string{
			"Owns: client 2 of 3 is nil: get one from manager.Client", "client 3 of 3",
			"manager/builder_test.go:", "bypasses the cache (factory.Options.DisableFor)", "it is the zero Source",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.build()
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "builder.go")
		})
	}
	defer func() {
		require.Regexp(t, `^manager/builder_test.go:\d+: the manager is nil$`, recover())
	}()
	manager.ControllerFor[*corev1.Pod](nil)
}

// Events with the same name share a recorder.
func TestEventsOfAManager(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		m := r.manager(manager.Options{})
		events := m.Events("example.com/greeter")
		require.Same(r, events, m.Events("example.com/greeter"))
		require.NotSame(r, events, m.Events("example.com/other"))
		running := r.start(m)
		settle(time.Minute)
		events.Recordf(aNamespace("shop", ""), corev1.EventTypeNormal, "Greeted", "", "hello")
		settle(time.Minute)
		require.EqualValues(r, 1, events.Status().Created)
		require.NoError(r, running.end())
	})
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		m := r.manager(manager.Options{})
		m.Events("not a name")
		running := r.start(m)
		settle(time.Minute)
		require.ErrorContains(r, running.end(), `events of not a name: invalid event controller name "not a name": `)
	})
}

func TestZeroBuilderIsRefused(t *testing.T) {
	for _, b := range []*manager.Builder[*corev1.Pod]{{}, nil} {
		err := b.Complete(func(context.Context, *corev1.Pod) (controller.Result, error) { return controller.Result{}, nil })
		require.ErrorContains(t, err, "start with manager.ControllerFor")
		_, err = b.Build(nil)
		require.ErrorContains(t, err, "start with manager.ControllerFor")
	}
}
