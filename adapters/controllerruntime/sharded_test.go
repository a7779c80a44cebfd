package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// ledger records the requests that reach a reconciler.
type ledger struct {
	mu   sync.Mutex
	keys []string
}

func (l *ledger) note(req ctrl.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, req.String())
}

// read returns the requests since the last call, sorted and without duplicates.
func (l *ledger) read() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.keys
	l.keys = nil
	slices.Sort(keys)
	return slices.Compact(keys)
}

// shares runs a manager with a controller that reconciles the Pods of a share, which own
// ConfigMaps.
func (r *rig) shares(share shard.Share, do func(ctx context.Context, req ctrl.Request, c client.Client) error) *ledger {
	r.Helper()
	r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Share: share}, &corev1.ConfigMap{}: {Key: shard.ByOwner(), Share: share}})
	m, l := r.manager(ctrl.Options{}), &ledger{}
	shared, err := controllerruntime.Sharded(m.GetCache(), reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		l.note(req)
		if do == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, do(ctx, req, m.GetClient())
	}), &corev1.Pod{}, &corev1.ConfigMap{})
	require.NoError(r, err)
	require.NoError(r, ctrl.NewControllerManagedBy(m).Named("test").For(&corev1.Pod{}).Owns(&corev1.ConfigMap{}).Complete(shared))
	r.start(m)
	return l
}

// owned is a ConfigMap that a pod controls.
func (r *rig) owned(by string) *corev1.ConfigMap {
	r.Helper()
	o, err := r.srv.Get(corev1.SchemeGroupVersion.WithResource("pods"), keyNamed(by))
	require.NoError(r, err)
	k := keyNamed(by)
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: k.Name, UID: o.GetUID(), Controller: new(true)},
	}}}
}

// A reconciler receives requests for its share: new, changed and owned objects, but not those that
// move away. With a key by UID, no member reconciles a deletion.
func TestS03_ReconcilerReceivesOnlyItsShare(t *testing.T) {
	on(t, newCache, func(r *rig) {
		names, share := r.bySlot("shop"), newEstate(0)
		token := func(ctx context.Context, req ctrl.Request, c client.Client) error {
			token, ok := shard.TokenOf(ctx)
			require.True(r, ok)
			require.Equal(r, slices.Contains(names[1], req.String()), token.Slot == 1)
			return c.Get(ctx, req.NamespacedName, &corev1.Pod{})
		}
		l := r.shares(share, token)
		settle(time.Second)
		require.Equal(r, names[0], l.read())
		share.set(0, 1)
		settle(time.Second)
		require.Equal(r, names[1], l.read(), "what has come")
		share.set(1)
		settle(time.Second)
		require.Empty(r, l.read(), "what has moved is not gone")
		r.put(r.owned(names[0][0]), r.owned(names[1][0]))
		settle(time.Second)
		require.Equal(r, names[1][:1], l.read(), "what is owned")
		r.put(pod("shop", names[0][1][5:], "db"), pod("shop", names[1][1][5:], "db"))
		settle(time.Second)
		require.Equal(r, names[1][1:2], l.read())
		r.delete(pod("shop", names[1][2][5:], ""))
		settle(time.Second)
		require.Empty(r, l.read(), "by UID nobody reconciles a deletion")
		require.Zero(r, share.busy())
	})
}

