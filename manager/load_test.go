package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

// reconciles creates a controller for the Pods of a manager.
func (r *rig) reconciles(m *manager.Manager, name string, workers int, reconcile controller.Func) *controller.Controller {
	r.Helper()
	opts := m.ControllerOptions()
	opts.Concurrency = workers
	c, err := controller.New(name, reconcile, opts)
	require.NoError(r, err)
	c.Watch(controller.For(factory.Informer[*corev1.Pod](m.Factory())))
	require.NoError(r, m.Add(c))
	return c
}

// A leader is stopped while all workers are busy, thousands of requests are queued, and others wait for
// a back-off, a delay, the cache, or a failing map function. Running work is finished, no new work
// starts, and then the lease is released.
func TestStopUnderLoad(t *testing.T) {
	const (
		objects = 5000
		workers = 8
		work    = 2 * time.Second
	)
	inBubble(t, server{}, func(r *rig) {
		for n := range objects {
			r.pod(fmt.Sprint("p", n))
		}
		m := r.manager(options{LeaderElection: &leaderelection.Options{Name: "janitor", Identity: "us"}})
		maps := controller.ClientFor[*corev1.ConfigMap](m.Factory())
		events := events.New(m.Client(), "example.com/janitor", events.Options{Instance: "test"})
		var begun, ended atomic.Int64
		c := r.reconciles(m, "janitor", workers, func(ctx context.Context, req controller.Request) (controller.Result, error) {
			n := begun.Add(1)
			defer ended.Add(1)
			events.Recordf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}, "", "Seen", "See", "seen")
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: fmt.Sprint("c", n)}})
			time.Sleep(work) // it ignores its context
			if holder := r.holder(r.srv); holder != "us" {
				r.Errorf("%s works while the lease is %q's", req, holder)
			}
			switch {
			case err != nil:
				return controller.Result{}, err
			case n%4 == 0:
				return controller.Result{}, errBoom
			case n%4 == 1:
				return controller.Result{RequeueAfter: time.Hour}, nil
			case n%4 == 2:
				return controller.Result{Requeue: true}, nil
			}
			return controller.Result{}, nil
		})
		c.Watch(controller.Map(maps.Informer(), func(context.Context, *corev1.ConfigMap) ([]controller.Request, error) {
			return nil, errors.New("never")
		}))
		require.NoError(r, m.Add(events))
		run := r.start(m)
		settle(21 * time.Second)
		s := c.Status()
		require.Equal(r, workers, s.Active)
		require.Greater(r, s.Queue.Waiting, objects/2)

		run.stop()
		asked := time.Now()
		for !run.ended.Load() {
			settle(100 * time.Millisecond)
			require.Less(r, time.Since(asked), 30*time.Second)
		}
		require.NoError(r, run.err)
		require.LessOrEqual(r, time.Since(asked), work+time.Second, "it takes as long as what is in progress")
		require.Equal(r, begun.Load(), ended.Load())
		require.Equal(r, controller.Stopped, c.Status().State)
		require.Empty(r, r.holder(r.srv))
		before, requests := begun.Load(), r.srv.Stats().Requests("", "")
		settle(2 * time.Hour)
		require.Equal(r, before, begun.Load())
		require.Equal(r, requests, r.srv.Stats().Requests("", ""), "nobody is left who asks the server")
	})
}

// If work does not end in time, it is named. While it runs, the lease is kept, even after Run has
// returned, so no other process starts.
func TestTheLeaseIsKeptByWorkThatDoesNotStop(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		r.pod("a")
		m := r.manager(options{LeaderElection: &leaderelection.Options{Name: "janitor", Identity: "a"}, GracefulShutdownTimeout: 10 * time.Second})
		reconcile := func(work time.Duration) controller.Func {
			return func(_ context.Context, req controller.Request) (controller.Result, error) {
				time.Sleep(work)
				r.note(fmt.Sprintf("%s after %s", req, work))
				return controller.Result{}, nil
			}
		}
		r.reconciles(m, "stuck", 1, reconcile(10*time.Minute))
		r.reconciles(m, "brisk", 1, reconcile(5*time.Second))
		a := r.start(m)
		settle(time.Second)
		b := r.contender("b", 0)
		settle(time.Second)
		require.Equal(r, []string{"+b-other"}, r.noted())
		a.stop()
		settle(12 * time.Second)
		require.True(r, a.ended.Load())
		require.EqualError(r, a.err, "not stopped in time (10s): stuck (reconcile of shop/a for 13s)")
		require.ErrorIs(r, a.err, manager.ErrNotStopped)
		require.Equal(r, []string{"shop/a after 5s"}, r.noted())
		for range 9 {
			settle(time.Minute)
			require.Equal(r, "a", r.holder(r.srv))
			require.Empty(r, r.noted(), "nobody begins")
		}
		settle(time.Minute)
		require.Equal(r, []string{"shop/a after 10m0s", "+b"}, r.noted())
		require.NoError(r, b.end())
	})
}

// /readyz?verbose names a stuck reconcile, and so do the warning and the error when the manager stops.
// They do not name the leader election, which only waits for the reconcile and may not even be
// configured.
func TestAReconcileThatHangsIsNamed(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		r.pod("a")
		var log bytes.Buffer
		m := r.manager(options{GracefulShutdownTimeout: 15 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		release := make(chan struct{})
		r.reconciles(m, "stuck", 1, func(context.Context, controller.Request) (controller.Result, error) {
			<-release
			return controller.Result{}, nil
		})
		run := r.start(m)
		settle(time.Minute)
		code, body := probe(m, "/readyz?verbose")
		require.Equal(r, 200, code)
		require.Contains(r, body, "[+] runnables: ok, but slow: stuck (reconcile of shop/a for 1m0s)\n")
		require.Contains(r, log.String(), `msg="a reconcile has not returned" controller=stuck request=shop/a`)
		run.stop()
		settle(20 * time.Second)
		require.Contains(r, log.String(), `msg="still stopping" running="[stuck (reconcile of shop/a for 1m10s)]"`)
		require.True(r, run.ended.Load())
		require.EqualError(r, run.err, "not stopped in time (15s): stuck (reconcile of shop/a for 1m16s)")
		close(release)
		settle(time.Second)
	})
}

