package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// userShare is a user's Share that owns all slots and fails.
type userShare struct {
	shard.Share
	enter func(ctx context.Context, hash uint64) (context.Context, func(), error)
}

func (u *userShare) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	return u.enter(ctx, hash)
}

// If a share fails, no worker and no request is lost. The failure is reported and the request is
// retried.
func TestAShareThatFails(t *testing.T) {
	fine := shard.Ordinal(0, 1)
	leaving := func(leave func()) func(context.Context, uint64) (context.Context, func(), error) {
		return func(ctx context.Context, hash uint64) (context.Context, func(), error) {
			ctx, left, err := fine.Enter(ctx, hash)
			return ctx, func() { left(); leave() }, err
		}
	}
	for want, fail := range map[string]func(context.Context, uint64) (context.Context, func(), error){
		"the share panicked: broken":      func(context.Context, uint64) (context.Context, func(), error) { panic("broken") },
		"the share called runtime.Goexit": func(context.Context, uint64) (context.Context, func(), error) { runtime.Goexit(); return nil, nil, nil },
		"returns no context or leave":     func(context.Context, uint64) (context.Context, func(), error) { return nil, nil, nil },
		"no lease of mine": func(context.Context, uint64) (context.Context, func(), error) {
			return nil, nil, errors.New("no lease of mine")
		},
		"the slot is owned, and may not be entered yet": func(context.Context, uint64) (context.Context, func(), error) {
			return nil, nil, shard.ErrNotOurs
		},
		"":                                   leaving(func() { panic("left") }),
		"it is not told in the status again": leaving(runtime.Goexit),
	} {
		t.Run(want, func(t *testing.T) {
			controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
				var broken atomic.Bool
				broken.Store(true)
				u := &userShare{fine, func(ctx context.Context, hash uint64) (context.Context, func(), error) {
					if broken.Load() {
						return fail(ctx, hash)
					}
					return fine.Enter(ctx, hash)
				}}
				pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: u}}})
				for _, name := range []string{"a", "b"} {
					controllertest.Put(e, pod(name))
				}
				j := &journal{}
				c := newController(e, j, controller.Options{Concurrency: 1}, controller.For(pods))
				e.Start(c)
				e.Settle(10 * time.Second)
				if s := c.Status(); s.Failure != nil {
					require.ErrorContains(e, s.Failure, want)
					require.Empty(e, j.read())
				}
				broken.Store(false)
				e.Settle(10 * time.Minute)
				controllertest.Put(e, pod("c"))
				e.Settle(time.Minute)
				require.ElementsMatch(e, []string{"shop/a", "shop/b", "shop/c"}, j.read())
				require.Zero(e, c.Status().Active)
			})
		})
	}
}

// nobodys is a share of a type that is not comparable.
type nobodys struct {
	shard.Share
	_ []int
}

// A share that is not comparable is an error of the source that has it, and not of other sources.
func TestIncomparableShareIsReportedOnce(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		holding := func(share shard.Share) *sharedinformer.Informer[*corev1.Pod] {
			return sharedinformer.New[*corev1.Pod](rest.ResourceFor[*corev1.Pod](e.Client).Source(), sharedinformer.Options{Shard: shard.Scope{Share: share}})
		}
		fine := shard.Ordinal(0, 1)
		good, bad := holding(fine), holding(nobodys{Share: fine})
		one := func(p *corev1.Pod) []controller.Request { return []controller.Request{controller.RequestFor(p)} }
		for name, sources := range map[string][]controller.Source{
			"of a map":         {controller.For(good), controller.MapFunc(bad, one), controller.MapFunc(good, one)},
			"to be reconciled": {controller.For(bad), controller.MapFunc(good, one)},
		} {
			t.Run(name, func(t *testing.T) {
				c, err := controller.New("x", &journal{}, controller.Options{})
				require.NoError(t, err)
				for _, source := range sources {
					c.Watch(source)
				}
				require.Equal(t, 1, strings.Count(c.Err().Error(), "source"), "%v", c.Err())
				require.ErrorContains(t, c.Err(), "a controller_test.nobodys is not comparable")
			})
		}
	})
}