// With a key by namespace, the owner of the namespace reconciles a deletion.
func TestADeletionByNamespace(t *testing.T) {
	on(t, newCache, func(r *rig) {
		hash := func(namespace string) int { return shard.SlotOf(shard.ByNamespace().Hash(pod(namespace, "a", "")), 2) }
		require.NotEqual(r, hash("shop"), hash("bank"), "choose other names")
		share := newEstate(hash("shop"))
		r.put(pod("shop", "a", "web"), pod("bank", "a", "web"))
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Key: shard.ByNamespace(), Share: share}})
		m := r.manager(ctrl.Options{})
		var found, gone ledger
		shared, err := controllerruntime.Sharded(m.GetCache(), reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			switch err := m.GetClient().Get(ctx, req.NamespacedName, &corev1.Pod{}); {
			case err == nil:
				found.note(req)
			case apierrors.IsNotFound(err):
				gone.note(req)
			default:
				return ctrl.Result{}, err
			}
			return ctrl.Result{}, nil
		}), &corev1.Pod{})
		require.NoError(r, err)
		require.NoError(r, ctrl.NewControllerManagedBy(m).Named("test").For(&corev1.Pod{}).Complete(shared))
		r.start(m)
		settle(time.Second)
		require.Equal(r, []string{"shop/a"}, found.read())
		r.delete(pod("shop", "a", ""))
		r.delete(pod("bank", "a", ""))
		settle(time.Second)
		require.Empty(r, found.read())
		require.Equal(r, []string{"shop/a"}, gone.read())

		// A request for an object of another process does not reach the reconciler.
		for namespace, want := range map[string][]string{"shop": {"shop/a"}, "bank": nil} {
			_, err := shared.Reconcile(r.ctx, ctrl.Request{NamespacedName: key(namespace, "a")})
			require.NoError(r, err)
			require.Equal(r, want, gone.read())
		}
	})
}

// A slot is lost during a reconcile. A failed read is not reported as a deletion, and the result is
// ignored.
func TestS03_ObjectMovedDuringAReconcileIsNotReportedAsNotFound(t *testing.T) {
	on(t, newCache, func(r *rig) {
		names, share := r.bySlot("shop"), newEstate(0)
		r.put(r.owned(names[0][0]))
		first, moved := true, make(chan struct{})
		var answers []error
		l := r.shares(share, func(ctx context.Context, req ctrl.Request, c client.Client) error {
			if req.String() != names[0][0] || !first {
				return c.Get(ctx, req.NamespacedName, &corev1.Pod{})
			}
			first = false
			require.NoError(r, c.Get(ctx, req.NamespacedName, &corev1.Pod{}))
			require.NoError(r, c.List(ctx, &corev1.ConfigMapList{}))
			<-moved
			answers = append(answers, c.Get(ctx, req.NamespacedName, &corev1.Pod{}), c.Get(ctx, req.NamespacedName, &corev1.ConfigMap{}),
				c.List(ctx, &corev1.ConfigMapList{}), c.List(ctx, &corev1.PodList{}))
			require.NoError(r, c.List(ctx, &corev1.SecretList{}), "it is whole")
			require.True(r, apierrors.IsNotFound(c.Get(ctx, key("shop", "none"), &corev1.Secret{})))
			return answers[0]
		})
		settle(time.Second)
		require.Equal(r, 1, share.busy())
		share.set()
		settle(time.Second)
		close(moved)
		settle(time.Hour)
		require.Len(r, answers, 4)
		for _, err := range answers {
			require.ErrorIs(r, err, shard.ErrMoved)
			require.False(r, apierrors.IsNotFound(err))
		}
		require.Zero(r, share.busy())
		l.read()
		share.set(0)
		settle(time.Second)
		require.Equal(r, names[0], l.read(), "it came back")

		// If the slot has returned in the meantime, it is another term.
		first, moved, answers = true, make(chan struct{}), nil
		r.put(pod("shop", names[0][0][5:], "db"))
		settle(time.Second)
		share.set()
		share.set(0)
		close(moved)
		settle(time.Second)
		require.Len(r, answers, 4)
		require.ErrorIs(r, answers[2], shard.ErrMoved)
		require.Contains(r, l.read(), names[0][0], "and is reconciled again")
	})
}