// A controller of a running manager adds and removes a namespace and a source a thousand times. No
// goroutines, memory or watches are left behind.
func TestRemovedSourcesAndInformersLeaveNothingBehind(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{LeaderElection: janitor()})
		var reconciled atomic.Int64
		c := r.reconciles(m, "janitor", 4, func(context.Context, controller.Request) (controller.Result, error) {
			reconciled.Add(1)
			return controller.Result{}, nil
		})
		pods := factory.Informer[*corev1.Pod](m.Factory())
		r.pod("a")
		run := r.start(m)
		comeAndGo := func(n int) {
			of := factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Namespaces: []string{fmt.Sprint("ns", n%7)}}}
			maps, giveBack := factory.Borrow(m.Factory(), of)
			bell := make(chan string)
			removes := []func() <-chan struct{}{
				c.Watch(controller.For(pods)),
				c.Watch(controller.For(maps)),
				c.Watch(controller.Map(maps, func(context.Context, *corev1.ConfigMap) ([]controller.Request, error) { return nil, errBoom })),
				c.Watch(controller.Channel("bell", bell, func(_ context.Context, name string) ([]controller.Request, error) {
					return []controller.Request{{Key: object.Key{Namespace: "shop", Name: name}}}, nil
				})),
			}
			if n%3 > 0 { // otherwise it is removed before it was added
				synctest.Wait()
				bell <- "b"
			}
			for _, remove := range removes {
				<-remove()
			}
			<-giveBack()
		}
		for n := range 7 {
			_, err := r.srv.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns", n), Name: "c"}})
			require.NoError(r, err)
			comeAndGo(n) // allocates everything that is created only once
		}
		settle(10 * time.Minute) // unused connections are closed by then
		flight.Process().Resize(0)
		defer flight.Process().Resize(flight.DefaultSize)
		goroutines, memory, watches := runtime.NumGoroutine(), heap(), r.srv.Stats().Open("watch", "")
		for n := range 1000 {
			comeAndGo(n)
		}
		settle(10 * time.Minute)
		require.Equal(r, watches, r.srv.Stats().Open("watch", ""))
		require.Less(r, runtime.NumGoroutine(), goroutines+10, "but for the runtime's own")
		require.Less(r, heap(), memory+1<<20)
		require.Len(r, c.Status().Sources, 1)
		require.Len(r, m.Factory().Status(), 1)
		require.Len(r, pods.Status().Handlers, 1)
		before := reconciled.Load()
		r.pod("still")
		settle(time.Second)
		require.Equal(r, before+1, reconciled.Load())
		require.NoError(r, run.end())
	})
}

// heap returns the size of the live heap.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees objects finalized by the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// pausing is a rate limiter that is locked while When waits for a slot that never comes. The lock is a channel,
// because a bubble's clock does not advance while a goroutine waits for a mutex.
type pausing struct{ lock, slots chan struct{} }

func (p *pausing) When(controller.Request) time.Duration {
	p.lock <- struct{}{}
	defer func() { <-p.lock }()
	<-p.slots
	return 0
}

func (p *pausing) Forget(controller.Request) {}

func (p *pausing) NumRequeues(controller.Request) int {
	p.lock <- struct{}{}
	defer func() { <-p.lock }()
	return 0
}

// A rate limiter that blocks does not hold up the stop or the probes, which list the work that it holds up.
func TestARateLimiterThatBlocksDoesNotHoldUpTheStop(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		r.pod("a")
		m := r.manager(options{GracefulShutdownTimeout: 20 * time.Second})
		limiter := &pausing{make(chan struct{}, 1), make(chan struct{})}
		require.NoError(r, manager.ControllerFor[*corev1.Pod](m).With(controller.Options{RateLimiter: limiter}).Complete(
			func(context.Context, *corev1.Pod) (controller.Result, error) { return controller.Result{}, errBoom }))
		run := r.start(m)
		settle(time.Minute)
		_, body := probe(m, "/readyz?verbose")
		require.Contains(r, body, "(reconcile of shop/a for 1m")
		run.stop()
		time.Sleep(time.Minute)
		ended := run.ended.Load()
		close(limiter.slots)
		require.True(r, ended)
		require.ErrorIs(r, run.err, manager.ErrNotStopped)
		require.ErrorContains(r, run.err, "(reconcile of shop/a for 1m")
	})
}

// stuck is a runnable whose Unfinished blocks.
type stuck struct{ part }

func (s *stuck) Unfinished() []string {
	<-s.ctx.Done()
	return nil
}

func TestAnUnfinishedThatBlocksDoesNotHoldUpTheStop(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{GracefulShutdownTimeout: 20 * time.Second})
		require.NoError(r, m.Add(&stuck{part{rig: r, name: "stuck", stopping: time.Minute}}))
		run := r.start(m)
		settle(time.Second)
		run.stop()
		settle(30 * time.Second)
		require.True(r, run.ended.Load())
		require.ErrorContains(r, run.err, "stuck (its Unfinished has not returned)")
		settle(time.Minute)
	})
}
