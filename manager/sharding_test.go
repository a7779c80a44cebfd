package manager_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

var (
	seed      = flag.Uint64("seed", 0, "play one schedule alone")
	schedules = flag.Uint64("schedules", 4, "how many schedules to play")

	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// workshop is a set of programs that share Deployments. They keep a ConfigMap for each Deployment with
// the Deployment's desired state.
type workshop struct {
	*testing.T
	srv      *apiservertest.Server
	endpoint *apiservertest.Endpoint
	net      *network.Network
	random   *rand.Rand
	ctx      context.Context
	runs     sync.WaitGroup

	mu      sync.Mutex
	at      map[object.Key]string  // the program working on it now
	written map[object.Key]written // the last write
	done    int
}

// written is a write that a program knows about.
type written struct {
	by string
	rv string
}

// hand is one program.
type hand struct {
	*workshop
	*manager.Manager
	name    string
	link    *network.Link
	stop    context.CancelFunc
	work    *controller.Client[*appsv1.Deployment]
	results *controller.Client[*corev1.ConfigMap]
}

func inWorkshop(t *testing.T, seed uint64, body func(w *workshop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		w := &workshop{
			T: t, srv: srv, endpoint: endpoint, net: network.New(seed), random: rand.New(rand.NewPCG(seed, 0)), ctx: ctx,
			at: map[object.Key]string{}, written: map[object.Key]written{},
		}
		defer srv.Close()
		defer w.runs.Wait()
		defer cancel()
		body(w)
	})
}

// join starts a program.
func (w *workshop) join(name string) *hand {
	w.Helper()
	h := &hand{workshop: w, name: name, link: w.net.Link(name)}
	h.heal()
	var err error
	h.Manager, err = manager.New(&config.Config{
		Host: w.endpoint.URL, Dial: h.link.Dialer(w.endpoint.Connect), Namespace: "shop",
	}, manager.Options{
		Scheme: sharedScheme(), GracefulShutdownTimeout: -1,
		Factory:  factory.Options{Timing: reflector.Timing{WatchTimeout: time.Minute, StallTimeout: 10 * time.Second}},
		Sharding: &membership.Options{Name: "workshop", Identity: name, Slots: 16, Patience: 2 * time.Second},
	})
	require.NoError(w, err)
	var work *manager.Builder[*appsv1.Deployment]
	if name[len(name)-1]%2 == 0 { // one form or the other
		h.work, h.results = manager.Client[*appsv1.Deployment](h.Manager), manager.Client[*corev1.ConfigMap](h.Manager)
		work = manager.ControllerFor[*appsv1.Deployment](h.Manager).Sharded()
	} else {
		h.work = controller.ClientWith(h.Factory(), shared[*appsv1.Deployment](h.Shard(shard.ByUID())))
		h.results = controller.ClientWith(h.Factory(), shared[*corev1.ConfigMap](h.Shard(shard.ByOwner())))
		work = manager.ControllerWith(h.Manager, shared[*appsv1.Deployment](h.Shard(shard.ByUID())))
	}
	require.NoError(w, work.Owns(h.results).With(controller.Options{Concurrency: 3}).Complete(h.reconcile))
	ctx, stop := context.WithCancel(w.ctx)
	h.stop = stop
	w.runs.Go(func() {
		if err := h.Run(ctx); err != nil {
			w.Errorf("%s: %v", name, err)
		}
	})
	return h
}

func (h *hand) heal() {
	h.link.Set(network.Conditions{Latency: time.Duration(len(h.name)) * 3 * time.Millisecond})
}

