package manager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
)

type (
	options = manager.Options
	server  = apiservertest.Options
)

func TestGroupsStopInTheReverseOrder(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		for name, group := range map[string]manager.Group{
			"server": manager.Servers, "webhook": manager.Webhooks, "cache": manager.Caches, "other": manager.Others, "led": manager.LeaderElected,
		} {
			// Each takes a while to stop, so that the order is visible.
			require.NoError(r, m.AddTo(group, &part{rig: r, name: name, stopping: time.Second}))
		}
		run := r.start(m)
		require.ElementsMatch(r, []string{"+server", "+webhook", "+cache", "+other", "+led"}, r.noted())
		require.NoError(r, run.end(), "the end of the context is no error")
		require.Equal(r, []string{"-led", "-other", "-cache", "-webhook", "-server"}, r.noted())
	})
}

func TestARunnableFindsTheCachesSynced(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		r.pod("a")
		r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Count: 3, Do: []apiservertest.Action{apiservertest.Fail{Code: http.StatusInternalServerError}}})
		m := r.manager(options{})
		pods := factory.Informer[*corev1.Pod](m.Factory())
		for _, group := range []manager.Group{manager.Others, manager.LeaderElected} {
			require.NoError(r, m.AddTo(group, manager.RunnableFunc(func(context.Context) error {
				r.note(fmt.Sprintf("%s sees %d", group, pods.Cache().Len()))
				return nil
			})))
		}
		run := r.start(m)
		require.Empty(r, r.noted())
		settle(time.Minute)
		require.Equal(r, []string{"LeaderElected sees 1", "Others sees 1"}, sorted(r.noted()))
		require.NoError(r, run.end())
	})
}

// cr#1179, cr#2456: one forbidden kind stopped all controllers, while the pod reported that it was
// ready.
func TestForbiddenKindDelaysOnlyItsControllersAndReadySaysSo(t *testing.T) {
	inBubble(t, server{Authorize: apiservertest.Deny("", "secrets")}, func(r *rig) {
		m := r.manager(options{})
		pods := factory.Informer[*corev1.Pod](m.Factory())
		secrets := factory.Informer[*corev1.Secret](m.Factory())
		require.NoError(r, m.Add(&warmer{part{rig: r, name: "pod-controller"}, pods.WaitForSync}))
		require.NoError(r, m.Add(&warmer{part{rig: r, name: "secret-controller"}, func(ctx context.Context) error {
			for secrets.WaitForSync(ctx) != nil && ctx.Err() == nil {
				time.Sleep(time.Second)
			}
			return nil
		}}))
		require.NoError(r, m.Add(&readier{part{rig: r, name: "pod-readier"}, pods}))
		require.NoError(r, m.Add(&readier{part{rig: r, name: "secret-readier"}, secrets}))
		require.NoError(r, m.Add(&part{rig: r, name: "plain"}))
		require.False(r, ready(m), "not started")
		run := r.start(m)
		settle(5 * time.Minute)
		require.ElementsMatch(r, []string{"~pod-controller", "~secret-controller", "+pod-controller", "+pod-readier", "+secret-readier"}, r.noted())

		code, body := probe(m, "/readyz?verbose")
		require.Equal(r, http.StatusInternalServerError, code)
		require.Contains(r, body, "[-] informers: not synced: secrets: ")
		require.Contains(r, body, "forbidden")
		require.NotContains(r, body, "pods:")
		require.Contains(r, body, "[-] warm-up: not done: secret-controller (warm-up)")
		require.Contains(r, body, "[-] runnables: secret-readier waits for its source\n")
		require.Contains(r, body, "[+] manager: ok")

		r.srv.SetAuthorizer(nil)
		settle(5 * time.Minute)
		require.ElementsMatch(r, []string{"+secret-controller", "+plain"}, r.noted())
		require.True(r, ready(m))
		require.NoError(r, run.end())
		require.False(r, ready(m), "stopped")
	})
}