// With a key by label, an object may leave during a reconcile although the slot stays.
func TestS03_ObjectRelabelledDuringAReconcileIsNotReportedAsNotFound(t *testing.T) {
	on(t, newCache, func(r *rig) {
		slot := func(app string) int { return shard.SlotOf(shard.ByLabel("app").Hash(pod("shop", "a", app)), 2) }
		require.NotEqual(r, slot("web"), slot("cart"), "choose other labels")
		share := newEstate(slot("web"))
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Key: shard.ByLabel("app"), Share: share}})
		c := r.running(cache.Options{})
		r.put(pod("shop", "a", "web"))
		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		var answer, other error
		shared, err := controllerruntime.Sharded(c, reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			require.NoError(r, c.Get(ctx, req.NamespacedName, &corev1.Pod{}))
			r.put(pod("shop", "a", "cart"))
			settle(time.Second)
			answer, other = c.Get(ctx, req.NamespacedName, &corev1.Pod{}), c.Get(ctx, key("shop", "none"), &corev1.Pod{})
			return ctrl.Result{}, answer
		}), &corev1.Pod{})
		require.NoError(r, err)
		result, err := shared.Reconcile(r.ctx, ctrl.Request{NamespacedName: key("shop", "a")})
		require.NoError(r, err, "who has it now begins anew")
		require.Zero(r, result)
		require.ErrorIs(r, answer, shard.ErrMoved)
		require.True(r, apierrors.IsNotFound(other), "%v", other)
	})
}

// With a key by label, a new object may be missing from the informer that the reconciler reads, although the one
// that sent the request has it. The request is not lost.
func TestAnObjectThatOnlyTheMetadataInformerHas(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Key: shard.ByLabel("app"), Share: shard.Ordinal(0, 1)}})
		var gate atomic.Pointer[chan struct{}]
		r.cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return exchange(func(req *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(req)
				if err == nil && !strings.Contains(req.Header.Get("Accept"), "PartialObjectMetadata") {
					resp.Body = gated{resp.Body, &gate}
				}
				return resp, err
			})
		})
		c := r.running(cache.Options{})
		for _, form := range podForms()[:2] {
			_, err := c.GetInformer(r.ctx, form)
			require.NoError(r, err)
		}
		shared, err := controllerruntime.Sharded(c, reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, c.Get(ctx, req.NamespacedName, &corev1.Pod{})
		}), &corev1.Pod{})
		require.NoError(r, err)
		shut := make(chan struct{})
		open := sync.OnceFunc(func() { close(shut) })
		defer open()
		gate.Store(&shut)
		r.put(pod("shop", "a", "web"))
		settle(time.Second)
		req := ctrl.Request{NamespacedName: key("shop", "a")}
		result, err := shared.Reconcile(r.ctx, req)
		require.NoError(r, err)
		require.Equal(r, 20*time.Millisecond, result.RequeueAfter)
		open()
		settle(time.Second)
		result, err = shared.Reconcile(r.ctx, req)
		require.NoError(r, err)
		require.Zero(r, result)
	})
}

// gated is a response's body whose reads wait while there is a gate.
type gated struct {
	io.ReadCloser
	gate *atomic.Pointer[chan struct{}]
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	if gate := g.gate.Load(); gate != nil {
		<-*gate
	}
	return n, err
}

// If a slot is lost after its object was relabelled into another own slot, no new owner starts over.
func TestAnObjectRelabelledBeforeItsSlotIsLost(t *testing.T) {
	on(t, newCache, func(r *rig) {
		slot := func(app string) int { return shard.SlotOf(shard.ByLabel("app").Hash(pod("shop", "a", app)), 2) }
		require.NotEqual(r, slot("web"), slot("cart"), "choose other labels")
		share := newEstate(0, 1)
		var end context.CancelCauseFunc
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Key: shard.ByLabel("app"), Share: &failing{share, func(ctx context.Context, hash uint64) (context.Context, func(), error) {
			ctx, end = context.WithCancelCause(ctx)
			return share.Enter(ctx, hash)
		}}}})
		c := r.running(cache.Options{})
		r.put(pod("shop", "a", "web"))
		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		shared, err := controllerruntime.Sharded(c, reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
			r.put(pod("shop", "a", "cart"))
			settle(time.Second)
			share.set(slot("cart"))
			end(shard.ErrMoved)
			<-ctx.Done()
			return ctrl.Result{}, errors.New("half done")
		}), &corev1.Pod{})
		require.NoError(r, err)
		result, err := shared.Reconcile(r.ctx, ctrl.Request{NamespacedName: key("shop", "a")})
		require.NoError(r, err)
		require.Equal(r, 20*time.Millisecond, result.RequeueAfter)
	})
}