// If a key fails when a worker calls it, the worker survives.
func TestAKeyThatFailsInAWorker(t *testing.T) {
	for want, fail := range map[string]func(){
		`shard.ByFunc("name") at controller/share_test.go:`: func() { panic("broken") },
		"called runtime.Goexit":                             runtime.Goexit,
	} {
		controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
			var broken atomic.Bool
			key := shard.ByFunc("name", func(o object.Head) string {
				if broken.Load() {
					fail()
				}
				return o.GetName()
			})
			pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Key: key, Share: shard.Ordinal(0, 1)}}})
			controllertest.Put(e, pod("a"))
			j := &journal{}
			c := newController(e, j, controller.Options{}, controller.For(pods), controller.SourceFunc("outside", func(ctx context.Context, in *controller.Inbox) error {
				in.Synced()
				for {
					select {
					case <-time.After(time.Minute):
						in.Add(controller.Generic, object.Key{}, controller.Request{Key: object.Key{Namespace: "shop", Name: "a"}})
					case <-ctx.Done():
						return nil
					}
				}
			}))
			e.Start(c)
			e.Settle(time.Second)
			broken.Store(true)
			e.Settle(62 * time.Second)
			require.ErrorContains(e, c.Status().Failure, want)
			broken.Store(false)
			before := len(j.read())
			e.Settle(5 * time.Minute)
			require.Greater(e, len(j.read()), before)
		})
	}
}

const someSlots = 64

// slotsOfOurs is a share whose slots come and go.
type slotsOfOurs struct {
	mu      sync.Mutex
	owned   shard.Slots
	changed chan struct{}
}

func newSlotsOfOurs() *slotsOfOurs {
	return &slotsOfOurs{owned: shard.AllSlots(someSlots), changed: make(chan struct{})}
}

func (s *slotsOfOurs) Owned() (shard.Slots, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned, s.changed
}

func (s *slotsOfOurs) Term(slot int) (shard.Token, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shard.Token{Slot: slot, Epoch: 1}, s.owned.Has(slot)
}

func (s *slotsOfOurs) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := shard.SlotOf(hash, someSlots)
	if !s.owned.Has(n) {
		return nil, nil, shard.ErrNotOurs
	}
	return shard.WithToken(ctx, shard.Token{Slot: n, Epoch: 1}), func() {}, nil
}

func (s *slotsOfOurs) lose(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned = s.owned.Without(shard.NewSlots(someSlots, slot))
	close(s.changed)
	s.changed = make(chan struct{})
}

// uidIn returns a UID in the given slot.
func uidIn(slot int) types.UID {
	for n := 0; ; n++ {
		if uid := fmt.Sprintf("uid-%d-%d", slot, n); shard.SlotOf(shard.Hash(uid), someSlots) == slot {
			return types.UID(uid)
		}
	}
}

func podOf(name string, slot int) *corev1.Pod {
	return pod(name, func(p *corev1.Pod) { p.UID = uidIn(slot) })
}

// An object that is deleted and recreated during its reconcile belongs where the new object is,
// whatever that reconcile requests.
func TestL27_ObjectRecreatedDuringItsReconcile(t *testing.T) {
	for name, result := range map[string]struct {
		controller.Result
		error
	}{
		"it asks to be called later": {Result: controller.Result{RequeueAfter: time.Hour}},
		"it fails":                   {error: errors.New("broken")},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				const first, second, others = 3, 40, 17
				share := newSlotsOfOurs()
				pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share}}})
				var seen []string
				goOn := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
				j := &journal{do: func(ctx context.Context, req controller.Request) (controller.Result, error) {
					token, _ := shard.TokenOf(ctx)
					o, ok := pods.Cache().Get(req.Key)
					if ok {
						seen = append(seen, fmt.Sprintf("%s of %d in %d", req.Name, shard.SlotOf(shard.ByUID().Hash(o), someSlots), token.Slot))
					}
					if blocked := goOn[req.Name]; blocked != nil {
						<-blocked
						goOn[req.Name] = nil
						if req.Name == "a" {
							return result.Result, result.error
						}
					}
					return controller.Result{}, nil
				}}
				c := newController(e, j, controller.Options{Concurrency: 1}, controller.For(pods))
				require.Equal(e, uidIn(first), controllertest.Put(e, podOf("a", first)).UID)
				e.Start(c)
				controllertest.Put(e, podOf("b", others)) // waits behind a
				controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"})
				controllertest.Put(e, podOf("a", second))
				close(goOn["a"])
				e.Settle(0)
				share.lose(first) // the new object has another slot
				e.Settle(time.Second)
				close(goOn["b"])
				e.Settle(2 * time.Hour)
				require.Contains(e, seen, fmt.Sprintf("a of %d in %d", second, second), "status: %+v", c.Status().Elsewhere)
			})
		})
	}
}