// reconcile makes the ConfigMap match the Deployment. It checks that no two programs reconcile the same
// Deployment at a time (S01), and that none begins with an older state than another has written (S04).
func (h *hand) reconcile(ctx context.Context, d *appsv1.Deployment) (controller.Result, error) {
	key := object.KeyOf(d)
	for _, cause := range controller.Causes(ctx) {
		if cause.Type == controller.Deleted {
			h.Errorf("S03: %s is told that %s is gone", h.name, cause)
		}
	}
	have, found := h.results.Copy(key)
	h.mu.Lock()
	if other, busy := h.at[key]; busy {
		h.Errorf("S01: %s is at %v, and now %s", other, key, h.name)
	}
	h.at[key] = h.name
	if last := h.written[key]; last.by != "" && last.by != h.name {
		if !found || !object.ReachedRV(have.ResourceVersion, last.rv) {
			h.Errorf("S04: %s has written version %s of %v, and %s begins with %q", last.by, last.rv, key, h.name, h.versionOf(have))
		}
	}
	h.done++
	pause := time.Duration(h.random.Int64N(int64(400 * time.Millisecond)))
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.at, key)
	}()
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return controller.Result{}, context.Cause(ctx)
	}
	_, here := h.work.Get(key)
	_, there := h.results.Get(key)
	if (!here || found && !there) && ctx.Err() == nil {
		h.Errorf("S03: %s is at %v, which its caches have lost meanwhile", h.name, key)
	}
	want := d.Labels["want"]
	if found && have.Data["is"] == want {
		return controller.Result{}, nil
	}
	token, ok := shard.TokenOf(ctx)
	if !ok {
		h.Errorf("%v: no token", key)
	}
	var err error
	if !found {
		have = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	}
	have.Data = map[string]string{"is": want, "epoch": strconv.FormatUint(token.Epoch, 10), "by": h.name}
	if found {
		have, err = h.results.OwnedBy(d).Update(ctx, have)
	} else {
		have, err = h.results.OwnedBy(d).Create(ctx, have)
	}
	if err == nil {
		h.mu.Lock()
		h.written[key] = written{h.name, have.ResourceVersion}
		h.mu.Unlock()
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) { // an answer was lost
		return controller.Result{RequeueAfter: time.Second}, nil
	}
	return controller.Result{}, err
}

func (h *hand) versionOf(c *corev1.ConfigMap) string {
	if c == nil {
		return ""
	}
	return c.ResourceVersion
}

// user changes the desired states, and creates more Deployments.
func (w *workshop) user(n int) {
	key := object.Key{Namespace: "shop", Name: fmt.Sprint("d", w.random.IntN(20))}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if now, err := w.srv.Get(deployments, key); err == nil {
		d = now.DeepCopyObject().(*appsv1.Deployment)
	}
	d.Labels = map[string]string{"want": strconv.Itoa(n)}
	_, err := w.srv.Put(d)
	require.NoError(w, err)
}

// settled fails the test unless every Deployment has its ConfigMap in the desired state, and each
// program holds its share and nothing else (S02, S05).
func (w *workshop) settled(hands []*hand) {
	w.Helper()
	all := w.srv.Objects(deployments)
	for _, o := range all {
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
			owned, _ := h.Shard(shard.ByUID()).Share.Owned()
			_, holds := h.work.Get(key)
			ours := owned.HasHash(shard.ByUID().Hash(o))
			if holds != ours {
				w.Errorf("S05: %s holds %v: %t, and owns its slot: %t", h.name, key, holds, ours)
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

// Programs share Deployments while they join, leave and are killed, and links fail.
func TestProgramsThatShareWork(t *testing.T) {
	done := 0
	for n := uint64(1); n <= *schedules; n++ {
		if *seed != 0 && n != *seed {
			continue
		}
		t.Run(fmt.Sprint("seed ", n), func(t *testing.T) {
			inWorkshop(t, n, func(w *workshop) {
				w.play()
				done += w.done
			})
		})
	}
	require.Greater(t, done, 50*int(min(*schedules, 1)))
	t.Logf("%d reconciles", done)
}

func (w *workshop) play() {
	for n := range 15 {
		w.user(n)
	}
	random := rand.New(rand.NewPCG(w.random.Uint64(), 0)) // w.random is used by the programs
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
				hands = without(hands, h)
				if random.IntN(2) == 0 {
					h.link.Set(network.Conditions{Partition: true}) // it is killed
				}
				h.stop()
			}
		case 4:
			h.link.Set(network.Conditions{Partition: true})
		case 5:
			h.link.Vanish()
		case 6:
			h.heal()
		default:
			w.mu.Lock()
			w.user(100 + n)
			w.mu.Unlock()
		}
	}
	for _, h := range hands {
		h.heal()
	}
	time.Sleep(150 * time.Second)
	synctest.Wait()
	w.settled(hands)
}

