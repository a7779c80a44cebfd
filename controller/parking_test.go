package controller_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controller/controllertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// lagging is a source whose watch events come late.
type lagging[T object.Object] struct {
	rest.ListerWatcher[T]
	lag func() time.Duration
}

func (l lagging[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[T], error], error) {
	events, err := l.ListerWatcher.Watch(ctx, opts)
	return func(yield func(wire.Event[T], error) bool) {
		for e, err := range events {
			time.Sleep(l.lag())
			if !yield(e, err) {
				return
			}
		}
	}, err
}

// late returns a client whose cache lags, and runs its informer.
func late[T object.Object](e *controllertest.Env, lag func() time.Duration) *controller.Client[T] {
	r := rest.ResourceFor[T](e.Client)
	i := sharedinformer.New(lagging[T]{r, lag}, sharedinformer.Options{})
	e.Start(i)
	return controller.NewClient(i, r)
}

func by(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// The law of this package: a reconcile never sees a state older than its own last
// write, whatever it wrote, however late the cache is.
func TestAReconcileSeesItsOwnWrites(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				var mu sync.Mutex // guards rng
				rng := rand.New(rand.NewPCG(seed, 1))
				draw := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return rng.IntN(n)
				}
				lag := func() time.Duration { return time.Duration(draw(40)) * time.Millisecond }
				pods, maps := late[*corev1.Pod](e, lag), late[*corev1.ConfigMap](e, lag)
				w := &writer{t: e, draw: draw, pods: pods, maps: maps, wrote: map[object.Key]*written{}}
				for n := range 5 {
					controllertest.Put(e, pod(fmt.Sprint("p", n)))
				}
				c := newController(e, w, controller.Options{Concurrency: 3}, controller.For(pods.Informer),
					controller.Map(maps.Informer, func(_ context.Context, m *corev1.ConfigMap) ([]controller.Request, error) {
						return []controller.Request{{Key: object.KeyOf(m)}}, nil
					}))
				e.Start(c)
				for range 100 { // somebody else changes the pods too
					e.Settle(time.Duration(draw(50)) * time.Millisecond)
					controllertest.Put(e, pod(fmt.Sprint("p", draw(5)), labelled("n", fmt.Sprint(draw(1000)))))
				}
				e.Settle(time.Minute)
				s := c.Status()
				require.Zero(e, s.Stale)
				require.Zero(e, s.Parked)
				require.Positive(e, s.ParkedTotal, "seed %d: nothing ever had to wait", seed)
			})
		})
	}
}

// writer is a reconciler that writes something at random and checks that the
// cache has what it wrote the time before.
type writer struct {
	t    testing.TB
	draw func(int) int
	pods *controller.Client[*corev1.Pod]
	maps *controller.Client[*corev1.ConfigMap]

	mu    sync.Mutex // guards wrote
	wrote map[object.Key]*written
}

// written is what was written last in the name of one request.
type written struct {
	pod     string // resource version
	mapping string // resource version; "deleted"
}

func (w *writer) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	w.mu.Lock()
	last := w.wrote[req.Key]
	if last == nil {
		last = &written{}
		w.wrote[req.Key] = last
	}
	w.mu.Unlock()
	p, ok := w.pods.Copy(req.Key)
	if !ok {
		w.t.Errorf("%s is not in the cache", req)
		return controller.Result{}, nil
	}
	if last.pod != "" && !object.ReachedRV(p.ResourceVersion, last.pod) {
		w.t.Errorf("%s: the cache has %s, but %s was written", req, p.ResourceVersion, last.pod)
	}
	m, ok := w.maps.Copy(req.Key)
	switch {
	case last.mapping == "deleted" && ok && m.DeletionTimestamp == nil:
		w.t.Errorf("%s: the map that was deleted is in the cache", req)
	case last.mapping != "" && last.mapping != "deleted" && !ok:
		w.t.Errorf("%s: the map that was created is not in the cache", req)
	case last.mapping != "" && last.mapping != "deleted" && !object.ReachedRV(m.ResourceVersion, last.mapping):
		w.t.Errorf("%s: the cache has map %s, but %s was written", req, m.ResourceVersion, last.mapping)
	}
	result := controller.Result{Requeue: w.draw(4) == 0}
	switch n := w.draw(5); {
	case n == 0:
	case n == 1:
		p.Annotations = map[string]string{"n": fmt.Sprint(w.draw(1000))}
		p, err := w.pods.Update(ctx, p)
		if apierrors.IsConflict(err) { // with somebody else
			return result, err
		}
		last.pod = p.ResourceVersion
		return result, err
	case !ok:
		m, err := w.maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}})
		last.mapping = m.ResourceVersion
		return result, err
	case n == 2:
		last.mapping = "deleted"
		return result, w.maps.Delete(ctx, m)
	default:
		m.Data = map[string]string{"n": fmt.Sprint(w.draw(1000))}
		m, err := w.maps.Update(ctx, m)
		last.mapping = m.ResourceVersion
		return result, err
	}
	return result, nil
}

