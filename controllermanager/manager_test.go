package controllermanager_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
)

// labeller makes a controller that labels Namespaces.
func labeller(c *controllermanager.Context) (manager.Runnable, error) {
	return label(c, controllermanager.ClientFor[*corev1.Namespace](c))
}

func start(e *controllertest.Env, r *controllermanager.Registry, opts controllermanager.Options) *controllermanager.Manager {
	e.Helper()
	m, err := controllermanager.New(r, e.Factory, opts)
	require.NoError(e, err)
	e.Start(m)
	e.Settle(10 * time.Second)
	return m
}

// A reconcile that takes long is named with its controller.
func TestUnfinishedNamesTheController(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		release := make(chan struct{})
		defer close(release)
		controllertest.Put(e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		m := start(e, registry(t, controllermanager.Descriptor{Name: "stuck", New: func(c *controllermanager.Context) (manager.Runnable, error) {
			namespaces := controllermanager.ClientFor[*corev1.Namespace](c)
			stuck, err := controller.New("stuck", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
				<-release
				return controller.Result{}, nil
			}), controller.Options{})
			if err == nil {
				stuck.Watch(controller.For(namespaces.Informer()))
			}
			return stuck, err
		}}), controllermanager.Options{})
		require.Equal(t, []string{"stuck: reconcile of shop for 10s"}, m.Unfinished())
	})
}

func TestEachControllerIsAccountedFor(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m := start(e, registry(t,
			controllermanager.Descriptor{Name: "labeller", New: labeller, Requires: []object.GVR{{Version: "v1", Resource: "namespaces"}, {Resource: "pods"}}},
			controllermanager.Descriptor{Name: "unwanted", New: labeller},
			controllermanager.Descriptor{Name: "odd", New: labeller, DisabledByDefault: true},
			controllermanager.Descriptor{Name: "gadgets", New: labeller, Requires: []object.GVR{
				{Resource: "pods"}, {Group: "example.com", Version: "v1", Resource: "gadgets"}, {Group: "example.com", Resource: "widgets"}, {Version: "v2", Resource: "pods"},
			}},
			controllermanager.Descriptor{Name: "modest", New: func(*controllermanager.Context) (manager.Runnable, error) { return nil, nil }},
			controllermanager.Descriptor{Name: "short", New: func(*controllermanager.Context) (manager.Runnable, error) {
				return manager.RunnableFunc(func(context.Context) error { return nil }), nil
			}},
		), controllermanager.Options{Controllers: "*,-unwanted"})
		require.Equal(t, []controllermanager.Status{
			{Name: "labeller", State: controllermanager.Running},
			{Name: "unwanted", State: controllermanager.Disabled, Reason: "not chosen"},
			{Name: "odd", State: controllermanager.Disabled, Reason: "disabled by default, and not chosen"},
			{Name: "gadgets", State: controllermanager.Skipped, Reason: "the server does not serve gadgets.example.com/v1, widgets.example.com, pods/v2"},
			{Name: "modest", State: controllermanager.Declined, Reason: "it declined to run"},
			{Name: "short", State: controllermanager.Ended},
		}, m.Status())
		require.NoError(t, m.Ready())
		controllertest.Put(e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		require.Equal(t, "labeller", controllertest.Get[*corev1.Namespace](e, object.Key{Name: "shop"}).Labels["by"])
		require.ErrorIs(t, m.Run(t.Context()), controllermanager.ErrRunning)
	})
}

// Controllers that do not run are logged once, however often discovery is repeated.
func TestDisabledControllersAreLoggedOnce(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		var log bytes.Buffer
		start(e, registry(t,
			controllermanager.Descriptor{Name: "off", New: idle},
			controllermanager.Descriptor{Name: "gadgets", New: idle, Requires: []object.GVR{{Group: "example.com", Resource: "gadgets"}}},
		), controllermanager.Options{Controllers: "*,-off", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		e.Settle(time.Hour)
		require.Equal(e, 1, strings.Count(log.String(), "controller disabled"))
		require.Equal(e, 1, strings.Count(log.String(), "controller skipped"))
	})
}

