package controllerruntime_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

var schedules = flag.Uint64("schedules", 2, "how many schedules TestS01_ManagersThatShareWork plays")

var (
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// workshop is a group of managers that share Deployments. For each Deployment they keep a ConfigMap
// that records what it wants.
type workshop struct {
	*testing.T
	srv      *apiservertest.Server
	endpoint *apiservertest.Endpoint
	net      *network.Network
	ctx      context.Context
	runs     sync.WaitGroup
	all      []*hand // all that ever joined

	mu      sync.Mutex
	random  *rand.Rand
	at      map[object.Key]string  // who reconciles it now
	written map[object.Key]written // the last write
	done    map[string]int         // number of reconciles of each
}

// written is a write that a manager knows of.
type written struct{ by, rv string }

// hand is one of the managers.
type hand struct {
	*workshop
	ctrl.Manager
	name  string
	group *controllerruntime.Group
	link  *network.Link
	stop  context.CancelFunc
	ended chan struct{}
}

func inWorkshop(t *testing.T, seed uint64, body func(w *workshop)) {
	t.Helper()
	log.SetLogger(logr.Discard())
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		w := &workshop{
			T: t, srv: srv, endpoint: endpoint, net: network.New(seed), random: rand.New(rand.NewPCG(seed, 0)), ctx: ctx,
			at: map[object.Key]string{}, written: map[object.Key]written{}, done: map[string]int{},
		}
		defer settle(time.Minute) // until all links have noticed that the server is gone
		defer func() {
			for _, h := range w.all {
				h.heal()
			}
			srv.Close()
		}()
		defer w.runs.Wait()
		defer cancel()
		body(w)
	})
}

// join starts a manager.
func (w *workshop) join(name string) *hand {
	w.Helper()
	h := &hand{workshop: w, name: name, link: w.net.Link(name), ended: make(chan struct{})}
	h.heal()
	w.all = append(w.all, h)
	cfg := &rest.Config{Host: w.endpoint.URL, Dial: h.link.Dialer(w.endpoint.Connect), QPS: -1}
	var err error
	h.group, err = controllerruntime.NewGroup(cfg, membership.Options{Namespace: "shop", Name: "workshop", Identity: name, Slots: 16, Patience: 2 * time.Second})
	require.NoError(w, err)
	h.Manager, err = ctrl.NewManager(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		GracefulShutdownTimeout: new(time.Duration(-1)),
		NewCache: controllerruntime.Options{Shards: map[client.Object]shard.Scope{
			&appsv1.Deployment{}: h.group.Shard(shard.ByUID()),
			&corev1.ConfigMap{}:  h.group.Shard(shard.ByOwner()),
		}}.NewCache,
	})
	require.NoError(w, err)
	require.NoError(w, h.Add(h.group))
	shared, err := controllerruntime.Sharded(h.GetCache(), h, &appsv1.Deployment{}, &corev1.ConfigMap{})
	require.NoError(w, err)
	require.NoError(w, ctrl.NewControllerManagedBy(h).Named("workshop").For(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 3, NewQueue: controllerruntime.NewQueue[ctrl.Request]}).Complete(shared))
	ctx, stop := context.WithCancel(w.ctx)
	h.stop = stop
	w.runs.Go(func() {
		defer close(h.ended)
		if err := h.Start(ctx); err != nil {
			w.Errorf("%s: %v", name, err)
		}
	})
	return h
}

func (h *hand) heal() {
	h.link.Set(network.Conditions{Latency: time.Duration(len(h.name)) * 3 * time.Millisecond})
}