// The same, and nothing is lost, because the work is done in the term of its slot.
func TestS01_RecreatedObjectIsReconciledInItsOwnSlot(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		const first, second = 3, 40
		share := newSlotsOfOurs()
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share}}})
		var seen []string
		goOn := make(chan struct{})
		j := &journal{do: func(ctx context.Context, req controller.Request) (controller.Result, error) {
			token, _ := shard.TokenOf(ctx)
			if o, ok := pods.Cache().Get(req.Key); ok {
				seen = append(seen, fmt.Sprintf("%d in %d", shard.SlotOf(shard.ByUID().Hash(o), someSlots), token.Slot))
			}
			<-goOn
			return controller.Result{RequeueAfter: time.Hour}, nil
		}}
		c := newController(e, j, controller.Options{}, controller.For(pods))
		controllertest.Put(e, podOf("a", first))
		e.Start(c)
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"})
		controllertest.Put(e, podOf("a", second))
		close(goOn)
		e.Settle(24 * time.Hour)
		require.Equal(e, "3 in 3", seen[0])
		for _, one := range seen[1:] {
			require.Equal(e, "40 in 40", one)
		}
	})
}

// Requests from an initial list stay behind live changes even if their slot cannot be entered at once.
func TestAHeldRequestKeepsItsPriority(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		fine := shard.Ordinal(0, 1)
		u := &userShare{fine, func(context.Context, uint64) (context.Context, func(), error) { return nil, nil, shard.ErrNotOurs }}
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: u}}})
		controllertest.Put(e, pod("a"))
		c := newController(e, &journal{}, controller.Options{}, controller.For(pods))
		e.Start(c)
		e.Settle(10 * time.Second)
		held := c.Contents(10).Delayed
		require.Len(e, held, 1)
		require.Equal(e, controller.InitialPriority, held[0].Priority)
	})
}

// A request for an owner that is not the controller belongs where that owner is, and not where the controller is.
func TestS01_EachOwnerIsInItsOwnSlot(t *testing.T) {
	const controls, beside = 3, 40
	owning := func(c *corev1.ConfigMap) *corev1.ConfigMap {
		c.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: "a", UID: uidIn(controls), Controller: new(true)},
			{APIVersion: "v1", Kind: "Pod", Name: "b", UID: uidIn(beside)},
		}
		return c
	}
	run := func(t *testing.T, lost bool, check func(e *controllertest.Env, seen []string)) {
		controllertest.Run(t, func(e *controllertest.Env) {
			share := newSlotsOfOurs()
			if lost {
				share.lose(beside)
			}
			pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Key: shard.ByUID(), Share: share}}})
			maps := controller.ClientWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Shard: shard.Scope{Key: shard.ByOwner(), Share: share}}})
			var seen []string
			c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
				token, _ := shard.TokenOf(ctx)
				_, ok := pods.Get(req.Key)
				seen = append(seen, fmt.Sprintf("%s in %d, there: %t", req.Name, token.Slot, ok))
				return controller.Result{}, nil
			}), controller.Options{}, controller.For(pods.Informer()), controller.OwnsAny(maps.Informer(), pods))
			controllertest.Put(e, podOf("a", controls))
			controllertest.Put(e, podOf("b", beside)) // in the second run this is another process's
			e.Start(c)
			e.Settle(time.Minute)
			seen = nil
			controllertest.Put(e, owning(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}))
			e.Settle(time.Minute)
			check(e, seen)
		})
	}
	t.Run("both are ours", func(t *testing.T) {
		run(t, false, func(e *controllertest.Env, seen []string) {
			require.ElementsMatch(e, []string{"a in 3, there: true", "b in 40, there: true"}, seen)
		})
	})
	t.Run("the other one is another's", func(t *testing.T) {
		run(t, true, func(e *controllertest.Env, seen []string) {
			require.Equal(e, []string{"a in 3, there: true"}, seen, "b lives, and is reconciled elsewhere at this very moment")
		})
	})
}

