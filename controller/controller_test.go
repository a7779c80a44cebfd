package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/workqueue"
)

// journal is a reconciler that records its calls.
type journal struct {
	mu    sync.Mutex
	lines []string
	do    func(ctx context.Context, req controller.Request) (controller.Result, error) // nil succeeds
}

func (j *journal) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	j.write(req.String())
	if j.do == nil {
		return controller.Result{}, nil
	}
	return j.do(ctx, req)
}

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// Write lets a logger write.
func (j *journal) Write(line []byte) (int, error) {
	j.write(string(line))
	return len(line), nil
}

// read waits until everything is idle, and returns the calls recorded since the last read.
func (j *journal) read() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

func newController(t testing.TB, r controller.Reconciler, opts controller.Options, sources ...controller.Source) *controller.Controller {
	t.Helper()
	c, err := controller.New("test", r, opts)
	require.NoError(t, err)
	for _, s := range sources {
		c.Watch(s)
	}
	return c
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	for _, f := range change {
		f(p)
	}
	return p
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

func TestEveryChangeLeadsToAReconcile(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.For(pods))
		controllertest.Put(e, pod("a"))
		require.Equal(e, controller.Idle, c.Status().State)
		e.Start(c)
		require.Equal(e, []string{"shop/a"}, j.read())
		require.Equal(e, controller.Running, c.Status().State)
		controllertest.Put(e, pod("a", labelled("x", "1")))
		controllertest.Put(e, pod("b"))
		require.Equal(e, []string{"shop/a", "shop/b"}, j.read())
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"})
		require.Equal(e, []string{"shop/a"}, j.read())
		s := c.Status()
		require.EqualValues(e, 4, s.Successes)
		require.Equal(e, []controller.SourceStatus{{Name: "pods", Synced: true, Added: 4}}, s.Sources)
		require.NoError(e, c.Ready())
	})
}

func TestOwnersAreRequested(t *testing.T) {
	ref := func(apiVersion, kind, name string, controls bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: "1", Controller: &controls})
		}
	}
	web := ref("apps/v1", "ReplicaSet", "web", true)
	old := ref("apps/v1beta1", "ReplicaSet", "web", true)
	shared := ref("apps/v1", "ReplicaSet", "shared", false)
	node := ref("v1", "Node", "n1", true)
	other := ref("example.com/v1", "ReplicaSet", "not-ours", true)
	for name, c := range map[string]struct {
		any, nodes bool
		pod        *corev1.Pod
		want       []string
	}{
		"the controller":            {pod: pod("a", web, shared), want: []string{"shop/web"}},
		"whatever the version":      {pod: pod("a", old), want: []string{"shop/web"}},
		"of the right group":        {pod: pod("a", other)},
		"no owner":                  {pod: pod("a")},
		"not controlled":            {pod: pod("a", shared)},
		"all owners":                {any: true, pod: pod("a", web, shared), want: []string{"shop/web", "shop/shared"}},
		"an owner of the cluster's": {nodes: true, pod: pod("a", node), want: []string{"n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				pods := factory.Informer[*corev1.Pod](e.Factory)
				var owner controller.Kind = controller.ClientFor[*appsv1.ReplicaSet](e.Factory)
				if c.nodes {
					owner = controller.ClientFor[*corev1.Node](e.Factory)
				}
				owns := controller.Owns(pods, owner)
				if c.any {
					owns = controller.OwnsAny(pods, owner)
				}
				j := &journal{}
				e.Start(newController(e, j, controller.Options{}, owns))
				controllertest.Put(e, c.pod)
				require.Equal(e, c.want, j.read())
			})
		})
	}
}