// Events need no cache, and outlive the controllers that record them.
func TestEventsAreSentWhileOtherRunnablesBlockAndUntilTheEnd(t *testing.T) {
	inBubble(t, server{Authorize: apiservertest.Deny("", "secrets")}, func(r *rig) {
		m := r.manager(options{})
		factory.Informer[*corev1.Secret](m.Factory())
		pods := factory.Informer[*corev1.Pod](m.Factory())
		events := events.New(m.Client(), "example.com/pods", events.Options{})
		c, err := controller.New("pods", controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			pod, _ := pods.Cache().Get(req.Key)
			events.Recordf(pod, corev1.EventTypeNormal, "Begun", "Reconcile", "begun")
			<-ctx.Done()
			time.Sleep(time.Second)
			events.Recordf(pod, corev1.EventTypeNormal, "Ended", "Reconcile", "ended")
			return controller.Result{}, nil
		}), m.ControllerOptions())
		require.NoError(r, err)
		c.Watch(controller.For(pods))
		require.NoError(r, m.AddTo(manager.Others, c)) // it stops after LeaderElected
		require.NoError(r, m.Add(events))
		r.pod("a")
		run := r.start(m)
		settle(time.Minute)
		require.Contains(r, m.Report().Groups, manager.GroupReport{Group: "Recorders", Running: []string{"events of example.com/pods"}})
		require.Equal(r, []string{"Begun"}, reasons(r))
		require.NoError(r, run.end())
		require.Equal(r, []string{"Begun", "Ended"}, reasons(r))
	})
}

// reasons returns the reasons of the events on the server, sorted.
func reasons(r *rig) (reasons []string) {
	for _, o := range r.srv.Objects(eventsv1.SchemeGroupVersion.WithResource("events")) {
		reasons = append(reasons, o.(*eventsv1.Event).Reason)
	}
	return sorted(reasons)
}

// An optional kind that is not installed does not block readiness, the election, or work.
func TestOptionalKindDelaysNothing(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{LeaderElection: janitor()})
		custom := controller.ClientWith(m.Factory(), factory.For[*unstructured.Unstructured]{
			Kind: object.GVK{Group: "example.com", Version: "v1", Kind: "Widget"}, Optional: true,
		})
		c, err := controller.New("widgets", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		}), m.ControllerOptions())
		require.NoError(r, err)
		c.Watch(controller.For(custom.Informer()).Optional())
		require.NoError(r, m.Add(c))
		require.NoError(r, m.Add(&part{rig: r, name: "plain"}))
		run := r.start(m)
		settle(5 * time.Second)
		require.Equal(r, []string{"+plain"}, r.noted())
		require.Equal(r, controller.Running, c.Status().State)
		code, body := probe(m, "/readyz?verbose")
		require.Equal(r, http.StatusOK, code, body)
		require.NoError(r, run.end())
	})
}

func TestAFailureStopsEverythingAndEveryErrorIsNamed(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		require.NoError(r, m.Add(&part{rig: r, name: "good"}))
		require.NoError(r, m.Add(&part{rig: r, name: "bad", fail: errBoom}))
		require.NoError(r, m.AddTo(manager.Others, manager.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("on the way out")
		})))
		run := r.start(m)
		settle(2 * time.Second)
		require.True(r, run.ended.Load())
		require.ErrorIs(r, run.err, errBoom)
		require.ErrorContains(r, run.err, "bad: boom")
		require.ErrorContains(r, run.err, "manager.RunnableFunc: on the way out")
		require.ElementsMatch(r, []string{"+good", "+bad", "-good"}, r.noted())
	})
}

func TestAPanicIsAnError(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		require.NoError(r, m.AddTo(manager.Others, &part{rig: r, name: "good"}))
		require.NoError(r, m.Add(manager.RunnableFunc(func(context.Context) error { time.Sleep(time.Second); panic("boom") })))
		run := r.start(m)
		settle(2 * time.Second)
		require.True(r, run.ended.Load())
		require.ErrorContains(r, run.err, "manager.RunnableFunc: Run panicked: boom")
		require.Equal(r, []string{"+good", "-good"}, r.noted())
	})
}

