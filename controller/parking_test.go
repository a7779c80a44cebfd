package controller_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// lagging is a source whose watch events come late.
type lagging[T object.Object] struct {
	source.ListerWatcher
	lag func() time.Duration
}

func (l lagging[T]) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := l.ListerWatcher.Watch(ctx, opts)
	return func(yield func(wire.Event[object.Head], error) bool) {
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
	i := sharedinformer.New[T](lagging[T]{r.Source(), lag}, sharedinformer.Options{})
	e.Start(i)
	return controller.NewClient(i, r)
}

func by(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// The law of this package: a reconcile never sees a state older than its own last write, whatever it
// wrote, however late the cache is, whoever else writes, and whatever happens to the watches.
func TestAReconcileSeesItsOwnWrites(t *testing.T) {
	for _, faults := range []bool{false, true} {
		var parked, writes, relists uint64
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("faults %t, seed %d", faults, seed), func(t *testing.T) {
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
					c := newController(e, w, controller.Options{Concurrency: 4, Patience: time.Hour}, controller.For(pods.Informer()),
						controller.Map(maps.Informer(), func(_ context.Context, m *corev1.ConfigMap) ([]controller.Request, error) {
							return []controller.Request{{Key: object.KeyOf(m)}}, nil
						}))
					e.Start(c)
					for n := range 100 { // another client also changes the pods
						switch {
						case faults && n == 50: // a certain relist
							e.Server.Down()
							controllertest.Put(e, pod("p0", labelled("n", "1000")))
							e.Server.Compact()
							e.Server.Up()
						case faults && draw(10) == 0:
							disturb(e, draw)
						}
						e.Settle(time.Duration(draw(50)) * time.Millisecond)
						controllertest.Put(e, pod(fmt.Sprint("p", draw(5)), labelled("n", fmt.Sprint(draw(1000)))))
					}
					e.Server.Faults().Clear()
					e.Server.Up()
					e.Settle(30 * time.Minute)
					s := c.Status()
					require.Zero(e, s.Stale)
					require.Zero(e, s.Parked)
					parked += s.ParkedTotal
					writes += w.count
					relists += pods.Informer().Status().Reflector.Lists - 1
				})
			})
		}
		t.Logf("faults %t: %d writes, %d requests parked, %d relists", faults, writes, parked, relists)
		require.Greater(t, writes, uint64(200))
		require.Greater(t, parked, uint64(50), "hardly anything ever had to wait")
		require.Equal(t, faults, relists > 0)
	}
}

// disturb injects a fault for a while.
func disturb(e *controllertest.Env, draw func(int) int) {
	add := func(verb string, do ...apiservertest.Action) {
		e.Server.Faults().Add(apiservertest.Fault{Verb: verb, Count: 1 + draw(3), Do: do})
	}
	switch draw(8) {
	case 0:
		e.Server.Restart() // every connection is cut
	case 1:
		e.Server.Compact() // and the history is also gone
		e.Server.Restart()
	case 2:
		e.Server.Down()
		time.AfterFunc(time.Duration(draw(5000))*time.Millisecond, e.Server.Up)
	case 3:
		add("watch", apiservertest.Fail{Code: 500})
		e.Server.Restart()
	case 4:
		add("watch", apiservertest.Truncate{Frame: draw(3)})
		e.Server.Restart()
	case 5:
		add("watch", apiservertest.Duplicate{Every: 2})
		e.Server.Restart()
	case 6:
		add("update", apiservertest.Fail{Code: 500})
	case 7:
		add("update", apiservertest.Delay{For: 100 * time.Millisecond}) // the watch is faster than the answer
	}
}

// writer is a reconciler that writes something at random and checks that the cache has its previous
// write.
type writer struct {
	t    testing.TB
	draw func(int) int
	pods *controller.Client[*corev1.Pod]
	maps *controller.Client[*corev1.ConfigMap]

	mu    sync.Mutex // guards wrote and count
	wrote map[object.Key]*written
	count uint64
}

// written is the last successful write of one request.
type written struct {
	pod, configMap string    // resource versions
	deleted        types.UID // of the map
}