// If an object changes owners, both owners are reconciled.
func TestBothOwnersAreRequestedWhenTheOwnerChanges(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods, sets := factory.Informer[*corev1.Pod](e.Factory), controller.ClientFor[*appsv1.ReplicaSet](e.Factory)
		j := &journal{}
		e.Start(newController(e, j, controller.Options{}, controller.Owns(pods, sets)))
		owned := func(by string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: by, UID: "1", Controller: new(true)}}
			}
		}
		controllertest.Put(e, pod("a", owned("one")))
		require.Equal(e, []string{"shop/one"}, j.read())
		controllertest.Put(e, pod("a", owned("two")))
		require.Equal(e, []string{"shop/one", "shop/two"}, j.read())
	})
}

func TestResultsOfAReconcile(t *testing.T) {
	noLuck := errors.New("no luck")
	for name, c := range map[string]struct {
		first func(context.Context) (controller.Result, error)
		calls int
		after time.Duration // of the second call, at most
		check func(*testing.T, controller.Status)
	}{
		"success": {calls: 1, first: func(context.Context) (controller.Result, error) { return controller.Result{}, nil },
			check: func(t *testing.T, s controller.Status) { require.EqualValues(t, 1, s.Successes) }},
		"requeue after": {calls: 2, after: time.Minute, first: func(context.Context) (controller.Result, error) {
			return controller.Result{RequeueAfter: time.Minute, Requeue: true}, nil
		}, check: func(t *testing.T, s controller.Status) { require.EqualValues(t, 1, s.RequeuesAfter) }},
		"requeue": {calls: 2, after: 5 * time.Millisecond, first: func(context.Context) (controller.Result, error) {
			return controller.Result{Requeue: true}, nil
		}, check: func(t *testing.T, s controller.Status) { require.EqualValues(t, 1, s.Requeues) }},
		"requeue after what is over": {calls: 2, after: 5 * time.Millisecond, first: func(context.Context) (controller.Result, error) {
			return controller.Result{RequeueAfter: -time.Minute}, nil
		}, check: func(t *testing.T, s controller.Status) { require.EqualValues(t, 1, s.Requeues) }},
		"error": {calls: 2, after: 5 * time.Millisecond, first: func(context.Context) (controller.Result, error) {
			return controller.Result{RequeueAfter: time.Hour}, noLuck
		}, check: func(t *testing.T, s controller.Status) {
			require.EqualValues(t, 1, s.Errors)
			require.ErrorIs(t, s.Failure, noLuck)
			require.ErrorContains(t, s.Failure, "shop/a: no luck (1 attempt,")
		}},
		"terminal error": {calls: 1, first: func(context.Context) (controller.Result, error) {
			return controller.Result{}, fmt.Errorf("give up: %w", controller.Terminal(noLuck))
		}, check: func(t *testing.T, s controller.Status) {
			require.EqualValues(t, 1, s.Errors)
			require.EqualValues(t, 1, s.Terminal)
			require.ErrorIs(t, s.Failure, noLuck)
		}},
		"panic": {calls: 2, after: 5 * time.Millisecond, first: func(context.Context) (controller.Result, error) { panic("oh") },
			check: func(t *testing.T, s controller.Status) {
				require.EqualValues(t, 1, s.Panics)
				require.ErrorContains(t, s.Failure, "reconciler panicked: oh")
			}},
		"error about a panic elsewhere": {calls: 2, after: 5 * time.Millisecond, first: func(context.Context) (controller.Result, error) {
			return controller.Result{}, fmt.Errorf("the cache: %w", &failure.PanicError{In: "transform"})
		}, check: func(t *testing.T, s controller.Status) {
			require.EqualValues(t, 1, s.Errors)
			require.Zero(t, s.Panics)
		}},
		"exit": {calls: 2, after: 5 * time.Millisecond, first: func(context.Context) (controller.Result, error) { runtime.Goexit(); return controller.Result{}, nil },
			check: func(t *testing.T, s controller.Status) {
				require.ErrorContains(t, s.Failure, "Goexit")
				require.Zero(t, s.Active)
			}},
		"timeout": {calls: 2, after: 11 * time.Second, first: func(ctx context.Context) (controller.Result, error) {
			<-ctx.Done()
			return controller.Result{}, context.Cause(ctx)
		}, check: func(t *testing.T, s controller.Status) {
			require.EqualValues(t, 1, s.Timeouts)
			require.ErrorIs(t, s.Failure, controller.ErrTimeout)
			require.Equal(t, 1, strings.Count(s.Failure.Error(), controller.ErrTimeout.Error()))
		}},
		"timeout of a call": {calls: 1, first: func(ctx context.Context) (controller.Result, error) {
			<-ctx.Done()
			return controller.Result{}, controller.Terminal(ctx.Err())
		}, check: func(t *testing.T, s controller.Status) {
			require.EqualValues(t, 1, s.Timeouts)
			require.EqualValues(t, 1, s.Terminal)
			require.ErrorIs(t, s.Failure, context.DeadlineExceeded)
			require.ErrorContains(t, s.Failure, "the reconcile took longer than the controller's timeout (10s): context deadline exceeded")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
				pods := factory.Informer[*corev1.Pod](e.Factory)
				var calls []time.Time
				r := controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
					calls = append(calls, time.Now()) // one at a time, because it is one request
					if len(calls) == 1 {
						return c.first(ctx)
					}
					return controller.Result{}, nil
				})
				ctl := newController(e, r, controller.Options{Timeout: 10 * time.Second}, controller.For(pods))
				controllertest.Put(e, pod("a"))
				e.Start(ctl)
				e.Settle(24 * time.Hour)
				require.Len(e, calls, c.calls)
				if c.calls == 2 {
					require.LessOrEqual(e, calls[1].Sub(calls[0]), c.after)
				}
				c.check(t, ctl.Status())
			})
		})
	}
}