// A kind that bypasses the cache does so in named controllers, too.
func TestClientsOfAKindThatIsNotCached(t *testing.T) {
	secrets := corev1.SchemeGroupVersion.WithKind("Secret")
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{DisableFor: []object.GVK{secrets}}}, func(e *controllertest.Env) {
		controllertest.Put(e, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}})
		start(e, registry(t, controllermanager.Descriptor{Name: "x", New: func(c *controllermanager.Context) (manager.Runnable, error) {
			for _, client := range []*controller.Client[*corev1.Secret]{
				controllermanager.ClientFor[*corev1.Secret](c), controllermanager.ClientOf[*corev1.Secret](c, shard.ByUID()),
			} {
				require.Nil(e, client.Informer())
				_, err := client.Read(e.Context(), object.Key{Namespace: "shop", Name: "key"})
				require.NoError(e, err)
			}
			return nil, nil
		}}), controllermanager.Options{})
		require.Empty(e, e.Factory.Status())
		require.Zero(e, e.Server.Stats().Requests("list", "secrets"))
		require.EqualValues(e, 2, e.Server.Stats().Requests("get", "secrets"))
	})
}

// Shared informers are requested before the first controller runs, and controllers start one after the
// other.
func TestStart(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		began := time.Now()
		var mu sync.Mutex // guards at
		var at []time.Duration
		var periods []time.Duration
		noting := func(c *controllermanager.Context) (manager.Runnable, error) {
			for range 100 {
				periods = append(periods, c.ResyncPeriod())
			}
			require.NotEqual(t, c.Controller().Resync, c.Controller().Resync)
			select {
			case <-c.InformersStarted():
				t.Error("not every controller has been made")
			default:
			}
			return manager.RunnableFunc(func(ctx context.Context) error {
				<-c.InformersStarted()
				mu.Lock()
				at = append(at, time.Since(began))
				mu.Unlock()
				<-ctx.Done()
				return nil
			}), nil
		}
		m, err := controllermanager.New(registry(t,
			controllermanager.Descriptor{Name: "a", New: noting},
			controllermanager.Descriptor{Name: "b", New: noting},
			controllermanager.Descriptor{Name: "c", New: noting},
		), e.Factory, controllermanager.Options{StartInterval: time.Minute, MinResyncPeriod: time.Hour})
		require.NoError(t, err)
		require.ErrorIs(t, m.Ready(), controllermanager.ErrStarting)
		stop := e.Start(m)
		require.Len(t, at, 1)
		require.ErrorIs(t, m.Ready(), controllermanager.ErrStarting)
		e.Settle(4 * time.Minute)
		require.NoError(t, m.Ready())
		require.Len(t, at, 3)
		require.GreaterOrEqual(t, at[1]-at[0], time.Minute)
		require.Less(t, at[1]-at[0], 2*time.Minute)
		require.NotEqual(t, at[1]-at[0], at[2]-at[1])
		distinct := map[time.Duration]bool{}
		for _, p := range periods {
			require.GreaterOrEqual(t, p, time.Hour)
			require.Less(t, p, 2*time.Hour)
			distinct[p] = true
		}
		require.Greater(t, len(distinct), len(periods)/2)
		stop()
		for _, s := range m.Status() {
			require.Equal(t, controllermanager.Ended, s.State)
		}
		require.ErrorIs(t, m.Ready(), controllermanager.ErrStarting)
		e.Start(m)
		e.Settle(4 * time.Minute)
		require.Len(t, at, 6, "it runs again")
	})
}

func TestStopWhileStarting(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m, err := controllermanager.New(three(t), e.Factory, controllermanager.Options{StartInterval: time.Hour})
		require.NoError(t, err)
		began := time.Now()
		e.Start(m)()
		require.Equal(t, began, time.Now())
		require.Equal(t, controllermanager.Pending, m.Status()[1].State)
	})
}

func TestFailingControllerStopsTheManager(t *testing.T) {
	boom := errors.New("boom")
	fail := func(in string, how func() error) func(*controllermanager.Context) (manager.Runnable, error) {
		return func(*controllermanager.Context) (manager.Runnable, error) {
			if in == "New" {
				return nil, how()
			}
			return manager.RunnableFunc(func(context.Context) error { return how() }), nil
		}
	}
	for name, c := range map[string]struct {
		in   string
		how  func() error
		want string
	}{
		"made":             {"New", func() error { return boom }, "boom"},
		"panics when made": {"New", func() error { panic("ouch") }, "ouch"},
		"fails":            {"Run", func() error { return boom }, "boom"},
		"panics":           {"Run", func() error { panic("ouch") }, "ouch"},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				m, err := controllermanager.New(registry(t,
					controllermanager.Descriptor{Name: "good", New: labeller},
					controllermanager.Descriptor{Name: "bad", New: fail(c.in, c.how)},
				), e.Factory, controllermanager.Options{})
				require.NoError(t, err)
				e.Factory.Start(e.Context())
				err = m.Run(e.Context())
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, "bad: ")
				require.Contains(t, m.Status()[1].Reason, c.want)
			})
		})
	}
}