// No reconcile starts before the informers of the reconciled and owned kinds hold the slot.
func TestS04_ReconcilerWaitsForOwnedObjects(t *testing.T) {
	on(t, newCache, func(r *rig) {
		names, share := r.bySlot("shop"), newEstate(0)
		r.put(r.owned(names[1][0]))
		l := r.shares(share, func(ctx context.Context, req ctrl.Request, c client.Client) error {
			err := c.Get(ctx, req.NamespacedName, &corev1.ConfigMap{})
			if req.String() == names[1][0] {
				require.NoError(r, err, "it is to see what the process before has written")
			}
			return client.IgnoreNotFound(err)
		})
		settle(time.Second)
		require.Equal(r, names[0], l.read())
		fault := r.srv.Faults().Add(apiservertest.Fault{Resource: "configmaps", Verb: "list", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		share.set(0, 1)
		settle(10 * time.Second)
		require.Empty(r, l.read())
		r.srv.Faults().Remove(fault)
		settle(time.Minute)
		require.Equal(r, names[1], l.read())
		require.Zero(r, share.busy())
	})
}

// exchange is an http.RoundTripper.
type exchange func(*http.Request) (*http.Response, error)

func (e exchange) RoundTrip(req *http.Request) (*http.Response, error) { return e(req) }

// A namespace that cannot be listed holds up only its own requests.
func TestS04_ANamespaceThatCannotBeListed(t *testing.T) {
	on(t, newCache, func(r *rig) {
		names, share := r.bySlot("shop", "bank"), newEstate(0)
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Share: share}, &corev1.ConfigMap{}: {Key: shard.ByOwner(), Share: share}})
		var refusing atomic.Bool
		r.cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return exchange(func(req *http.Request) (*http.Response, error) {
				if refusing.Load() && req.URL.Path == "/api/v1/namespaces/bank/configmaps" {
					return nil, errors.New("no way to the bank")
				}
				return next.RoundTrip(req)
			})
		})
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}})
		require.NoError(r, c.List(r.ctx, &corev1.PodList{}))
		require.NoError(r, c.List(r.ctx, &corev1.ConfigMapList{}))
		var l ledger
		shared, err := controllerruntime.Sharded(c, reconcile.Func(func(_ context.Context, req ctrl.Request) (ctrl.Result, error) {
			l.note(req)
			return ctrl.Result{}, nil
		}), &corev1.Pod{}, &corev1.ConfigMap{})
		require.NoError(r, err)
		refusing.Store(true)
		share.set(0, 1)
		settle(10 * time.Second)
		for namespace, want := range map[string]time.Duration{"shop": 0, "bank": 20 * time.Millisecond} {
			n := slices.IndexFunc(names[1], func(name string) bool { return keyNamed(name).Namespace == namespace })
			result, err := shared.Reconcile(r.ctx, ctrl.Request{NamespacedName: keyNamed(names[1][n])})
			require.NoError(r, err)
			require.Equal(r, want, result.RequeueAfter, namespace)
			require.Equal(r, want == 0, len(l.read()) == 1, namespace)
		}
	})
}