func TestRunReturnsAfterItsGoroutinesHaveEnded(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		ended := false
		j := &journal{do: func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			<-ctx.Done()
			time.Sleep(time.Minute)
			ended = true
			return controller.Result{}, ctx.Err()
		}}
		c := newController(e, j, controller.Options{}, controller.For(pods))
		controllertest.Put(e, pod("a"))
		stop := e.Start(c)
		stop()
		require.True(e, ended)
		s := c.Status()
		require.Equal(e, controller.Stopped, s.State)
		require.Zero(e, s.Errors, "the end of the run is no error of the request")

		j.do = nil
		j.read()
		stop = e.Start(c)
		require.Equal(e, []string{"shop/a"}, j.read(), "it runs again, from the beginning")
		require.ErrorIs(e, c.Run(e.Context()), controller.ErrRunning)
		stop()
	})
}

// A forbidden kind blocks only the controllers that need it, and they report it.
func TestUnsyncedSourceDelaysOnlyItsController(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.SetAuthorizer(apiservertest.Deny("", "secrets"))
		pods, secrets := factory.Informer[*corev1.Pod](e.Factory), factory.Informer[*corev1.Secret](e.Factory)
		one, two := &journal{}, &journal{}
		said, waited := &journal{}, &journal{}
		works := newController(e, one, controller.Options{Logger: slog.New(slog.NewTextHandler(said, nil))}, controller.For(pods))
		waits := newController(e, two, controller.Options{Logger: slog.New(slog.NewTextHandler(waited, nil))}, controller.For(pods), controller.For(secrets))
		require.ErrorContains(e, waits.Ready(), "it is Idle")
		controllertest.Put(e, pod("a"))
		e.Start(works, waits)
		require.Equal(e, []string{"shop/a"}, one.read())
		require.Empty(e, two.read())
		require.NoError(e, works.Ready())

		err := waits.Ready()
		require.ErrorIs(e, err, controller.ErrWaiting)
		require.ErrorContains(e, err, "controller test: waiting for secrets: ")
		require.ErrorContains(e, err, "forbidden")
		require.NotContains(e, err.Error(), "pods")
		require.Equal(e, controller.Waiting, waits.Status().State)
		require.ErrorContains(e, waits.Status().Sources[1].Waiting, "forbidden")

		e.Settle(10 * time.Minute) // beyond the patience of the informer's own WaitForSync
		log := said.read()
		require.Len(e, log, 1)
		require.Contains(e, log[0], "msg=reconciling controller=test workers=1\n")
		log = waited.read()
		require.Len(e, log, 5, "after 10, 30, 70, 150 and 310 s")
		for _, line := range log {
			require.Contains(e, line, `msg="the controller is not reconciling yet" controller=test err="controller test: waiting for secrets: list: forbidden`)
		}
		e.Server.SetAuthorizer(nil)
		e.Settle(time.Minute)
		require.Equal(e, []string{"shop/a"}, two.read())
		require.NoError(e, waits.Ready())
		log = waited.read()
		require.NotEmpty(e, log)
		require.Contains(e, log[len(log)-1], "msg=reconciling")
	})
}