// A controller that returns why its context was canceled has not failed.
func TestAControllerThatIsStoppedHasNotFailed(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		run := func(run func(context.Context) error) func(*controllermanager.Context) (manager.Runnable, error) {
			return func(*controllermanager.Context) (manager.Runnable, error) { return manager.RunnableFunc(run), nil }
		}
		m, err := controllermanager.New(registry(t,
			controllermanager.Descriptor{Name: "good", New: run(func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})},
			controllermanager.Descriptor{Name: "bad", New: run(func(context.Context) error { return errors.New("boom") })},
		), e.Factory, controllermanager.Options{})
		require.NoError(t, err)
		require.EqualError(t, m.Run(e.Context()), "bad: boom")
		require.Empty(t, m.Status()[0].Reason)
	})
}

func TestDiscoveryIsTriedAgain(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.Down()
		m, err := controllermanager.New(registry(t, controllermanager.Descriptor{Name: "labeller", New: labeller}), e.Factory, controllermanager.Options{})
		require.NoError(t, err)
		e.Start(m)
		e.Settle(5 * time.Second)
		require.ErrorContains(t, m.Ready(), "controllers are being started: cannot discover the server's resources")
		require.Equal(t, controllermanager.Pending, m.Status()[0].State)
		e.Server.Up()
		e.Settle(time.Minute)
		require.NoError(t, m.Ready())
		require.Equal(t, controllermanager.Running, m.Status()[0].State)
	})
}

// If only the core group or only the named groups cannot be discovered, their resources may still be served.
func TestPartOfDiscoveryIsTriedAgain(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.Faults().Add(apiservertest.Fault{Verb: "get", Count: 1, Do: []apiservertest.Action{apiservertest.Fail{Code: http.StatusInternalServerError}}})
		m, err := controllermanager.New(registry(t,
			controllermanager.Descriptor{Name: "core", New: labeller, Requires: []object.GVR{{Version: "v1", Resource: "pods"}}},
			controllermanager.Descriptor{Name: "named", New: labeller, Requires: []object.GVR{{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}}},
		), e.Factory, controllermanager.Options{DiscoveryInterval: -1})
		require.NoError(t, err)
		e.Start(m)
		e.Settle(time.Minute)
		require.NoError(t, m.Ready())
		for _, s := range m.Status() {
			require.Equal(t, controllermanager.Running, s.State, "%v", s)
		}
	})
}

var gadgets = apiservertest.Resource{GVR: object.GVR{Group: "example.com", Version: "v1", Resource: "gadgets"}, Kind: "Gadget", Namespaced: true}

// A skipped controller runs when its resources have appeared. They may disappear again.
func TestASkippedControllerStartsWhenItsResourceAppears(t *testing.T) {
	status := func(m *controllermanager.Manager) controllermanager.Status { return m.Status()[1] }
	controllertest.Run(t, func(e *controllertest.Env) {
		var logged bytes.Buffer
		m, err := controllermanager.New(registry(t,
			controllermanager.Descriptor{Name: "labeller", New: labeller},
			controllermanager.Descriptor{Name: "gadgets", Requires: []object.GVR{gadgets.GVR}, New: func(c *controllermanager.Context) (manager.Runnable, error) {
				<-c.InformersStarted()
				require.True(t, c.Served().Has(gadgets.GVR))
				return idle(c)
			}},
		), e.Factory, controllermanager.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, err)
		stop := e.Start(m)
		e.Settle(time.Hour)
		require.Equal(t, controllermanager.Skipped, status(m).State)
		require.NoError(t, m.Ready(), "what is skipped holds nobody up")
		require.Equal(t, 1, strings.Count(logged.String(), "controller skipped"), "it is said once")

		require.NoError(t, e.Server.AddResource(gadgets))
		e.Settle(controllermanager.DefaultDiscoveryInterval + time.Second)
		require.Equal(t, controllermanager.Status{Name: "gadgets", State: controllermanager.Running}, status(m))
		require.NoError(t, e.Server.RemoveResource(gadgets.GVR))
		e.Settle(time.Hour)
		require.Equal(t, controllermanager.Running, status(m).State)
		stop()
		require.Equal(t, controllermanager.Ended, status(m).State)
	})
}