// The first read of a kind also returns the objects that came with the slot.
func TestS04_AKindThatIsReadLater(t *testing.T) {
	on(t, newCache, func(r *rig) {
		share := newEstate(0, 1)
		r.put(pod("shop", "a", "web"))
		r.put(r.owned("shop/a"))
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Share: share}, &corev1.ConfigMap{}: {Key: shard.ByOwner(), Share: share}})
		c := r.running(cache.Options{})
		calls := 0
		shared, err := controllerruntime.Sharded(c, reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			calls++
			return ctrl.Result{}, c.Get(ctx, req.NamespacedName, &corev1.ConfigMap{})
		}), &corev1.Pod{}, &corev1.ConfigMap{})
		require.NoError(r, err)
		req := ctrl.Request{NamespacedName: key("shop", "a")}
		result, err := shared.Reconcile(r.ctx, req)
		require.NoError(r, err)
		require.Equal(r, 20*time.Millisecond, result.RequeueAfter, "nobody has read the Pods")
		settle(time.Second)
		result, err = shared.Reconcile(r.ctx, req)
		require.NoError(r, err)
		require.Zero(r, result)
		require.Equal(r, 1, calls)

		// A kind that is not registered as owned is not waited for, and a read fails until it holds
		// the slot.
		alone, err := controllerruntime.Sharded(c, reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			calls++
			return ctrl.Result{}, c.Get(ctx, req.NamespacedName, &corev1.ConfigMap{})
		}), &corev1.Pod{})
		require.NoError(r, err)
		share.set()
		settle(time.Second)
		fault := r.srv.Faults().Add(apiservertest.Fault{Resource: "configmaps", Verb: "list", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		share.set(0, 1)
		settle(time.Second)
		result, err = alone.Reconcile(r.ctx, req)
		require.NoError(r, err)
		require.Equal(r, 20*time.Millisecond, result.RequeueAfter)
		require.Equal(r, 2, calls)
		r.srv.Faults().Remove(fault)
		settle(time.Minute)
		result, err = alone.Reconcile(r.ctx, req)
		require.NoError(r, err)
		require.Zero(r, result)
	})
}

// A request starts the informer for its own namespace only. A request from an uncovered namespace is dropped.
func TestARequestStartsOnlyItsOwnNamespace(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("bank", "a", "web"))
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Share: newEstate(0, 1)}})
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}})
		var l ledger
		shared, err := controllerruntime.Sharded(c, reconcile.Func(func(_ context.Context, req ctrl.Request) (ctrl.Result, error) {
			l.note(req)
			return ctrl.Result{}, nil
		}), &corev1.Pod{})
		require.NoError(r, err)
		for _, namespace := range []string{"zoo", "shop", "bank"} {
			req, wait, want := ctrl.Request{NamespacedName: key(namespace, "a")}, 20*time.Millisecond, []string{namespace + "/a"}
			if namespace == "zoo" {
				wait, want = 0, nil
			}
			result, err := shared.Reconcile(r.ctx, req)
			require.NoError(r, err)
			require.Equal(r, wait, result.RequeueAfter, namespace)
			settle(time.Second)
			result, err = shared.Reconcile(r.ctx, req)
			require.NoError(r, err)
			require.Zero(r, result, namespace)
			require.Equal(r, want, l.read())
			if namespace == "shop" {
				require.Equal(r, []request{{"/api/v1/namespaces/shop/pods", "", ""}}, r.requests())
			}
		}
	})
}

// A reconciler releases the slot even if it panics or exits.
func TestReconcilerThatPanicsLeavesItsSlot(t *testing.T) {
	for name, end := range map[string]func(){
		"panics": func() { panic("the reconciler panics") },
		"exits":  runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			on(t, newCache, func(r *rig) {
				share := newEstate(0, 1)
				req, shared := r.sharedPods(share, func() { end() })
				done := make(chan any)
				go func() {
					defer close(done)
					defer func() { done <- recover() }()
					_, _ = shared.Reconcile(r.ctx, req)
				}()
				said := <-done
				<-done
				if name == "panics" {
					require.Equal(r, "the reconciler panics", said, "controller-runtime makes an error of it")
				}
				require.Zero(r, share.busy())
			})
		})
	}
}

// sharedPods returns a shared reconciler of pods that calls do, and a request for one pod.
func (r *rig) sharedPods(share shard.Share, do func()) (ctrl.Request, reconcile.Reconciler) {
	r.Helper()
	r.put(pod("shop", "a", "web"))
	r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Share: share}})
	c := r.running(cache.Options{})
	_, err := c.GetInformer(r.ctx, &corev1.Pod{})
	require.NoError(r, err)
	shared, err := controllerruntime.Sharded(c, reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
		do()
		return ctrl.Result{RequeueAfter: time.Hour}, nil
	}), &corev1.Pod{})
	require.NoError(r, err)
	return ctrl.Request{NamespacedName: key("shop", "a")}, shared
}

// failing is a user's share of all slots that fails.
type failing struct {
	shard.Share
	enter func(ctx context.Context, hash uint64) (context.Context, func(), error)
}