// check looks for the last write in the cache.
func (w *writer) check(req controller.Request, last *written) {
	if p, ok := w.pods.Get(req.Key); !ok {
		w.t.Errorf("%s is not in the cache", req)
	} else if last.pod != "" && !object.ReachedRV(p.ResourceVersion, last.pod) {
		w.t.Errorf("%s: the cache has %s, but %s was written", req, p.ResourceVersion, last.pod)
	}
	m, ok := w.maps.Get(req.Key)
	switch {
	case ok && m.UID == last.deleted && m.DeletionTimestamp == nil:
		w.t.Errorf("%s: the map that was deleted is in the cache", req)
	case last.configMap != "" && !ok:
		w.t.Errorf("%s: the map that was written is not in the cache", req)
	case last.configMap != "" && !object.ReachedRV(m.ResourceVersion, last.configMap):
		w.t.Errorf("%s: the cache has map %s, but %s was written", req, m.ResourceVersion, last.configMap)
	}
}

func (w *writer) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	w.mu.Lock()
	last := w.wrote[req.Key]
	if last == nil {
		last = &written{}
		w.wrote[req.Key] = last
	}
	w.mu.Unlock()
	w.check(req, last)
	for range w.draw(3) { // several writes count too
		if err := w.write(ctx, req, last); err != nil {
			return controller.Result{}, err // a conflict with another client, or a fault
		}
		w.mu.Lock()
		w.count++
		w.mu.Unlock()
	}
	return controller.Result{Requeue: w.draw(4) == 0}, nil
}

func (w *writer) write(ctx context.Context, req controller.Request, last *written) error {
	something := fmt.Sprint(w.draw(1000))
	p, ok := w.pods.Copy(req.Key)
	if !ok {
		return nil // check has told
	}
	m, exists := w.maps.Copy(req.Key)
	wrotePod := func(p *corev1.Pod, err error) error {
		if err == nil {
			last.pod = p.ResourceVersion
		}
		return err
	}
	wroteMap := func(m *corev1.ConfigMap, err error) error {
		if err == nil {
			last.configMap, last.deleted = m.ResourceVersion, ""
		}
		return err
	}
	switch w.draw(7) {
	case 0:
		p.Annotations = map[string]string{"n": something}
		return wrotePod(w.pods.Update(ctx, p))
	case 1:
		p, err := controller.PatchStatus(ctx, w.pods, p, func(p *corev1.Pod) error { p.Status.Message = something; return nil })
		return wrotePod(p, err)
	case 2:
		p.Status.Reason = something
		return wrotePod(w.pods.UpdateStatus(ctx, p))
	case 3:
		return wroteMap(w.maps.Apply(ctx, &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}, Data: map[string]string{"n": something},
		}, "test"))
	}
	if !exists {
		return wroteMap(w.maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}))
	}
	switch w.draw(3) {
	case 0:
		uid := m.UID
		err := w.maps.DeleteWith(ctx, m, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err == nil {
			last.configMap, last.deleted = "", uid
		}
		return err
	case 1:
		m.Data = map[string]string{"n": something}
		return wroteMap(w.maps.Update(ctx, m))
	}
	return wroteMap(w.maps.Patch(ctx, req.Key, types.MergePatchType, fmt.Appendf(nil, `{"data":{"m":%q}}`, something)))
}

// touch is a reconciler that writes to each object once and records the times of its calls.
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

// One worker is enough, because a waiting request does not occupy it.
func TestAParkedRequestHoldsNoWorker(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Tick: -1}, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		slow := late[*corev1.Pod](e, by(3*time.Second))
		controllertest.Put(e, pod("b"))
		e.Settle(30 * time.Second) // no bookmark is under way
		j := &journal{}
		c := newController(e, touch(slow, j), controller.Options{}, controller.For(slow.Informer()))
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

// The wait is bounded, and its outcome is counted.
func TestWaitForTheCacheIsBounded(t *testing.T) {
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
		c := newController(e, r, controller.Options{Patience: 5 * time.Second}, controller.For(pods.Informer()))
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

// deaf is a source whose watches deliver nothing once its connections are half open.
type deaf[T object.Object] struct {
	source.ListerWatcher
	halfOpen *atomic.Bool
}

func (d deaf[T]) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := d.ListerWatcher.Watch(ctx, opts)
	d.halfOpen.Store(false)
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err == nil && d.halfOpen.Load() {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}, err
}