func TestRunnablesThatDoNotStopInTimeAreNamed(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		var logged bytes.Buffer
		m := r.manager(options{GracefulShutdownTimeout: 20 * time.Second, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(r, m.Add(&part{rig: r, name: "slow", stopping: time.Minute}))
		require.NoError(r, m.AddTo(manager.Others, &part{rig: r, name: "quick"}))
		run := r.start(m)
		settle(time.Second)
		run.stop()
		settle(10 * time.Second) // before the process would be killed
		require.Contains(r, logged.String(), `msg="still stopping" running=[slow] timeout=20s`)
		settle(12 * time.Second)
		require.True(r, run.ended.Load())
		require.ErrorIs(r, run.err, manager.ErrNotStopped)
		require.ErrorContains(r, run.err, "slow")
		require.NotContains(r, run.err.Error(), "quick")
		require.ElementsMatch(r, []string{"+slow", "+quick", "-quick"}, r.noted())
		settle(time.Hour) // none of the test's own goroutines may be left
	})
}

// Once a runnable has ended, another one may use its name.
func TestNameOfAnEndedRunnableCanBeReused(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		run := r.start(m)
		brief := func() *controller.Controller {
			c, err := controller.New("brief", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
				return controller.Result{}, nil
			}), controller.Options{})
			require.NoError(r, err)
			c.Watch(controller.Channel("none", make(chan int), func(context.Context, int) ([]controller.Request, error) { return nil, nil }))
			return c
		}
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(r, m.Add(&until{brief(), ctx}))
		settle(time.Second)
		require.ErrorContains(r, m.Add(brief()), `two runnables are named "brief"`)
		cancel()
		settle(time.Second)
		require.NoError(r, m.Add(brief()))
		settle(time.Second)
		require.NoError(r, run.end())
	})
}

// until is a controller that runs until a context ends.
type until struct {
	*controller.Controller
	ctx context.Context
}

func (u *until) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(u.ctx, cancel)()
	return u.Controller.Run(ctx)
}

// asking is a runnable whose Ready is a function of the test.
type asking struct {
	*part
	ready func() error
}

func (r *asking) Ready() error { return r.ready() }

// nilError is an error whose methods panic on a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// If a Ready panics, or its error does, it is named and does not hide other reasons.
func TestAReadyThatPanicsIsNamed(t *testing.T) {
	for what, ready := range map[string]func() error{
		"Ready":     func() error { panic("oops") },
		"its error": func() error { var e *nilError; return e },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, server{}, func(r *rig) {
				m := r.manager(options{})
				require.NoError(r, m.Add(&asking{&part{rig: r, name: "culprit"}, ready}))
				require.NoError(r, m.Add(&asking{&part{rig: r, name: "other"}, func() error { return errors.New("the disk is full") }}))
				run := r.start(m)
				settle(time.Second)
				_, body := probe(m, "/readyz/runnables")
				require.Contains(r, body, "culprit: Ready panicked: ")
				require.Contains(r, body, "the disk is full")
				require.NoError(r, run.end())
			})
		})
	}
}

func TestALateRunnableStartsAtOnce(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		run := r.start(m)
		settle(time.Second)
		require.NoError(r, m.Add(&part{rig: r, name: "late"}))
		require.NoError(r, m.Add(&warmer{part{rig: r, name: "late-warmer"}, func(context.Context) error { return nil }}))
		require.ElementsMatch(r, []string{"+late", "~late-warmer", "+late-warmer"}, r.noted())
		require.NoError(r, run.end())
		require.ErrorIs(r, m.Add(&part{rig: r, name: "too late"}), manager.ErrStopped)
		require.ErrorIs(r, m.Run(r.ctx), manager.ErrRunning)
	})
}

