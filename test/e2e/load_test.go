package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// fill creates objects before a manager starts.
func fill(t *testing.T, client *rest.Client, ns string, backlog int) {
	t.Helper()
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := w; n < backlog; n += writers {
				if _, err := maps.Create(t.Context(), configMap(n), metav1.CreateOptions{}); err != nil {
					t.Errorf("object %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
	require.False(t, t.Failed())
}

// tally is a reconciler that counts its calls for the backlog and for live changes.
type tally struct {
	work time.Duration

	mu            sync.Mutex // guards the fields below
	initial, live int        // calls
	row, longest  int        // consecutive live calls, now and at most
	waits         []wait     // for the live changes so far
	heard         map[string]heard
}

// heard is a live change in the queue.
type heard struct {
	when          time.Time
	initial, live int // calls before it
}

// wait is how long a live change was queued.
type wait struct {
	time.Duration
	initial, live int // calls in between
}

// hear records that add queues a live change. No reconcile starts during the call.
func (a *tally) hear(name string, add func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard[name] = heard{time.Now(), a.initial, a.live}
	add()
}

func (a *tally) Reconcile(_ context.Context, req controller.Request) (controller.Result, error) {
	a.mu.Lock()
	if h, live := a.heard[req.Name]; live {
		a.waits = append(a.waits, wait{time.Since(h.when), a.initial - h.initial, a.live - h.live})
		delete(a.heard, req.Name)
		a.live++
		a.row++
		a.longest = max(a.longest, a.row)
	} else {
		a.initial++
		a.row = 0
	}
	a.mu.Unlock()
	time.Sleep(a.work)
	return controller.Result{}, nil
}

func (a *tally) count() (initial, live int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.initial, a.live
}

// TestFairness: 10,000 objects at start, and live changes in between, first a few, then more than
// the worker can handle. A live change does not wait for the backlog, and the backlog gets its
// share however many live changes there are.
func TestFairness(t *testing.T) {
	const backlog, few, many = 10_000, 100, 2000
	client, ns := admin(t)
	fill(t, client, ns, backlog)
	m, err := manager.New(loadConfig(t, shared, "admin"), manager.Options{Scheme: newScheme(t), Factory: factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}}})
	require.NoError(t, err)
	a := &tally{work: 500 * time.Microsecond, heard: map[string]heard{}}
	c, err := controller.New("fair", a, m.ControllerOptions()) // one worker, the default fairness
	require.NoError(t, err)
	c.Watch(controller.For(factory.Informer[*corev1.ConfigMap](m.Factory())))
	c.Watch(controller.Handle(factory.Informer[*corev1.Secret](m.Factory()), func(_ context.Context, e sharedinformer.Event[*corev1.Secret], in *controller.Inbox) error {
		n := 1
		if e.Object.Name == "storm" {
			n = many
		}
		for i := range n {
			name := fmt.Sprint(e.Object.Name, "-", i)
			a.hear(name, func() {
				in.Add(controller.Updated, object.KeyOf(e.Object), controller.Request{Key: object.Key{Namespace: ns, Name: name}})
			})
		}
		return nil
	}))
	require.NoError(t, m.Add(c))
	r := runManager(t, m)
	poll(t, "it works", func() error {
		if initial, _ := a.count(); initial == 0 {
			return c.Ready()
		}
		return nil
	})

	secret := func(name string) {
		_, err := rest.ResourceFor[*corev1.Secret](client).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	await := func(what string, live int) {
		poll(t, what, func() error {
			if _, now := a.count(); now < live {
				return fmt.Errorf("%d of %d live changes; %+v", now, live, c.Status().Queue)
			}
			return nil
		})
	}
	before, _ := a.count()
	for n := range few {
		secret(fmt.Sprint("live", n))
	}
	await("a few live changes", few)
	between, _ := a.count()
	secret("storm")
	await("a storm", few+many)
	after, _ := a.count()
	require.Less(t, after, backlog, "the backlog was worked on all the time")
	poll(t, "all the rest", func() error {
		if initial, _ := a.count(); initial < backlog {
			return fmt.Errorf("%d of %d", initial, backlog)
		}
		return nil
	})
	r.stop()
	require.NoError(t, <-r.ended)

	waits := a.waits[:few]
	for _, w := range waits {
		require.LessOrEqual(t, w.initial, 2+w.live/(workqueue.DefaultFairEvery-1),
			"before a live change comes what is in the worker's hands, and what has its turn by fairness")
	}
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(a.Duration, b.Duration) })
	t.Logf("%d live changes beside a backlog of %d to %d: waited %s at the median, %s at the 99th percentile, %s at most; a storm of %d let %d of the backlog pass",
		few, backlog-before, backlog-between, waits[few/2].Duration, waits[few*99/100].Duration, waits[few-1].Duration, many, after-between)
	require.Greater(t, between, before, "the backlog goes on")
	require.LessOrEqual(t, a.longest, workqueue.DefaultFairEvery-1, "of so many turns and one, one is the backlog's")
	require.GreaterOrEqual(t, after-between, many/workqueue.DefaultFairEvery-1)
}

// TestStopUnderLoad: a leader with thousands of queued requests is stopped while all workers write.
// It stops in time and without an error, and releases its lease.
func TestStopUnderLoad(t *testing.T) {
	const backlog = 3000
	client, ns := admin(t)
	fill(t, client, ns, backlog)
	m, err := manager.New(loadConfig(t, shared, "admin"), manager.Options{
		Scheme: newScheme(t), Factory: factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}},
		LeaderElection: &leaderelection.Options{Namespace: ns, Name: "busy", Identity: "us"}, GracefulShutdownTimeout: 20 * time.Second,
	})
	require.NoError(t, err)
	maps := controller.ClientFor[*corev1.ConfigMap](m.Factory())
	opts := m.ControllerOptions()
	opts.Concurrency = 8
	c, err := controller.New("busy", controller.Objects(maps, func(ctx context.Context, o *corev1.ConfigMap) (controller.Result, error) {
		for n := range 3 { // a stop may come between two writes, or during one
			o.Data = map[string]string{"n": fmt.Sprint(n)}
			var err error
			if o, err = maps.Update(ctx, o); err != nil {
				return controller.Result{}, err
			}
		}
		return controller.Result{Requeue: true}, nil
	}), opts)
	require.NoError(t, err)
	c.Watch(controller.For(maps.Informer()))
	require.NoError(t, m.Add(c))
	r := runManager(t, m)
	poll(t, "it is busy", func() error {
		if s := c.Status(); s.Requeues < 200 || s.Active == 0 {
			return errors.Join(c.Ready(), fmt.Errorf("it is %+v", s))
		}
		return nil
	})
	s := c.Status()
	require.Greater(t, s.Queue.Waiting, backlog/2)
	r.stop()
	asked := time.Now()
	require.NoError(t, <-r.ended)
	t.Logf("%d requests waited; it took %s", s.Queue.Waiting, time.Since(asked).Round(time.Millisecond))
	require.Zero(t, c.Status().Active)
	lease, err := rest.ResourceFor[*coordinationv1.Lease](client).Get(t.Context(), object.Key{Namespace: ns, Name: "busy"}, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, *lease.Spec.HolderIdentity)
}