func (f *failing) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	return f.enter(ctx, hash)
}

// A share that panics or exits is an error, and costs no worker.
func TestAShareThatFails(t *testing.T) {
	fine := shard.Ordinal(0, 1)
	leaving := func(leave func()) func(context.Context, uint64) (context.Context, func(), error) {
		return func(ctx context.Context, hash uint64) (context.Context, func(), error) {
			ctx, left, err := fine.Enter(ctx, hash)
			return ctx, func() { left(); leave() }, err
		}
	}
	for _, c := range []struct {
		want  string // of the error; empty if the reconciler is called
		enter func(context.Context, uint64) (context.Context, func(), error)
	}{
		{"enter the share: the share panicked: broken", func(context.Context, uint64) (context.Context, func(), error) { panic("broken") }},
		{"the share called runtime.Goexit", func(context.Context, uint64) (context.Context, func(), error) { runtime.Goexit(); return nil, nil, nil }},
		{"returns no context or leave", func(context.Context, uint64) (context.Context, func(), error) { return nil, nil, nil }},
		{"without a token", func(ctx context.Context, _ uint64) (context.Context, func(), error) { return ctx, func() {}, nil }},
		{"no lease of mine", func(context.Context, uint64) (context.Context, func(), error) {
			return nil, nil, errors.New("no lease of mine")
		}},
		{"", leaving(func() {})},
		{"", leaving(func() { panic("left") })},
		{"", leaving(runtime.Goexit)},
	} {
		t.Run(c.want, func(t *testing.T) {
			on(t, newCache, func(r *rig) {
				calls := 0
				req, shared := r.sharedPods(&failing{fine, c.enter}, func() { calls++ })
				result, err := shared.Reconcile(r.ctx, req)
				if c.want != "" {
					require.ErrorContains(r, err, c.want)
					require.Zero(r, calls)
					return
				}
				require.NoError(r, err)
				require.Equal(r, time.Hour, result.RequeueAfter)
				require.Equal(r, 1, calls)
			})
		})
	}
}

// A key that fails is an error that names it.
func TestAKeyThatFails(t *testing.T) {
	on(t, newCache, func(r *rig) {
		broken := false
		name := shard.ByFunc("name", func(o object.Head) string {
			if broken {
				panic("no name")
			}
			return o.GetName()
		})
		r.put(pod("shop", "a", "web"))
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Key: name, Share: shard.Ordinal(0, 1)}})
		c := r.running(cache.Options{})
		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		shared, err := controllerruntime.Sharded(c, reconcile.Func(nil), &corev1.Pod{})
		require.NoError(r, err)
		settle(time.Second)
		broken = true
		_, err = shared.Reconcile(r.ctx, ctrl.Request{NamespacedName: key("shop", "a")})
		require.ErrorContains(r, err, `shard.ByFunc("name") at controllerruntime/sharded_test.go:`)
		broken = false
	})
}