func TestAControllerOfTheManagersOptionsIsObservable(t *testing.T) {
	inBubble(t, server{Authorize: apiservertest.Deny("", "secrets")}, func(r *rig) {
		var logged bytes.Buffer
		m := r.manager(options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		pods := controller.ClientFor[*corev1.Pod](m.Factory())
		c, err := controller.New("seer", controller.Objects(pods, func(context.Context, *corev1.Pod) (controller.Result, error) {
			return controller.Result{}, controller.Terminal(errors.New("it is dark"))
		}), m.ControllerOptions())
		require.NoError(r, err)
		c.Watch(controller.For(pods.Informer()))
		require.NoError(r, m.Add(c))
		blind, err := controller.New("blind", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		}), m.ControllerOptions())
		require.NoError(r, err)
		blind.Watch(controller.For(factory.Informer[*corev1.Secret](m.Factory())))
		require.NoError(r, m.Add(blind))
		_, err = r.srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}})
		require.NoError(r, err)
		run := r.start(m)
		settle(0)
		families, err := m.Metrics().Gather()
		require.NoError(r, err)
		values := map[string]float64{}
		for _, f := range families {
			for _, metric := range f.GetMetric() {
				values[f.GetName()] += metric.GetCounter().GetValue()
			}
		}
		require.EqualValues(r, 1, values["controller_runtime_reconcile_errors_total"])
		require.EqualValues(r, 1, values["workqueue_adds_total"])
		require.Positive(r, values["rest_client_requests_total"])
		report, err := json.MarshalIndent(m.Report().Controllers, "", " ")
		require.NoError(r, err)
		for _, want := range []string{
			`"Name": "seer"`, `"Failure": "shop/web-0: it is dark (1 attempt, 0s ago)"`, `"State": "open"`,
			`"Name": "blind"`, `"State": "Waiting"`, `"Waiting": "secrets: list: forbidden`,
		} {
			require.Contains(r, string(report), want)
		}
		require.NoError(r, run.end())
		require.Contains(r, logged.String(), "it is dark")
	})
}

func TestEveryClusterIsRunAndVisible(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		far := apiservertest.New(apiservertest.Options{Authorize: apiservertest.Deny("", "pods")})
		defer far.Close()
		endpoint, err := far.Pipe()
		require.NoError(r, err)
		cfg := &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}
		m := r.manager(options{})
		unnamed, err := manager.NewCluster(cfg, manager.ClusterOptions{Scheme: sharedScheme()})
		require.NoError(r, err)
		require.ErrorContains(r, m.Add(unnamed), "set ClusterOptions.Name")
		other, err := manager.NewCluster(cfg, manager.ClusterOptions{Name: "far", Scheme: sharedScheme()})
		require.NoError(r, err)
		require.NoError(r, m.Add(other))
		require.ErrorContains(r, m.Add(other), `two runnables are named "cluster far"`)
		near := factory.Informer[*corev1.Pod](m.Factory())
		there := factory.Informer[*corev1.Pod](other.Factory())

		run := r.start(m)
		settle(time.Minute)
		require.True(r, near.HasSynced())
		_, body := probe(m, "/readyz?verbose")
		require.Contains(r, body, "[+] informers: ok")
		require.Contains(r, body, "[-] informers-far: not synced: pods: ")
		far.SetAuthorizer(nil)
		settle(time.Minute)
		require.True(r, there.HasSynced())
		require.True(r, ready(m))

		families, err := m.Metrics().Gather()
		require.NoError(r, err)
		clusters := map[string]bool{}
		for _, f := range families {
			if f.GetName() != "millrace_informer_synced" {
				continue
			}
			for _, metric := range f.GetMetric() {
				for _, l := range metric.GetLabel() {
					if l.GetName() == "cluster" {
						clusters[l.GetValue()] = true
					}
				}
			}
		}
		require.Equal(r, map[string]bool{"": true, "far": true}, clusters)
		require.Len(r, m.Report().Clusters, 2)
		require.NoError(r, run.end())
	})
}