// A watch that delivers neither the write nor anything else is reopened. A watch that only lags is
// left alone.
func TestWatchThatDeliversNothingIsReopened(t *testing.T) {
	for _, behind := range []bool{false, true} {
		controllertest.Run(t, func(e *controllertest.Env) {
			controllertest.Put(e, pod("a"))
			var halfOpen atomic.Bool
			var lag atomic.Int64
			from := rest.ResourceFor[*corev1.Pod](e.Client)
			informer := sharedinformer.New[*corev1.Pod](deaf[*corev1.Pod]{lagging[*corev1.Pod]{from.Source(), func() time.Duration { return time.Duration(lag.Load()) }}, &halfOpen}, sharedinformer.Options{})
			e.Start(informer)
			e.Settle(time.Minute)
			pods := controller.NewClient(informer, from)
			r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
				if controller.Attempt(ctx) > 1 {
					return controller.Result{}, nil
				}
				if behind {
					lag.Store(int64(2 * time.Second))
					for n := range 10 {
						controllertest.Put(e, pod("b", labelled("n", fmt.Sprint(n))))
					}
				} else {
					halfOpen.Store(true)
				}
				_, err := pods.Patch(ctx, req.Key, types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
				return controller.Result{Requeue: true}, err
			})
			only := controller.PredicateFunc[*corev1.Pod](func(ev sharedinformer.Event[*corev1.Pod]) bool { return ev.Object.Name == "a" })
			c := newController(e, r, controller.Options{Patience: 5 * time.Second}, controller.For(informer, only))
			watches := informer.Status().Reflector.Watches
			e.Start(c)
			e.Settle(8 * time.Second)
			s := informer.Status().Reflector
			require.EqualValues(e, 1, c.Status().Stale)
			if behind {
				require.Equal(e, watches, s.Watches)
				return
			}
			require.Equal(e, watches+1, s.Watches)
			require.ErrorIs(e, s.Failure, reflector.ErrDeaf)
			require.ErrorContains(e, s.Failure, "; controller test waited")
			p, _ := pods.Get(object.KeyOf(pod("a")))
			require.Equal(e, "yes", p.Labels["touched"])
		})
	}
}

// Conflicts and deletions reopen a deaf watch too.
func TestWatchThatDeliversNothingIsReopenedForEachWrite(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error{
		"conflict": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			_, err := pods.Update(ctx, p)
			return err
		},
		"deletion": func(ctx context.Context, pods *controller.Client[*corev1.Pod], p *corev1.Pod) error {
			return pods.Delete(ctx, p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				controllertest.Put(e, pod("a"))
				var halfOpen atomic.Bool
				from := rest.ResourceFor[*corev1.Pod](e.Client)
				informer := sharedinformer.New[*corev1.Pod](deaf[*corev1.Pod]{from.Source(), &halfOpen}, sharedinformer.Options{})
				e.Start(informer)
				e.Settle(time.Minute)
				pods := controller.NewClient(informer, from)
				calls := 0
				r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
					p, ok := pods.Copy(req.Key)
					if calls++; calls > 1 || !ok {
						return controller.Result{}, nil
					}
					halfOpen.Store(true)
					controllertest.Put(e, pod("a", labelled("theirs", "yes")))
					return controller.Result{Requeue: true}, write(ctx, pods, p)
				})
				watches := informer.Status().Reflector.Watches
				e.Start(newController(e, r, controller.Options{Patience: 5 * time.Second}, controller.For(informer)))
				e.Settle(8 * time.Second)
				s := informer.Status().Reflector
				require.Equal(e, watches+1, s.Watches)
				require.ErrorIs(e, s.Failure, reflector.ErrDeaf)
				p, ok := pods.Get(object.KeyOf(pod("a")))
				require.True(e, !ok || p.Labels["theirs"] == "yes")
			})
		})
	}
}

// deafIn is deaf in one namespace.
type deafIn[T object.Object] struct {
	deaf[T]
	namespace string
}

func (d deafIn[T]) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if opts.Namespace != d.namespace {
		return d.ListerWatcher.Watch(ctx, opts)
	}
	return d.deaf.Watch(ctx, opts)
}

// Only the watch of the write's namespace counts; the watches of busy namespaces are left alone.
func TestNamespaceWatchThatDeliversNothingIsReopened(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		var halfOpen atomic.Bool
		from := rest.ResourceFor[*corev1.Pod](e.Client)
		informer := sharedinformer.New[*corev1.Pod](deafIn[*corev1.Pod]{deaf[*corev1.Pod]{from.Source(), &halfOpen}, "shop"}, sharedinformer.Options{Namespaces: []string{"bank", "shop"}})
		e.Start(informer)
		e.Settle(time.Minute)
		pods := controller.NewClient(informer, from)
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			if controller.Attempt(ctx) > 1 || req.Namespace != "shop" {
				return controller.Result{}, nil
			}
			halfOpen.Store(true)
			_, err := pods.Patch(ctx, req.Key, types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
			return controller.Result{Requeue: true}, err
		})
		watches := func() (all []uint64) {
			for _, s := range informer.Status().Namespaces {
				all = append(all, s.Watches)
			}
			return all
		}
		before := watches()
		c := newController(e, r, controller.Options{Patience: 5 * time.Second}, controller.For(informer))
		e.Start(c)
		for n := range 8 {
			controllertest.Put(e, pod("b", labelled("n", fmt.Sprint(n)), func(p *corev1.Pod) { p.Namespace = "bank" }))
			e.Settle(time.Second)
		}
		require.EqualValues(e, 1, c.Status().Stale)
		require.Equal(e, []uint64{before[0], before[1] + 1}, watches())
		p, _ := pods.Get(object.KeyOf(pod("a")))
		require.Equal(e, "yes", p.Labels["touched"])
	})
}

