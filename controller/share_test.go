package controller_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controller/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// userShare is all of the slots, by a user's Share that fails.
type userShare struct {
	shard.Share
	enter func(ctx context.Context, hash uint64) (context.Context, func(), error)
}

func (u *userShare) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	return u.enter(ctx, hash)
}

// A share that fails takes no worker along, and no request: it is told, and tried again.
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
		"returns no context or no leave":  func(context.Context, uint64) (context.Context, func(), error) { return nil, nil, nil },
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

// A key that fails where a worker asks for it takes no worker along.
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