// The controller starts if the only source that has not synced is removed.
func TestRemovingTheUnsyncedSourceStartsReconciles(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.SetAuthorizer(apiservertest.Deny("", "secrets"))
		pods, secrets := factory.Informer[*corev1.Pod](e.Factory), factory.Informer[*corev1.Secret](e.Factory)
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.For(pods))
		remove := c.Watch(controller.For(secrets))
		controllertest.Put(e, pod("a"))
		e.Start(c)
		require.Empty(e, j.read())
		<-remove()
		require.Equal(e, []string{"shop/a"}, j.read())
		<-remove()
	})
}

func TestInformerThatIsNotRunning(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		elsewhere := factory.New(e.Client, factory.Options{})
		c := newController(e, &journal{}, controller.Options{}, controller.For(factory.Informer[*corev1.Pod](elsewhere)))
		e.Start(c)
		require.ErrorContains(e, c.Ready(), "waiting for pods: the informer is not running: call its Run, or start its factory")
	})
}

func TestBadConfigurationFailsAtOnce(t *testing.T) {
	r := controller.Func(func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil })
	for want, make := range map[string]func() (*controller.Controller, error){
		"the name is empty":     func() (*controller.Controller, error) { return controller.New("", r, controller.Options{}) },
		"the reconciler is nil": func() (*controller.Controller, error) { return controller.New("x", nil, controller.Options{}) },
		"Concurrency is -1": func() (*controller.Controller, error) {
			return controller.New("x", r, controller.Options{Concurrency: -1})
		},
		"Timeout is -1s": func() (*controller.Controller, error) {
			return controller.New("x", r, controller.Options{Timeout: -time.Second})
		},
		"Resync is -1s": func() (*controller.Controller, error) {
			return controller.New("x", r, controller.Options{Resync: -time.Second})
		},
	} {
		_, err := make()
		require.ErrorContains(t, err, want)
	}
	_, err := controller.New("x", controller.Func(nil), controller.Options{})
	require.ErrorContains(t, err, "the reconciler is nil")
	c, err := controller.New("x", r, controller.Options{})
	require.NoError(t, err)
	require.ErrorIs(t, c.Run(t.Context()), controller.ErrNoSource)
	require.Equal(t, controller.Idle, c.Status().State)
}

// A retry is as urgent as the request was, so ten thousand objects that fail at the start do not get in
// front of live changes.
func TestARetryKeepsItsPriority(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		j.do = func(ctx context.Context, req controller.Request) (controller.Result, error) {
			switch {
			case req.Name == "a" && controller.Attempt(ctx) == 1:
				return controller.Result{}, errors.New("no luck")
			case req.Name == "b":
				time.Sleep(time.Minute)
			}
			return controller.Result{}, nil
		}
		controllertest.Put(e, pod("a"))
		controllertest.Put(e, pod("b"))
		e.Start(newController(e, j, controller.Options{}, controller.For(pods)))
		e.Settle(30 * time.Second)
		require.Len(e, j.read(), 2)
		controllertest.Put(e, pod("c"))
		e.Settle(time.Minute)
		require.Equal(e, []string{"shop/c", "shop/a"}, j.read())
	})
}

