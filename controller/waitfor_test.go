package controller_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p.Status.Phase == phase }
}

func podInPhase(phase corev1.PodPhase) *corev1.Pod {
	p := pod("a")
	p.Status = corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Containers\x1b[2JNotReady"},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}}
	return p
}

var podA = object.Key{Namespace: "shop", Name: "a"}

func TestWaitFor(t *testing.T) {
	for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
		t.Run(store.String(), func(t *testing.T) {
			controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Store: store}}, func(e *controllertest.Env) {
				pods := controller.ClientFor[*corev1.Pod](e.Factory)
				e.Start()
				for n, p := range []*corev1.Pod{podInPhase(corev1.PodPending), pod("other"), podInPhase(corev1.PodRunning)} {
					time.AfterFunc(time.Duration(n+1)*time.Second, func() { _, _ = e.Server.Put(p) })
				}
				asked, began := 0, time.Now()
				p, err := pods.WaitFor(e.Context(), podA, func(p *corev1.Pod) bool { asked++; return inPhase(corev1.PodRunning)(p) })
				require.NoError(e, err)
				require.Equal(e, corev1.PodRunning, p.Status.Phase)
				require.Equal(e, 3*time.Second, time.Since(began), "at once")
				require.Equal(e, 2, asked, "of each state once, and of no other object")
			})
		})
	}
}

func TestWhyAWaitHasEnded(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Namespaces: []string{"shop"}}}, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		never := func(*corev1.Pod) bool { return false }
		e.Server.SetAuthorizer(apiservertest.Deny("", "pods"))
		stop, cancel := context.WithCancel(e.Context())
		defer cancel()
		e.Factory.Start(stop)
		fails := func(ctx context.Context, key object.Key, is error, says ...string) {
			e.Helper()
			p, err := pods.WaitFor(ctx, key, never)
			require.Nil(e, p)
			require.Error(e, err)
			for _, want := range append(says, "controller/waitfor_test.go:") {
				require.ErrorContains(e, err, want)
			}
			if is != nil {
				require.ErrorIs(e, err, is)
			}
			require.NotContains(e, err.Error(), "\x1b")
		}
		fails(e.Context(), podA, sharedinformer.ErrNotSynced, "wait for pods shop/a (", "): never seen: not synced: pods", "forbidden")
		e.Server.SetAuthorizer(nil)
		e.Settle(time.Minute)

		enough := errors.New("enough")
		soon, done := context.WithTimeoutCause(e.Context(), time.Second, enough)
		fails(soon, podA, enough, "): never seen: ")
		done()
		rv := controllertest.Put(e, podInPhase(corev1.PodPending)).ResourceVersion
		soon, done = context.WithTimeoutCause(e.Context(), time.Second, enough)
		fails(soon, podA, enough, "): last seen at resource version "+rv+", phase Pending, Ready=False (Containers [2JNotReady), PodScheduled=True: ")
		done()
		fails(e.Context(), object.Key{Namespace: "bank", Name: "a"}, sharedinformer.ErrNotWatched)

		time.AfterFunc(time.Second, func() { _ = e.Server.Delete(corev1.SchemeGroupVersion.WithResource("pods"), podA) })
		_, err := pods.WaitFor(e.Context(), podA, never)
		require.True(e, apierrors.IsNotFound(err), "%v", err)
		controllertest.Put(e, pod("a"))
		time.AfterFunc(time.Second, func() {
			_ = e.Server.Delete(corev1.SchemeGroupVersion.WithResource("pods"), podA)
			_, _ = e.Server.Create(podInPhase(corev1.PodRunning))
		})
		_, err = pods.WaitFor(e.Context(), podA, inPhase(corev1.PodRunning))
		require.True(e, apierrors.IsNotFound(err), "another one under its name: %v", err)

		time.AfterFunc(time.Second, cancel)
		fails(e.Context(), podA, sharedinformer.ErrStopped)
		require.PanicsWithValue(e, failure.Place(0)+": the function passed to WaitFor of pods is nil", func() { _, _ = pods.WaitFor(e.Context(), podA, nil) })
	})
}