// Reconcile makes the ConfigMap say what the Deployment wants. No two managers reconcile it at a
// time (S01), a moved object is never reported as gone (S03), and no reconcile starts with an older
// state than another manager has written (S04).
func (h *hand) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	leave := h.begin(req.NamespacedName)
	defer leave()
	var d appsv1.Deployment
	if err := h.GetClient().Get(ctx, req.NamespacedName, &d); err != nil {
		if apierrors.IsNotFound(err) {
			h.Errorf("S03: %s is told that %s is gone", h.name, req)
		}
		return ctrl.Result{}, err
	}
	have := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	err := h.GetClient().Get(ctx, req.NamespacedName, have)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	found := err == nil
	h.judge(req, found, have.ResourceVersion)
	if err := h.pause(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := h.stillThere(ctx, req, found); err != nil {
		return ctrl.Result{}, err
	}
	want := d.Labels["want"]
	if found && have.Data["is"] == want {
		return ctrl.Result{}, nil
	}
	token, ok := shard.TokenOf(ctx)
	if !ok {
		h.Errorf("%s: no token", req)
	}
	have.Data = map[string]string{"is": want, "epoch": strconv.FormatUint(token.Epoch, 10), "by": h.name}
	if err := controllerutil.SetControllerReference(&d, have, h.GetScheme()); err != nil {
		return ctrl.Result{}, err
	}
	if found {
		err = h.GetClient().Update(ctx, have)
	} else {
		err = h.GetClient().Create(ctx, have)
	}
	if err == nil {
		h.mu.Lock()
		h.written[req.NamespacedName] = written{h.name, have.ResourceVersion}
		h.mu.Unlock()
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) { // an answer was lost
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, err
}

// begin records that h reconciles key.
func (h *hand) begin(key object.Key) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, busy := h.at[key]; busy {
		h.Errorf("S01: %s is at %v, and now %s", other, key, h.name)
	}
	h.at[key] = h.name
	h.done[h.name]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.at, key)
	}
}

// judge fails if h sees an older state than another manager has written.
func (h *hand) judge(req ctrl.Request, found bool, rv string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.written[req.NamespacedName]
	if last.by != "" && last.by != h.name && (!found || !object.ReachedRV(rv, last.rv)) {
		h.Errorf("S04: %s has written version %s of %s, and %s begins with %q", last.by, last.rv, req, h.name, rv)
	}
}

// pause takes a while.
func (h *hand) pause(ctx context.Context) error {
	h.mu.Lock()
	pause := time.Duration(h.random.Int64N(int64(400*time.Millisecond))) + 1
	h.mu.Unlock()
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stillThere fails the test if an object that is never deleted seems to be gone and its slot has
// not moved.
func (h *hand) stillThere(ctx context.Context, req ctrl.Request, found bool) error {
	err := h.GetClient().Get(ctx, req.NamespacedName, &appsv1.Deployment{})
	if apierrors.IsNotFound(err) {
		h.Errorf("S03: %s is told that %s is gone by now", h.name, req)
	}
	if err != nil {
		return err
	}
	var all corev1.ConfigMapList
	if err := h.GetClient().List(ctx, &all); err != nil {
		return err
	}
	if found && !slices.ContainsFunc(all.Items, func(c corev1.ConfigMap) bool { return c.Name == req.Name }) {
		h.Errorf("S03: a list of %s lacks the ConfigMap of %s", h.name, req)
	}
	return nil
}

// user changes the specs of Deployments and creates more.
func (w *workshop) user(n, deployment int) {
	w.Helper()
	key := object.Key{Namespace: "shop", Name: fmt.Sprint("d", deployment)}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if now, err := w.srv.Get(deployments, key); err == nil {
		d = now.DeepCopyObject().(*appsv1.Deployment)
	}
	d.Labels = map[string]string{"want": strconv.Itoa(n)}
	_, err := w.srv.Put(d)
	require.NoError(w, err)
}

// settled fails unless every ConfigMap is up to date, and each manager caches exactly its share
// (S02, S05).
func (w *workshop) settled(hands []*hand) {
	w.Helper()
	for _, o := range w.srv.Objects(deployments) {
		key := object.KeyOf(o)
		var is string
		if c, err := w.srv.Get(configMaps, key); err == nil {
			is = c.(*corev1.ConfigMap).Data["is"]
		}
		if want := o.GetLabels()["want"]; is != want {
			w.Errorf("S02: %v wants %s and has %q", key, want, is)
		}
		owners := 0
		for _, h := range hands {
			ours := h.group.Owns(shard.ByUID().Hash(o))
			for _, of := range []client.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}} {
				err := h.GetCache().Get(w.ctx, key, of)
				require.NoError(w, client.IgnoreNotFound(err))
				if holds := err == nil; holds != ours {
					w.Errorf("S05: %s has %T %v: %t, and owns its slot: %t", h.name, of, key, holds, ours)
				}
			}
			if ours {
				owners++
			}
		}
		if owners != 1 {
			w.Errorf("S02: %v has %d owners", key, owners)
		}
	}
}