// If an owned object gets an owner in another process's slot, its former owner, which is ours, is reconciled.
func TestAnOwnerIsToldThatItsObjectHasMoved(t *testing.T) {
	owned := func(owner string, slot int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: owner, UID: uidIn(slot), Controller: new(true)},
		}}}
	}
	controllertest.Run(t, func(e *controllertest.Env) {
		share := newSlotsOfOurs()
		share.lose(40)
		pods := controller.ClientWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Key: shard.ByUID(), Share: share}}})
		maps := controller.ClientWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Shard: shard.Scope{Key: shard.ByOwner(), Share: share}}})
		var seen []string
		c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			for _, cause := range controller.Causes(ctx) {
				seen = append(seen, req.Name+": "+cause.Type.String())
			}
			return controller.Result{}, nil
		}), controller.Options{}, controller.For(pods.Informer()), controller.Owns(maps.Informer(), pods))
		controllertest.Put(e, podOf("a", 3))
		controllertest.Put(e, owned("a", 3))
		e.Start(c)
		e.Settle(time.Minute)
		seen = nil
		controllertest.Put(e, owned("b", 40))
		e.Settle(time.Minute)
		require.Equal(e, []string{"a: moved"}, seen)
	})
}

// An object that moved to another process's slot is not reconciled here as if it were deleted.
func TestS01_MovedObjectIsNotReportedAsDeleted(t *testing.T) {
	labelled := func(slot string) *corev1.Pod {
		return pod("a", func(p *corev1.Pod) { p.Labels = map[string]string{"of": slot} })
	}
	ours, theirs := "", ""
	for n := 0; ours == "" || theirs == ""; n++ {
		text := fmt.Sprint("shop-", n)
		switch shard.SlotOf(shard.ByLabel("of").Hash(labelled(text)), someSlots) {
		case 3:
			ours = text
		case 40:
			theirs = text
		}
	}
	controllertest.Run(t, func(e *controllertest.Env) {
		share := newSlotsOfOurs()
		share.lose(40)
		share.changed = make(chan struct{})
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share, Key: shard.ByLabel("of")}}})
		var seen []string
		j := &journal{do: func(ctx context.Context, req controller.Request) (controller.Result, error) {
			_, has := pods.Cache().Get(req.Key)
			seen = append(seen, fmt.Sprint(has))
			return controller.Result{RequeueAfter: time.Hour}, nil
		}}
		c := newController(e, j, controller.Options{}, controller.For(pods))
		controllertest.Put(e, labelled(ours))
		e.Start(c)
		controllertest.Put(e, labelled(theirs))
		e.Settle(3 * time.Hour)
		require.Equal(e, []string{"true"}, seen, "it lives, with another")

		controllertest.Put(e, labelled(ours))
		e.Settle(time.Minute)
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"})
		e.Settle(2 * time.Hour)
		require.Equal(e, []string{"true", "true", "false", "false", "false"}, seen, "it is gone")
	})
}

// A reconcile whose slot is lost does not drop causes that came in the meantime: the object was
// recreated in one of our slots and deleted, and no other process reconciles that.
func TestL27_ChangesWhileASlotIsLostAreNotDropped(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		const first, second = 3, 40
		share := newSlotsOfOurs()
		u := &userShare{Share: share}
		var lose context.CancelCauseFunc
		u.enter = func(ctx context.Context, hash uint64) (context.Context, func(), error) {
			ctx, leave, err := share.Enter(ctx, hash)
			if err == nil {
				ctx, lose = context.WithCancelCause(ctx)
			}
			return ctx, leave, err
		}
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: u}}})
		var seen []string
		j := &journal{do: func(ctx context.Context, req controller.Request) (controller.Result, error) {
			token, _ := shard.TokenOf(ctx)
			_, has := pods.Cache().Get(req.Key)
			seen = append(seen, fmt.Sprintf("%d there: %t", token.Slot, has))
			if len(seen) == 1 {
				<-ctx.Done()
				return controller.Result{}, ctx.Err()
			}
			return controller.Result{}, nil
		}}
		c := newController(e, j, controller.Options{}, controller.For(pods))
		controllertest.Put(e, podOf("a", first))
		e.Start(c)
		for _, step := range []func(){
			func() { controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"}) },
			func() { controllertest.Put(e, podOf("a", second)) },
			func() { controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: "shop", Name: "a"}) },
		} {
			step()
			e.Settle(time.Second)
		}
		share.lose(first)
		lose(shard.ErrLost)
		e.Settle(time.Hour)
		require.Equal(e, []string{"3 there: true", "40 there: false"}, seen)
	})
}