// A request that comes again only after the patience is over is also counted as stale if the cache still
// lacks its write.
func TestReconcilesAfterThePatienceAreCountedToo(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		for _, name := range []string{"a", "b", "c"} {
			controllertest.Put(e, pod(name))
		}
		pods := late[*corev1.Pod](e, by(30*time.Second))
		e.Settle(time.Hour)
		j := &journal{}
		ch := make(chan string)
		touched := map[controller.Request]bool{}
		once := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			j.write(req.String())
			if touched[req] {
				return controller.Result{}, nil
			}
			touched[req] = true
			p, _ := pods.Copy(req.Key)
			p.Labels = map[string]string{"touched": "yes"}
			_, err := pods.Update(ctx, p)
			return controller.Result{}, err
		})
		c := newController(e, once, controller.Options{Patience: 5 * time.Second}, controller.Channel("bell", ch, func(_ context.Context, name string) ([]controller.Request, error) {
			return []controller.Request{{Key: object.Key{Namespace: "shop", Name: name}}}, nil
		}))
		e.Start(c)
		ring := func(name string) {
			ch <- name
			e.Settle(time.Second)
		}
		ring("a")
		e.Settle(6 * time.Second)
		ring("b") // checks outdated notes
		e.Settle(6 * time.Second)
		ring("c") // and again
		require.Zero(e, c.Status().Stale)
		ring("a")
		require.EqualValues(e, 1, c.Status().Stale)
		require.Len(e, j.read(), 4)
		e.Settle(2 * time.Minute)
		ring("b")
		require.EqualValues(e, 1, c.Status().Stale, "the cache has it by now")
	})
}

func TestImpatientControllersDoNotWait(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		pods := late[*corev1.Pod](e, by(30*time.Second))
		e.Settle(time.Hour)
		j := &journal{}
		c := newController(e, touch(pods, j), controller.Options{Patience: -1}, controller.For(pods.Informer()))
		e.Start(c)
		e.Settle(time.Second)
		require.Greater(e, len(j.read()), 1)
		require.Zero(e, c.Status().ParkedTotal)
	})
}

// Notes of requests that never come again are dropped.
func TestRecordedWritesDoNotAccumulate(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		maps := controller.ClientFor[*corev1.ConfigMap](e.Factory)
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: req.Name}})
			return controller.Result{}, err
		})
		c := newController(e, r, controller.Options{}, controller.For(pods.Informer()))
		e.Start(c)
		for n := range 100 {
			controllertest.Put(e, pod(fmt.Sprint("p", n)))
			e.Settle(time.Second)
		}
		require.LessOrEqual(e, controller.Notes(c), 11)
	})
}

// A cache that never catches up keeps a bounded number of notes, and writes within the patience are
// still waited for.
func TestRecordedWritesAreBounded(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Tick: -1}, func(e *controllertest.Env) {
		maps := controller.ClientFor[*corev1.ConfigMap](e.Factory)
		var calls []string
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			calls = append(calls, req.Name)
			if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: req.Name}}); !apierrors.IsAlreadyExists(err) {
				return controller.Result{}, err
			}
			return controller.Result{}, nil
		})
		ch := make(chan string)
		c := newController(e, r, controller.Options{Patience: 5 * time.Second}, controller.Channel("bell", ch, func(_ context.Context, name string) ([]controller.Request, error) {
			return []controller.Request{{Key: object.Key{Namespace: "shop", Name: name}}}, nil
		}))
		e.Start(c)
		e.Server.SetAuthorizer(apiservertest.Deny("", "configmaps", "list", "watch"))
		e.Server.Restart()
		const perSecond = 100
		made := 0
		for range 4 * ownwrites.MostNotes / perSecond {
			for range perSecond {
				ch <- fmt.Sprint("m", made)
				made++
			}
			e.Settle(time.Second)
			require.LessOrEqual(e, controller.Notes(c), ownwrites.MostNotes+6*perSecond)
		}
		require.Len(e, calls, made)
		require.Greater(e, controller.Notes(c), ownwrites.MostNotes/2, "the test would see a bound")

		ch <- fmt.Sprint("m", made-1)
		e.Settle(time.Second)
		require.Equal(e, 1, c.Status().Parked)
		require.Len(e, calls, made, "it waits")
		ch <- "m0"
		e.Settle(time.Second)
		require.Len(e, calls, made+1, "it was forgotten, and need not wait: its patience was over long ago")
		require.Zero(e, c.Status().Stale)
		e.Server.SetAuthorizer(nil)
		e.Settle(2 * time.Minute)
		require.Len(e, calls, made+2)
		require.Zero(e, c.Status().Parked)
	})
}