// A configuration that would leave work undone, or do it twice, is refused at the start.
func TestSharingThatCannotWork(t *testing.T) {
	share, nothing := newEstate(0), reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
	pods, maps := &corev1.Pod{}, &corev1.ConfigMap{}
	for want, shards := range map[string]map[client.Object]shard.Scope{
		"Pod has no scope: add it to Options.Shards":                                      {maps: {Share: share}},
		"Pod, which owns ConfigMap: the owned kind is not shared but its owners are":      {pods: {Share: share}},
		"the two have different shares":                                                   {pods: {}, maps: {Share: share}},
		"the two have different shares: give both the same share":                         {pods: {Share: newEstate(0)}, maps: {Key: shard.ByOwner(), Share: share}},
		"owned objects are sharded by uid and their owners by uid":                        {pods: {Share: share}, maps: {Share: share}},
		"shard owners by uid and owned objects by controller owner, or both by namespace": {pods: {Key: shard.ByNamespace(), Share: share}, maps: {Key: shard.ByOwner(), Share: share}},
		"owned objects are sharded by label app and their owners by label team, so an owner and the objects it owns could belong to different processes": {pods: {Key: shard.ByLabel("team"), Share: share}, maps: {Key: shard.ByLabel("app"), Share: share}},
	} {
		on(t, newCache, func(r *rig) {
			r.sharing(shards)
			_, err := controllerruntime.Sharded(r.cache(cache.Options{}), nothing, pods, maps)
			require.ErrorContains(r, err, want)
		})
	}
	on(t, newCache, func(r *rig) {
		_, err := controllerruntime.Sharded(nil, nothing, pods)
		require.ErrorContains(r, err, "a <nil> cannot shard objects")
		others, err := cache.New(r.cfg, cache.Options{})
		require.NoError(r, err)
		_, err = controllerruntime.Sharded(others, nothing, pods)
		require.ErrorContains(r, err, "cannot shard objects: set ctrl.Options.NewCache")
		_, err = controllerruntime.Sharded(r.cache(cache.Options{}), nil, pods)
		require.ErrorContains(r, err, "it is nil")
		_, err = controllerruntime.Sharded(r.cache(cache.Options{}), nothing, &Greeting{})
		require.ErrorContains(r, err, "*controllerruntime_test.Greeting")

		// A nil share shares nothing, and every request is reconciled.
		r.sharing(map[client.Object]shard.Scope{pods: {}})
		whole := &ledger{}
		same, err := controllerruntime.Sharded(r.cache(cache.Options{}), reconcile.Func(func(_ context.Context, req ctrl.Request) (ctrl.Result, error) {
			whole.note(req)
			return ctrl.Result{}, nil
		}), pods, maps)
		require.NoError(r, err)
		_, err = same.Reconcile(r.ctx, ctrl.Request{NamespacedName: key("shop", "none")})
		require.NoError(r, err)
		require.Equal(r, []string{"shop/none"}, whole.read())
	})
}

// The new owner of a slot starts over, so results of work in a lost slot are not reported.
func TestWorkIsDroppedWhenItsSlotIsLost(t *testing.T) {
	for _, cause := range []error{shard.ErrLost, shard.ErrMoved, errors.New("the process ends")} {
		on(t, newCache, func(r *rig) {
			fine := shard.Ordinal(0, 1)
			var end context.CancelCauseFunc
			r.put(pod("shop", "a", "web"))
			r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Share: &failing{fine, func(ctx context.Context, hash uint64) (context.Context, func(), error) {
				ctx, end = context.WithCancelCause(ctx)
				return fine.Enter(ctx, hash)
			}}}})
			c := r.running(cache.Options{})
			_, err := c.GetInformer(r.ctx, &corev1.Pod{})
			require.NoError(r, err)
			shared, err := controllerruntime.Sharded(c, reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				end(fmt.Errorf("slot 0: %w", cause))
				<-ctx.Done()
				return ctrl.Result{RequeueAfter: time.Hour}, errors.New("half done")
			}), &corev1.Pod{})
			require.NoError(r, err)
			result, err := shared.Reconcile(r.ctx, ctrl.Request{NamespacedName: key("shop", "a")})
			if cause.Error() == "the process ends" {
				require.ErrorContains(r, err, "half done")
				return
			}
			require.NoError(r, err)
			require.Zero(r, result)
		})
	}
}

// If the share refuses to enter a slot that it keeps, the request is not lost.
func TestAShareThatHesitates(t *testing.T) {
	on(t, newCache, func(r *rig) {
		fine, refuse, calls := shard.Ordinal(0, 1), true, 0
		req, shared := r.sharedPods(&failing{fine, func(ctx context.Context, hash uint64) (context.Context, func(), error) {
			if refuse {
				return nil, nil, fmt.Errorf("not now: %w", shard.ErrNotOurs)
			}
			return fine.Enter(ctx, hash)
		}}, func() { calls++ })
		result, err := shared.Reconcile(r.ctx, req)
		require.NoError(r, err)
		require.Equal(r, 20*time.Millisecond, result.RequeueAfter)
		refuse = false
		_, err = shared.Reconcile(r.ctx, req)
		require.NoError(r, err)
		require.Equal(r, 1, calls)
	})
}