// If an object moves to another process while a caller waits for it, it is not reported as deleted.
func TestWaitForAnObjectThatMovesAway(t *testing.T) {
	labelled := func(of string) *corev1.Pod {
		return pod("a", func(p *corev1.Pod) { p.Labels = map[string]string{"of": of} })
	}
	slot := func(of string) int { return shard.SlotOf(shard.ByLabel("of").Hash(labelled(of)), someSlots) }
	require.NotEqual(t, slot("ours"), slot("theirs"))
	gone := func(e *controllertest.Env) {
		_ = e.Server.Delete(corev1.SchemeGroupVersion.WithResource("pods"), podA)
	}
	for name, c := range map[string]struct {
		key   shard.Key
		do    func(*controllertest.Env, *slotsOfOurs)
		moved bool
	}{
		"its label changes":                 {shard.ByLabel("of"), func(e *controllertest.Env, _ *slotsOfOurs) { _, _ = e.Server.Put(labelled("theirs")) }, true},
		"deleted, but its label may change": {shard.ByLabel("of"), func(e *controllertest.Env, _ *slotsOfOurs) { gone(e) }, true},
		"its slot is lost": {shard.ByNamespace(), func(_ *controllertest.Env, s *slotsOfOurs) {
			s.lose(shard.SlotOf(shard.ByNamespace().Hash(pod("a")), someSlots))
		}, true},
		"deleted, and nothing moves it":   {shard.ByNamespace(), func(e *controllertest.Env, _ *slotsOfOurs) { gone(e) }, false},
		"deleted, and its UID is its own": {shard.ByUID(), func(e *controllertest.Env, _ *slotsOfOurs) { gone(e) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				share := newSlotsOfOurs()
				share.lose(slot("theirs"))
				share.changed = make(chan struct{})
				pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share, Key: c.key}}})
				controllertest.Put(e, labelled("ours"))
				e.Start()
				time.AfterFunc(time.Second, func() { c.do(e, share) })
				ctx, cancel := context.WithTimeout(e.Context(), time.Hour)
				defer cancel()
				_, err := pods.WaitFor(ctx, podA, inPhase(corev1.PodRunning))
				require.NoError(e, ctx.Err(), "%v", err)
				require.Equal(e, c.moved, errors.Is(err, shard.ErrMoved), "%v", err)
				require.Equal(e, !c.moved, apierrors.IsNotFound(err), "%v", err)
			})
		})
	}
}

func TestInvalidWaitFor(t *testing.T) {
	secrets := object.GVK{Version: "v1", Kind: "Secret"}
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{DisableFor: []object.GVK{secrets}}}, func(e *controllertest.Env) {
		_, err := controller.ClientFor[*corev1.Secret](e.Factory).WaitFor(e.Context(), podA, func(*corev1.Secret) bool { return true })
		require.ErrorContains(e, err, "the kind bypasses the cache")
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}})
		require.PanicsWithValue(e, "mine", func() { _, _ = pods.WaitFor(e.Context(), podA, func(*corev1.Pod) bool { panic("mine") }) })
		p, err := pods.WaitFor(e.Context(), podA, func(*corev1.Pod) bool { return true })
		require.NoError(e, err, "it was left as it was")
		require.Equal(e, "a", p.Name)
	})
}

// WaitFor reports that the bytes of an object are damaged.
func TestWaitForOfADamagedObject(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Store: sharedinformer.Packed, DetectMutations: -1}}, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		controllertest.Put(e, pod("a"))
		e.Start()
		done := false
		_, err := pods.WaitFor(e.Context(), podA, func(p *corev1.Pod) bool {
			if done {
				return true
			}
			done = true
			controllertest.Put(e, pod("a", func(p *corev1.Pod) {
				p.Labels = map[string]string{"x": "y"}
				p.Spec.NodeName = "node"
				p.Annotations = map[string]string{"some": "annotation that is long enough"}
			}))
			runtime.GC()
			head, ok := pods.Informer().Heads().Get(podA)
			require.True(e, ok)
			o := head.(*wire.Packed)
			_, used := o.InUse()
			require.False(e, used)
			data := reflect.ValueOf(o).Elem().FieldByName("text").FieldByName("data").String()
			*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(data)), len(data)-2)) ^= 1
			return false
		})
		require.ErrorIs(e, err, wire.ErrDamaged)
		require.ErrorContains(e, err, "last seen at resource version")
	})
}