// A panic is reported even if the slot was lost meanwhile.
func TestAPanicInALostSlotIsReported(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
		all := shard.Ordinal(0, 1)
		var lose context.CancelCauseFunc
		share := &userShare{all, func(ctx context.Context, hash uint64) (context.Context, func(), error) {
			ctx, lose = context.WithCancelCause(ctx)
			return all.Enter(ctx, hash)
		}}
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: share}}})
		controllertest.Put(e, pod("a"))
		calls := 0
		c := newController(e, controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			if calls++; calls > 1 {
				return controller.Result{}, nil
			}
			lose(shard.ErrLost)
			panic("oh")
		}), controller.Options{}, controller.For(pods))
		e.Start(c)
		e.Settle(time.Minute)
		require.EqualValues(e, 1, c.Status().Panics)
		require.ErrorContains(e, c.Status().Failure, "oh")
	})
}

// A slot that was entered is left even if the key fails afterwards.
func TestS02_SlotIsReleasedIfTheKeyFails(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
		var broken, entered atomic.Bool
		key := shard.ByFunc("name", func(o object.Head) string {
			if entered.Load() && broken.Load() {
				panic("broken")
			}
			return o.GetName()
		})
		fine, hands := shard.Ordinal(0, 1), 0
		u := &userShare{fine, func(ctx context.Context, hash uint64) (context.Context, func(), error) {
			ctx, leave, err := fine.Enter(ctx, hash)
			hands++
			entered.Store(true)
			return ctx, func() { hands--; entered.Store(false); leave() }, err
		}}
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Key: key, Share: u}}})
		controllertest.Put(e, pod("a"))
		broken.Store(true)
		c := newController(e, &journal{}, controller.Options{Concurrency: 1}, controller.For(pods))
		e.Start(c)
		e.Settle(time.Minute)
		broken.Store(false)
		e.Settle(time.Hour)
		require.Zero(e, hands, "the slot can never be handed over: %v", c.Status().Failure)
	})
}

// repeating is a rate limiter that requests each forgotten key again, as another source may at any time.
type repeating struct {
	workqueue.RateLimiter[controller.Request]
	again func(controller.Request)
}

func (r *repeating) Forget(req controller.Request) { r.again(req) }

// A deletion is reconciled even if a worker is dropping a request for the same key from another source, which
// does not know the object's slot.
func TestL27_ADeletionBesideRequestsWithoutASlot(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Key: shard.ByUID(), Share: shard.Ordinal(0, 1)}}})
		var mu sync.Mutex
		gone := map[object.Key]bool{}
		limiter := &repeating{workqueue.NewExponential[controller.Request](workqueue.ExponentialOptions{}), func(controller.Request) {}}
		inbox := make(chan *controller.Inbox, 1)
		c := newController(e, controller.Func(func(_ context.Context, req controller.Request) (controller.Result, error) {
			if _, ok := pods.Cache().Get(req.Key); !ok {
				mu.Lock()
				defer mu.Unlock()
				gone[req.Key] = true
			}
			return controller.Result{}, nil
		}), controller.Options{RateLimiter: limiter}, controller.For(pods), controller.SourceFunc("other", func(ctx context.Context, in *controller.Inbox) error {
			in.Synced()
			inbox <- in
			<-ctx.Done()
			return nil
		}))
		for range 2000 { // they make looking for the slot take longer
			c.Watch(controller.SourceFunc("none", func(context.Context, *controller.Inbox) error { return nil }))
		}
		e.Start(c)
		in := <-inbox
		const deletions = 100
		for n := range deletions {
			key := object.KeyOf(controllertest.Put(e, pod(fmt.Sprint("p", n))))
			left := 300
			limiter.again = func(req controller.Request) {
				if _, ok := pods.Cache().Get(key); !ok {
					left--
				}
				if left > 0 {
					in.Add(controller.Generic, key, req)
				}
			}
			in.Add(controller.Generic, key, controller.Request{Key: key})
			controllertest.Delete[*corev1.Pod](e, key)
		}
		e.Settle(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		require.Len(e, gone, deletions)
	})
}