// A write outside of a reconcile has no further effect.
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

// A request does not wait for writes that never reach the cache, but it waits until objects have left
// the cache.
func TestAWriteOutsideOfTheCacheDoesNotPark(t *testing.T) {
	web, err := labels.Parse("app=web")
	require.NoError(t, err)
	for name, scope := range map[string]factory.Scope{
		"namespaces":    {Namespaces: []string{"shop", "mail"}},
		"one namespace": {Namespaces: []string{"shop"}},
		"labels":        {Labels: web},
		"name":          {Fields: fields.OneTermEqualSelector("metadata.name", "a")},
		"not the name":  {Fields: fields.OneTermNotEqualSelector("metadata.name", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				maps := controller.ClientWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: scope})
				configMap := func(namespace, name, text string) *corev1.ConfigMap {
					return &corev1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": map[bool]string{true: "web", false: "other"}[name == "a"]}},
						Data:       map[string]string{"text": text},
					}
				}
				reconciles := 0
				c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
					reconciles++
					_, err := maps.Apply(ctx, configMap("bank", "b", fmt.Sprint(reconciles)), "copier")
					return controller.Result{}, err
				}), controller.Options{}, controller.For(maps.Informer()))
				e.Start(c)
				for n := range 3 {
					controllertest.Put(e, configMap("shop", "a", fmt.Sprint(n)))
				}
				e.Settle(time.Second)
				require.Equal(e, 3, reconciles)
				require.Zero(e, c.Status().ParkedTotal)
			})
		})
	}
}

// If a write makes an object no longer match the selector, the reconcile sees it leave the cache.
func TestWaitForAWriteThatLeavesTheSelector(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		web, err := labels.Parse("app=web")
		require.NoError(e, err)
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Labels: web}})
		controllertest.Put(e, pod("a", labelled("app", "web")))
		var cached []bool
		c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			p, ok := pods.Copy(req.Key)
			if cached = append(cached, ok); !ok {
				return controller.Result{}, nil
			}
			p.Labels = nil
			_, err := pods.Update(ctx, p)
			return controller.Result{RequeueAfter: time.Nanosecond}, err
		}), controller.Options{}, controller.For(pods.Informer()))
		e.Start(c)
		e.Settle(time.Minute)
		require.Equal(e, []bool{true, false}, cached)
		require.Zero(e, c.Status().Stale)
	})
}