func TestASkippedControllerMayBeLeftAlone(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m := start(e, registry(t, controllermanager.Descriptor{Name: "gadgets", Requires: []object.GVR{{Resource: "gadgets"}}, New: idle}),
			controllermanager.Options{DiscoveryInterval: -1})
		asked := e.Server.Stats().Requests("", "")
		e.Settle(time.Hour)
		require.Equal(t, asked, e.Server.Stats().Requests("", ""))
		require.Equal(t, controllermanager.Skipped, m.Status()[0].State)
	})
}

// A failure to create a controller later ends all, as it does at the start.
func TestControllerThatFailsToStartLaterStopsTheManager(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m, err := controllermanager.New(registry(t,
			controllermanager.Descriptor{Name: "idle", New: idle},
			controllermanager.Descriptor{Name: "gadgets", Requires: []object.GVR{gadgets.GVR}, New: func(*controllermanager.Context) (manager.Runnable, error) {
				return nil, errors.New("boom")
			}},
		), e.Factory, controllermanager.Options{})
		require.NoError(t, err)
		time.AfterFunc(time.Hour, func() {
			if err := e.Server.AddResource(gadgets); err != nil {
				t.Error(err)
			}
		})
		require.EqualError(t, m.Run(e.Context()), "gadgets: boom")
		require.Equal(t, controllermanager.Ended, m.Status()[0].State)
	})
}

// A controller's events are sent, including those that it records while it stops.
func TestEventsAreSentInTheNameOfTheController(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		ns := controllertest.Put(e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		m, err := controllermanager.New(registry(t, controllermanager.Descriptor{Name: "herald", New: func(c *controllermanager.Context) (manager.Runnable, error) {
			return manager.RunnableFunc(func(ctx context.Context) error {
				c.Events().Recordf(ns, "", "Begun", "Run", "it begins")
				<-ctx.Done()
				c.Events().Recordf(ns, "", "Ended", "Run", "it ends")
				return nil
			}), nil
		}}), e.Factory, controllermanager.Options{})
		require.NoError(t, err)
		e.Start(m)()
		var reasons []string
		for _, event := range controllertest.All[*eventsv1.Event](e) {
			require.Equal(t, "herald", event.ReportingController)
			reasons = append(reasons, event.Reason)
		}
		require.ElementsMatch(t, []string{"Begun", "Ended"}, reasons)
	})
}

// A controller that cannot have what it needs is not ready, and says so with its
// name; the others work.
func TestReadyNamesUnreadyControllers(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.Faults().Add(apiservertest.Fault{Resource: "namespaces", Do: []apiservertest.Action{apiservertest.Fail{Code: 403}}})
		m, err := controllermanager.New(registry(t,
			controllermanager.Descriptor{Name: "labeller", New: labeller},
			controllermanager.Descriptor{Name: "idle", New: idle},
		), e.Factory, controllermanager.Options{})
		require.NoError(t, err)
		e.Start(m)
		e.Settle(time.Second)
		require.ErrorIs(t, m.Ready(), controller.ErrWaiting)
		require.ErrorContains(t, m.Ready(), "labeller: ")
		require.Equal(t, controllermanager.Running, m.Status()[1].State)
	})
}

// recorder notes the user agents of the requests it forwards.
type recorder struct {
	http.RoundTripper
	mu     sync.Mutex // guards agents
	agents map[string]bool
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.agents[req.Method+" "+req.UserAgent()] = true
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(req)
}

func TestEachControllerWritesInItsName(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		endpoint, err := e.Server.Pipe()
		require.NoError(t, err)
		sent := &recorder{agents: map[string]bool{}}
		cfg := &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, UserAgent: "millrace", WrapTransport: func(rt http.RoundTripper) http.RoundTripper {
			sent.RoundTripper = rt
			return sent
		}}
		controllertest.Put(e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		start(e, registry(t, controllermanager.Descriptor{Name: "labeller", New: labeller}), controllermanager.Options{NewClient: controllermanager.Clients(cfg, e.Client.Scheme())})
		require.Equal(t, "labeller", controllertest.Get[*corev1.Namespace](e, object.Key{Name: "shop"}).Labels["by"])
		require.True(t, sent.agents["PUT millrace/labeller"], "%v", sent.agents)
		require.Equal(t, "millrace", cfg.UserAgent)
	})
}