func TestSuccessResetsTheFailureCount(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		var attempts []int
		results := []func() (controller.Result, error){
			func() (controller.Result, error) { return controller.Result{}, errors.New("no luck") },
			func() (controller.Result, error) { return controller.Result{Requeue: true}, nil },
			func() (controller.Result, error) { return controller.Result{RequeueAfter: time.Second}, nil },
			func() (controller.Result, error) { return controller.Result{}, errors.New("no luck") },
			func() (controller.Result, error) { return controller.Result{}, nil },
		}
		r := controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			attempts = append(attempts, controller.Attempt(ctx))
			return results[(len(attempts)-1)%len(results)]()
		})
		controllertest.Put(e, pod("a"))
		e.Start(newController(e, r, controller.Options{}, controller.For(pods)))
		e.Settle(time.Minute)
		controllertest.Put(e, pod("a", labelled("x", "y")))
		require.Equal(e, []int{1, 2, 1, 1, 2, 1}, attempts)
	})
}

func TestASecondRunWaitsForItsSourcesToo(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		goOn := make(chan struct{}, 1)
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.SourceFunc("slow", func(ctx context.Context, in *controller.Inbox) error {
			in.Add(controller.Generic, object.Key{}, request("a"))
			select {
			case <-goOn:
				in.Synced()
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		}))
		goOn <- struct{}{}
		stop := e.Start(c)
		require.Len(e, j.read(), 1)
		stop()
		e.Start(c)
		require.Empty(e, j.read())
		require.ErrorContains(e, c.Ready(), "waiting for slow: it has not synced yet")
		goOn <- struct{}{}
		require.Len(e, j.read(), 1)
	})
}

// Requesting another reconcile is not a failure.
func TestAttemptsCountFailures(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		failed := errors.New("no")
		outcomes := []error{nil, nil, failed, failed, nil, failed, controller.Terminal(failed)}
		var attempts []int
		c := newController(e, controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			err := outcomes[len(attempts)]
			attempts = append(attempts, controller.Attempt(ctx))
			return controller.Result{Requeue: true}, err
		}), controller.Options{}, controller.For(pods.Informer()))
		e.Start(c)
		controllertest.Put(e, pod("a"))
		e.Settle(time.Minute)
		require.Equal(e, []int{1, 1, 1, 2, 3, 1, 2}, attempts)
		require.Equal(e, 2, c.Status().Failure.Attempts)
		outcomes = append(outcomes, controller.Terminal(failed))
		controllertest.Put(e, pod("a", labelled("x", "y")))
		require.Equal(e, 1, c.Status().Failure.Attempts)
	})
}

// A user's rate limiter outlives a run, but the counts of the requests that the end of the run drops do not.
func TestRateLimiterForgetsWhatTheEndOfARunDrops(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		limiter := workqueue.NewExponential[controller.Request](workqueue.ExponentialOptions{Base: time.Minute})
		var tries atomic.Int64
		j := &journal{do: func(ctx context.Context, r controller.Request) (controller.Result, error) {
			switch r.Name {
			case "fails":
				return controller.Result{}, errors.New("no luck")
			case "runs":
				if tries.Add(1) > 1 {
					<-ctx.Done()
					return controller.Result{}, ctx.Err()
				}
			}
			return controller.Result{Requeue: true}, nil
		}}
		c := newController(e, j, controller.Options{RateLimiter: limiter, Concurrency: 3}, controller.For(factory.Informer[*corev1.Pod](e.Factory)))
		names := []string{"fails", "repeats", "runs"}
		for _, name := range names {
			controllertest.Put(e, pod(name))
		}
		stop := e.Start(c)
		time.Sleep(10 * time.Minute)
		for _, name := range names {
			require.NotZero(e, limiter.NumRequeues(controller.Request{Key: object.KeyOf(pod(name))}))
		}
		stop()
		for _, name := range names {
			require.Zero(e, limiter.NumRequeues(controller.Request{Key: object.KeyOf(pod(name))}), name)
		}
	})
}