// Three managers share; one leaves, one is disconnected for longer than its Lease lasts, and
// another joins.
func TestS01_ManagersThatShareWork(t *testing.T) {
	inWorkshop(t, 1, func(w *workshop) {
		for n := range 30 {
			w.user(n, n)
		}
		a, b, c := w.join("a"), w.join("bb"), w.join("ccc")
		settle(time.Minute)
		w.settled([]*hand{a, b, c})
		for _, h := range []*hand{a, b, c} {
			require.NoError(t, h.group.Ready(nil))
			require.NotZero(t, w.done[h.name])
		}

		began := time.Now()
		b.stop()
		<-b.ended
		require.Less(t, time.Since(began), 5*time.Second, "who has nothing in hand leaves at once")
		settle(2 * time.Second)
		w.settled([]*hand{a, c})

		c.link.Set(network.Conditions{Partition: true})
		for n := range 30 {
			w.user(100+n, n)
		}
		settle(time.Minute)
		require.ErrorContains(t, c.group.Ready(nil), "no valid Lease")
		w.settled([]*hand{a})
		c.heal()
		d := w.join("dddd")
		settle(10 * time.Minute)
		require.NoError(t, c.group.Ready(nil))
		w.settled([]*hand{a, c, d})
		require.NotZero(t, w.done[d.name])
	})
}

// Managers share while they join, leave, are killed and are disconnected.
func TestSchedulesOfManagersThatShareWork(t *testing.T) {
	done := 0
	for n := uint64(1); n <= *schedules; n++ {
		t.Run(fmt.Sprint("seed ", n), func(t *testing.T) {
			inWorkshop(t, n, func(w *workshop) {
				w.play(rand.New(rand.NewPCG(n, 1)))
				for _, of := range w.done {
					done += of
				}
			})
		})
	}
	require.Greater(t, done, 50*int(min(*schedules, 1)))
	t.Logf("%d reconciles", done)
}

func (w *workshop) play(random *rand.Rand) {
	w.Helper()
	for n := range 15 {
		w.user(n, n)
	}
	hands := []*hand{w.join("a")}
	for n := range 15 + random.IntN(30) {
		time.Sleep(time.Duration(random.Int64N(int64(5*time.Second))) + 1)
		h := hands[random.IntN(len(hands))]
		switch random.IntN(10) {
		case 0, 1:
			if len(hands) < 5 {
				hands = append(hands, w.join(fmt.Sprint("m", n)))
			}
		case 2, 3:
			if len(hands) > 1 {
				hands = slices.DeleteFunc(hands, func(other *hand) bool { return other == h })
				if random.IntN(2) == 0 {
					h.link.Set(network.Conditions{Partition: true}) // a crash
				}
				h.stop()
			}
		case 4, 5:
			h.link.Set(network.Conditions{Partition: true})
		case 6:
			h.heal()
		case 7:
			h.link.Cut()
		default:
			w.user(100+n, random.IntN(20))
		}
	}
	for _, h := range hands {
		h.heal()
	}
	settle(10 * time.Minute)
	w.settled(hands)
}

// A group is a Runnable of a manager that does not wait for an election, and reports why it takes
// no part.
func TestAGroupWithoutTheRightToLeases(t *testing.T) {
	inWorkshop(t, 1, func(w *workshop) {
		w.srv.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Resource != "leases" })
		h := w.join("a")
		require.False(t, h.group.NeedLeaderElection())
		settle(time.Minute)
		require.ErrorContains(t, h.group.Ready(nil), "cannot list resource")
		w.srv.SetAuthorizer(nil)
		settle(time.Minute)
		require.NoError(t, h.group.Ready(nil))
	})
	_, err := controllerruntime.NewGroup(&rest.Config{Host: "http://127.0.0.1:1"}, membership.Options{Namespace: "shop"})
	require.ErrorContains(t, err, "cannot be the Name of a group")
	_, err = controllerruntime.NewGroup(&rest.Config{Host: "http://127.0.0.1:1:1"}, membership.Options{Namespace: "shop", Name: "workshop"})
	require.ErrorContains(t, err, "group workshop: the server's address")
}
