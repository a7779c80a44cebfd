package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

func done(context.Context, controller.Request) (controller.Result, error) {
	return controller.Result{}, nil
}

func bell(name string) controller.Source {
	return controller.Channel(name, make(chan int), func(context.Context, int) ([]controller.Request, error) { return nil, nil })
}

// Names are arbitrary. An empty name, or one that is not UTF-8, is a label value like
// any other; it used to end the process at the first scrape. Only the name of a
// controller is always UTF-8, since New rejects others.
func TestAnyNameIsALabel(t *testing.T) {
	for _, name := range []string{"", "\xff"} {
		r := metrics.NewRegistry()
		c, err := controller.New("pods"+strings.ToValidUTF8(name, ""), controller.Func(done), controller.Options{Metrics: r.Controllers()})
		require.NoError(t, err)
		c.Watch(bell(name))
		q := workqueue.New(workqueue.Options[int]{Name: name, Metrics: r.WorkQueues()})
		defer q.ShutDown()
		require.NoError(t, r.AddInformers("", statuses{{
			Reflector: reflector.Status{Resource: name}, Handlers: []sharedinformer.HandlerStatus{{Name: name, Place: name}},
		}}))
		require.NoError(t, r.Register(metrics.NewElections(nobodys{})))
		r.Webhooks().Register(name).Started()
		asked := r.Requests(roundTripper(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 200}, nil }))
		_, err = asked.RoundTrip(&http.Request{Method: name, URL: &url.URL{Host: name}})
		require.NoError(t, err)
		_, err = r.Gather()
		require.NoError(t, err)
	}
}

// failing is a user's source whose Status calls a function.
type failing func()

func (f failing) Status() []sharedinformer.Status { f(); return nil }

// A panicking source only loses its own metrics.
func TestFailingSourceLosesOnlyItsOwnMetrics(t *testing.T) {
	for name, f := range map[string]func(){"panic": func() { panic("boom") }, "exit": goruntime.Goexit} {
		t.Run(name, func(t *testing.T) {
			r := metrics.NewRegistry()
			require.NoError(t, r.AddInformers("far", failing(f)))
			require.NoError(t, r.Register(metrics.NewElections(nobodys{})))
			_, err := r.Gather()
			require.ErrorContains(t, err, "a status for metrics")
			w := httptest.NewRecorder()
			r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			require.Equal(t, 200, w.Code)
			require.Contains(t, w.Body.String(), "leader_election_master_status")
			w = httptest.NewRecorder()
			r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			require.Contains(t, w.Body.String(), `promhttp_metric_handler_errors_total{cause="gathering"}`)
		})
	}
}

func TestBlockedScrapeIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		r := metrics.NewRegistry()
		require.NoError(t, r.AddInformers("far", failing(func() { <-end })))
		h := r.Handler()
		began := time.Now()
		for range 12 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			require.Equal(t, 503, w.Code)
		}
		require.Equal(t, 10*time.Minute, time.Since(began), "ten were waited for, and no more are begun")
		close(end)
	})
}

// nobodys is an election without a leader.
type nobodys struct{}

func (nobodys) Status() leaderelection.Status { return leaderelection.Status{} }

// ended creates a controller that is unreachable once it has ended.
func ended(t *testing.T, m controller.MetricsProvider, name string) weak.Pointer[controller.Controller] {
	t.Helper()
	c, err := controller.New(name, controller.Func(done), controller.Options{Metrics: m})
	require.NoError(t, err)
	c.Watch(bell("bell"))
	for range 2 { // it may run again
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.Run(ctx))
	}
	return weak.Make(c)
}

func TestAControllerThatHasEndedIsForgotten(t *testing.T) {
	exporter := metrics.NewControllers(metrics.ControllerOptions{})
	kept := ended(t, exporter, "tenant")
	for range 5 {
		goruntime.GC()
	}
	require.Nil(t, kept.Value(), "nobody has it any more")
	require.Equal(t, 4, testutil.CollectAndCount(exporter, "controller_runtime_reconcile_total"), "its figures can still be read")
	goruntime.KeepAlive(exporter)
}

func TestSeriesEndAfterTheirSubjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controllers := metrics.NewControllers(metrics.ControllerOptions{})
		queues := metrics.NewWorkQueues(metrics.WorkQueueOptions{})
		count := func(c prometheus.Collector, names ...string) int { return testutil.CollectAndCount(c, names...) }
		stays, err := controller.New("stays", controller.Func(done), controller.Options{Metrics: controllers})
		require.NoError(t, err)
		for _, name := range []string{"a", "b", "stays"} {
			ended(t, controllers, name)
			q := workqueue.New(workqueue.Options[int]{Name: name, Metrics: queues})
			q.Add(1)
			q.ShutDown()
		}
		q := workqueue.New(workqueue.Options[int]{Name: "stays", Metrics: queues})
		defer q.ShutDown()
		time.Sleep(14 * time.Minute)
		require.Equal(t, 3, count(controllers, "controller_runtime_reconcile_time_seconds"))
		require.Equal(t, 3*4, count(controllers, "controller_runtime_reconcile_total"))
		require.Equal(t, 3, count(queues, "workqueue_adds_total"))
		require.Equal(t, 3, count(queues, "workqueue_work_duration_seconds"))
		time.Sleep(2 * time.Minute)
		require.Equal(t, 1, count(controllers, "controller_runtime_reconcile_time_seconds"))
		require.Equal(t, 4, count(controllers, "controller_runtime_reconcile_total"))
		require.Equal(t, 1, count(queues, "workqueue_adds_total"))
		require.Equal(t, 1, count(queues, "workqueue_work_duration_seconds"))
		goruntime.KeepAlive(stays)
	})
}

// busy is a controller with a number of successes.
type busy uint64

func (busy) Name() string                         { return "pods" }
func (busy) Contents(int) (c controller.Contents) { return c }

func (b busy) Status() controller.Status {
	n := uint64(b)
	return controller.Status{Name: "pods", Successes: n, Concurrency: 1, Sources: []controller.SourceStatus{{Name: "pods", Added: n}}}
}

// If a counter fell, Prometheus would count everything of the controllers with that
// name again.
func TestCountersOfAReusedControllerNameNeverFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controllers := metrics.NewControllers(metrics.ControllerOptions{})
		want := func(n int) {
			t.Helper()
			want := fmt.Sprintf(`
# HELP controller_runtime_reconcile_total Finished reconciles, by result.
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="pods",result="error"} 0
controller_runtime_reconcile_total{controller="pods",result="requeue"} 0
controller_runtime_reconcile_total{controller="pods",result="requeue_after"} 0
controller_runtime_reconcile_total{controller="pods",result="success"} %[1]d
# HELP millrace_controller_source_added_total Requests added by the source.
# TYPE millrace_controller_source_added_total counter
millrace_controller_source_added_total{controller="pods",source="pods"} %[1]d
# HELP controller_runtime_max_concurrent_reconciles Maximum number of concurrent reconciles.
# TYPE controller_runtime_max_concurrent_reconciles gauge
controller_runtime_max_concurrent_reconciles{controller="pods"} 1
`, n)
			require.NoError(t, testutil.CollectAndCompare(controllers, strings.NewReader(want),
				"controller_runtime_reconcile_total", "millrace_controller_source_added_total", "controller_runtime_max_concurrent_reconciles"))
		}
		stays := controllers.Register(busy(1000))
		restarted := controllers.Register(busy(20))
		for n := range 3 {
			controllers.Register(busy(1)).Stopped(busy(1).Status())
			restarted.Stopped(busy(20).Status())
			want(1021 + n)
			time.Sleep(time.Hour)
			want(1021 + n)
			stays.Stopped(busy(1000).Status())
			restarted.Started(busy(20))
			want(1021 + n)
			time.Sleep(time.Hour)
			want(1021 + n)
			restarted.Stopped(busy(20).Status())
			stays.Started(busy(1000))
		}
		restarted.Stopped(busy(20).Status())
		stays.Stopped(busy(1000).Status())
		time.Sleep(time.Hour)
		require.Zero(t, testutil.CollectAndCount(controllers))
		controllers.Register(busy(1000))
		want(1000)
	})
}