func without(all []*hand, h *hand) (rest []*hand) {
	for _, other := range all {
		if other != h {
			rest = append(rest, other)
		}
	}
	return rest
}

// Configurations that would leave work undone, or do it twice, are rejected.
func TestSharingThatCannotWork(t *testing.T) {
	inWorkshop(t, 1, func(w *workshop) {
		h := &hand{workshop: w}
		var err error
		h.Manager, err = manager.New(&config.Config{Host: w.endpoint.URL, Dial: w.endpoint.DialContext, Namespace: "shop"}, manager.Options{
			Scheme: sharedScheme(), Sharding: &membership.Options{Name: "workshop"},
		})
		require.NoError(t, err)
		named := 0
		build := func(of factory.For[*appsv1.Deployment], owned factory.For[*corev1.ConfigMap], in manager.Group) (*controller.Controller, error) {
			named++
			return manager.ControllerWith(h.Manager, of).Named(fmt.Sprint("c", named)).Owns(controller.ClientWith(h.Factory(), owned)).In(in).
				Build(controller.Func(func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }))
		}
		byUID, byOwner := shared[*appsv1.Deployment](h.Shard(shard.ByUID())), shared[*corev1.ConfigMap](h.Shard(shard.ByOwner()))
		_, err = build(byUID, byOwner, manager.LeaderElected)
		require.ErrorContains(t, err, "add it to Others")
		for want, of := range map[string]struct {
			work    factory.For[*appsv1.Deployment]
			results factory.For[*corev1.ConfigMap]
		}{
			"owned objects are sharded by uid and their owners by uid": {byUID, shared[*corev1.ConfigMap](h.Shard(shard.ByUID()))},
			"its informer is unsharded":                                {byUID, factory.For[*corev1.ConfigMap]{}},
			"have different shares":                                    {factory.For[*appsv1.Deployment]{}, byOwner},
		} {
			c, err := build(of.work, of.results, manager.Others)
			require.NoError(t, err)
			require.ErrorContains(t, c.Run(w.ctx), want)
		}
	})
	m, err := manager.New(&config.Config{Host: "http://127.0.0.1:1"}, manager.Options{})
	require.NoError(t, err)
	require.True(t, m.Shard(shard.ByOwner()).Everything(), "nobody shares")
	_, err = manager.New(&config.Config{Host: "http://127.0.0.1:1"}, manager.Options{Sharding: &membership.Options{}})
	require.ErrorContains(t, err, "cannot be the Name of a group")
	require.False(t, errors.Is(err, manager.ErrRunning))
}

// A program that may not use Leases reports that in its readiness check.
func TestSharingWithoutTheRightToLeases(t *testing.T) {
	inWorkshop(t, 1, func(w *workshop) {
		w.srv.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Resource != "leases" })
		h := w.join("a")
		ready := func() (int, string) {
			answer := httptest.NewRecorder()
			h.Probes().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz?verbose", nil))
			return answer.Code, answer.Body.String()
		}
		time.Sleep(time.Minute)
		code, text := ready()
		require.Equal(t, http.StatusInternalServerError, code, text)
		require.Contains(t, text, "sharding")
		require.Contains(t, h.Report().Sharding.Refusal.Error(), "cannot list resource")
		w.srv.SetAuthorizer(nil)
		time.Sleep(time.Minute)
		code, text = ready()
		require.Equal(t, http.StatusOK, code, text)
		status, err := h.Debug().Client().Status(w.ctx)
		require.NoError(t, err)
		require.Len(t, status.Groups, 1)
		require.Equal(t, "a", status.Groups[0].Members[0].Identity)
		require.Equal(t, 16, status.Groups[0].Members[0].Has)
	})
}

// shared is an informer of a share.
func shared[T object.Object](s shard.Scope) factory.For[T] {
	return factory.For[T]{Scope: factory.Scope{Shard: s}}
}