// A reconcile that removes the last finalizer removes the object. The response still has the previous
// version, so the request waits until the cache has lost the object, whichever call wrote. An object
// with another finalizer is seen like any other write.
func TestARemovedObjectIsNotReconciledAgain(t *testing.T) {
	const ours, others = "example.com/ours", "example.com/others"
	type maps = controller.Client[*corev1.ConfigMap]
	without := func(m *corev1.ConfigMap) error { controller.RemoveFinalizer(m, ours); return nil }
	for name, remove := range map[string]func(ctx context.Context, c *maps, m *corev1.ConfigMap) error{
		"Update": func(ctx context.Context, c *maps, m *corev1.ConfigMap) error {
			m = m.DeepCopy()
			_ = without(m)
			_, err := c.Update(ctx, m)
			return err
		},
		"Client.Patch": func(ctx context.Context, c *maps, m *corev1.ConfigMap) error {
			_, err := c.Patch(ctx, object.KeyOf(m), types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers/0"}]`))
			return err
		},
		"Patch": func(ctx context.Context, c *maps, m *corev1.ConfigMap) error {
			_, err := controller.Patch(ctx, c, m, without)
			return err
		},
		"PatchLocked": func(ctx context.Context, c *maps, m *corev1.ConfigMap) error {
			_, err := controller.PatchLocked(ctx, c, m, without)
			return err
		},
		"CreateOrUpdate": func(ctx context.Context, c *maps, m *corev1.ConfigMap) error {
			_, _, err := controller.CreateOrUpdate(ctx, c, m, without)
			return err
		},
		"Apply": func(ctx context.Context, c *maps, m *corev1.ConfigMap) error {
			_, err := c.Apply(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}, "me")
			return err
		},
	} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, kept %t", name, kept), func(t *testing.T) {
				controllertest.Run(t, func(e *controllertest.Env) {
					c := late[*corev1.ConfigMap](e, by(2*time.Second))
					r := c.Resource()
					seen := map[string]int{}
					k := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
						m, ok := c.Get(req.Key)
						switch {
						case !ok:
							seen["gone"]++
						case m.DeletionTimestamp == nil:
							seen["live"]++
						case controller.HasFinalizer(m, ours):
							seen["deleted"]++
							return controller.Result{RequeueAfter: time.Nanosecond}, remove(ctx, c, m)
						default:
							seen["kept"]++
						}
						return controller.Result{}, nil
					}), controller.Options{}, controller.For(c.Informer()))
					e.Start(k)
					m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m", Finalizers: []string{ours}}}
					if kept {
						m.Finalizers = append(m.Finalizers, others)
					}
					// Applied, so that an apply without them removes them.
					_, err := r.Apply(e.Context(), m, metav1.ApplyOptions{FieldManager: "me"})
					require.NoError(e, err)
					if kept && name == "Apply" {
						m.Finalizers = []string{others}
						_, err := r.Apply(e.Context(), m, metav1.ApplyOptions{FieldManager: "them"})
						require.NoError(e, err)
					}
					e.Settle(time.Minute)
					require.NoError(e, r.Delete(e.Context(), object.KeyOf(m), metav1.DeleteOptions{}))
					e.Settle(time.Minute)
					require.Equal(e, 1, seen["deleted"], "%v", seen)
					if kept {
						require.Positive(e, seen["kept"], "%v", seen)
					} else {
						require.Positive(e, seen["gone"], "%v", seen)
						require.Zero(e, seen["kept"], "%v", seen)
					}
					require.Zero(e, k.Status().Errors)
					require.Zero(e, k.Status().Stale)
				})
			})
		}
	}
}

// A note that is no longer needed is dropped long before the patience is over.
func TestRecordedWritesWithALongPatience(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		n := 0
		c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			n++
			_, err := pods.Patch(ctx, req.Key, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, n))
			return controller.Result{RequeueAfter: time.Second}, err
		}), controller.Options{Patience: 24 * time.Hour}, controller.For(pods.Informer(), controller.On[*corev1.Pod](sharedinformer.Add)))
		controllertest.Put(e, pod("a"))
		e.Start(c)
		e.Settle(time.Hour)
		require.Less(e, controller.Notes(c), 100, "there is one request, and its caches have all of it")
	})
}

// A namespace whose list keeps failing does not end the wait for a write in another one.
func TestO01_AWriteIsSeenAlthoughAnotherNamespaceFails(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{
		Tick:   -1,
		Server: apiservertest.Options{Authorize: func(a apiservertest.Attributes) bool { return a.Namespace != "gone" }},
	}, func(e *controllertest.Env) {
		r := rest.ResourceFor[*corev1.Pod](e.Client)
		informer := sharedinformer.New[*corev1.Pod](lagging[*corev1.Pod]{r.Source(), by(3 * time.Second)}, sharedinformer.Options{Namespaces: []string{"gone", "shop"}})
		e.Start(informer)
		pods := controller.NewClient(informer, r)
		var seen []string
		c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			p, ok := pods.Get(req.Key)
			if !ok {
				return controller.Result{}, nil
			}
			if seen = append(seen, p.Labels["touched"]); len(seen) > 1 {
				return controller.Result{}, nil
			}
			_, err := pods.Patch(ctx, req.Key, types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
			return controller.Result{Requeue: true}, err
		}), controller.Options{}, controller.For(informer))
		e.Start(c)
		e.Settle(2 * time.Minute)
		controllertest.Put(e, pod("a"))
		e.Settle(time.Minute)
		require.Subset(e, []string{"", "yes"}, seen)
		require.GreaterOrEqual(e, len(seen), 2)
		require.Zero(e, c.Status().Stale)
	})
}