// touch is a reconciler that writes to each object once and notes when it is
// called.
func touch(pods *controller.Client[*corev1.Pod], j *journal) controller.Func {
	began := time.Now()
	return func(ctx context.Context, req controller.Request) (controller.Result, error) {
		j.write(fmt.Sprintf("%s %s", req, time.Since(began)))
		p, _ := pods.Copy(req.Key)
		if p.Labels["touched"] != "" {
			return controller.Result{}, nil
		}
		p.Labels = map[string]string{"touched": "yes"}
		_, err := pods.Update(ctx, p)
		return controller.Result{Requeue: true}, err
	}
}

// One worker is enough: the request that waits does not hold it.
func TestAParkedRequestHoldsNoWorker(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		slow := late[*corev1.Pod](e, by(3*time.Second))
		controllertest.Put(e, pod("b"))
		e.Settle(30 * time.Second) // no bookmark is under way
		j := &journal{}
		c := newController(e, touch(slow, j), controller.Options{}, controller.For(slow.Informer))
		ch := make(chan string)
		c.Watch(controller.Channel("bell", ch, func(_ context.Context, name string) ([]controller.Request, error) {
			return []controller.Request{{Key: object.Key{Namespace: "shop", Name: name}}}, nil
		}))
		e.Start(c)
		first := j.read()
		require.Len(e, first, 2, "each is handled once at first")
		e.Settle(time.Second)
		require.Equal(e, 2, c.Status().Parked)
		ch <- "a"
		ch <- "a"
		require.Empty(e, j.read(), "it stays parked, whoever asks")
		require.Zero(e, c.Status().Active)
		e.Settle(time.Minute)
		require.Subset(e, j.read(), []string{"shop/a 3s", "shop/b 6s"}, "as soon as the cache has it")
		s := c.Status()
		require.Zero(e, s.Parked)
		require.EqualValues(e, 2, s.ParkedTotal)
		require.Zero(e, s.Stale)
	})
}

// The wait is bounded, and what it ends with is counted.
func TestPatienceEnds(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		pods := late[*corev1.Pod](e, by(30*time.Second)) // the list is not late
		e.Settle(time.Hour)
		j := &journal{}
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			j.write("reconciled")
			if controller.Attempt(ctx) == 1 {
				p, _ := pods.Copy(req.Key)
				p.Labels = map[string]string{"touched": "yes"}
				_, err := pods.Update(ctx, p)
				return controller.Result{Requeue: true}, err
			}
			return controller.Result{}, nil
		})
		c := newController(e, r, controller.Options{Patience: 5 * time.Second}, controller.For(pods.Informer))
		e.Start(c)
		require.Len(e, j.read(), 1)
		e.Settle(4 * time.Second)
		require.Empty(e, j.read())
		require.Zero(e, c.Status().Stale)
		e.Settle(time.Second)
		require.Len(e, j.read(), 1)
		require.EqualValues(e, 1, c.Status().Stale)
	})
}

func TestImpatientControllersDoNotWait(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		pods := late[*corev1.Pod](e, by(30*time.Second))
		e.Settle(time.Hour)
		j := &journal{}
		c := newController(e, touch(pods, j), controller.Options{Patience: -1}, controller.For(pods.Informer))
		e.Start(c)
		e.Settle(time.Second)
		require.Greater(e, len(j.read()), 1)
		require.Zero(e, c.Status().ParkedTotal)
	})
}

// What nobody asks for again is forgotten.
func TestNotesOfWritesDoNotPileUp(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		maps := controller.ClientFor[*corev1.ConfigMap](e.Factory)
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: req.Name}})
			return controller.Result{}, err
		})
		c := newController(e, r, controller.Options{}, controller.For(pods.Informer))
		e.Start(c)
		for n := range 100 {
			controllertest.Put(e, pod(fmt.Sprint("p", n)))
			e.Settle(time.Second)
		}
		require.LessOrEqual(e, controller.Notes(c), 11)
	})
}

// A write outside of a reconcile is a write and nothing more.
func TestAClientWorksOutsideOfAReconcile(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		ctx := e.Context()
		p, err := pods.Create(ctx, pod("a"))
		require.NoError(e, err)
		synctest.Wait()
		shared, ok := pods.Get(object.KeyOf(p))
		require.True(e, ok)
		copied, ok := pods.Copy(object.KeyOf(p))
		require.True(e, ok)
		require.Equal(e, shared, copied)
		require.NotSame(e, shared, copied)
		copied.Status.Phase = corev1.PodRunning
		p, err = pods.UpdateStatus(ctx, copied)
		require.NoError(e, err)
		require.Equal(e, corev1.PodRunning, p.Status.Phase)
		p, err = pods.Patch(ctx, object.KeyOf(p), "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		require.NoError(e, err)
		require.Equal(e, "b", p.Labels["a"])
		_, err = pods.Apply(ctx, &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}}, "me")
		require.NoError(e, err)
		require.NoError(e, pods.Delete(ctx, p))
		synctest.Wait()
		_, ok = pods.Copy(object.KeyOf(p))
		require.False(e, ok)
		require.Empty(e, controller.ID(ctx))
		require.Zero(e, controller.Attempt(ctx))
		require.Empty(e, controller.Causes(ctx))
		controller.Logger(ctx).Info("nobody hears it")
	})
}