func TestChecksAreAskedByName(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		var sick error
		require.NoError(r, m.AddHealthzCheck("disk", func(*http.Request) error { return sick }))
		require.ErrorContains(r, m.AddHealthzCheck("disk", manager.Ping), `a check named "disk" for /healthz`)
		require.NoError(r, m.AddReadyzCheck("disk", manager.Ping))
		for _, c := range []struct {
			sick error
			path string
			code int
			body string
		}{
			{nil, "/healthz", 200, "ok\n"},
			{nil, "/healthz?verbose", 200, "[+] disk: ok\n[+] ping: ok\n"},
			{nil, "/healthz/disk", 200, "ok\n"},
			{nil, "/healthz/nonsense", 404, "404 page not found\n"},
			{errBoom, "/healthz", 500, "[-] disk: boom\n[+] ping: ok\n"},
			{errBoom, "/healthz/ping", 200, "ok\n"},
			{errBoom, "/healthz?exclude=disk", 200, "ok\n"},
		} {
			sick = c.sick
			code, body := probe(m, c.path)
			require.Equal(r, c.code, code, c.path)
			require.Equal(r, c.body, body, c.path)
		}
	})
}

func TestBadConfigurationSaysWhatToChange(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		for want, opts := range map[string]options{
			"no Name: set it to the Lease":   {LeaderElection: &leaderelection.Options{}},
			"LeaderElectionConfig without":   {LeaderElectionConfig: r.cfg},
			"set MetricsBindAddress":         {MetricsTLS: &serving.TLS{}},
			"tokens would be sent in the":    {MetricsBindAddress: ":1", MetricsAccess: true},
			"give each its own port":         {MetricsBindAddress: ":8080", HealthProbeBindAddress: ":8080"},
			"is not of the form host:port":   {HealthProbeBindAddress: "8081"},
			"SyncPeriod is -1s":              {SyncPeriod: -time.Second},
			"remove one of the two":          {Namespaces: []string{"shop"}, Factory: factory.Options{Scope: factory.Scope{Namespaces: []string{"shop"}}}},
			"WarmupTimeout is -1s":           {WarmupTimeout: -time.Second},
			"CertFile and KeyFile belong":    {MetricsBindAddress: ":1", MetricsTLS: &serving.TLS{CertFile: "x"}},
			"is the secret mounted there?":   {MetricsBindAddress: ":1", MetricsTLS: &serving.TLS{CertFile: "/x", KeyFile: "/y"}},
			"raise LeaseDuration, so that":   {LeaderElection: &leaderelection.Options{Name: "x", LeaseDuration: time.Second}},
			"want 1ms to 596523h14m7s, or 0": {LeaderElection: &leaderelection.Options{Name: "x", RetryPeriod: -1}},
		} {
			opts.Scheme = sharedScheme()
			_, err := manager.New(r.cfg, opts)
			require.ErrorContains(r, err, want)
		}
		_, err := manager.New(nil, options{})
		require.ErrorContains(r, err, "config.Load")

		m := r.manager(options{})
		require.NoError(r, m.Add(&part{rig: r, name: "pods"}))
		require.ErrorContains(r, m.Add(&part{rig: r, name: "pods"}), `two runnables are named "pods": give one of them a different name`)
		events := events.New(m.Client(), "example.com/pods", events.Options{})
		require.NoError(r, m.Add(events))
		require.ErrorContains(r, m.Add(events), "add events of example.com/pods: it has already been added")
		require.ErrorContains(r, m.AddTo(manager.Group(17), &part{rig: r, name: "x"}), "there is no Group(17)")

		empty := func(name string) *controller.Controller {
			c, err := controller.New(name, controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
				return controller.Result{}, nil
			}), m.ControllerOptions())
			require.NoError(r, err)
			return c
		}
		require.NoError(r, m.Add(empty("janitor")))
		require.ErrorContains(r, m.Add(empty("janitor")), `two runnables are named "janitor": give one of them a different name`)
		err = m.Run(r.ctx)
		require.ErrorIs(r, err, controller.ErrNoSource)
		require.EqualError(r, err, "janitor: controller janitor: it has no sources: call Watch before Run")
	})
}

func TestSyncPeriodsAreSpread(t *testing.T) {
	c, err := manager.NewCluster(&config.Config{Host: "http://127.0.0.1:1"}, manager.ClusterOptions{Scheme: sharedScheme()})
	require.NoError(t, err)
	different := map[time.Duration]bool{}
	for range 100 {
		p := c.SyncPeriod()
		require.InDelta(t, 10*time.Hour, p, float64(time.Hour))
		different[p] = true
	}
	require.Greater(t, len(different), 90)
}
