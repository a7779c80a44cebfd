package sharedinformer_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	simulated "github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// userShare is a user's Share, which may do anything.
type userShare struct {
	*share
	owned func() (shard.Slots, <-chan struct{})
	term  func(slot int) (shard.Token, bool)
	asked atomic.Int64
}

func (u *userShare) Owned() (shard.Slots, <-chan struct{}) {
	u.asked.Add(1)
	if u.owned == nil {
		return u.share.Owned()
	}
	return u.owned()
}

func (u *userShare) Term(slot int) (shard.Token, bool) {
	if u.term == nil {
		return u.share.Term(slot)
	}
	return u.term(slot)
}

// withShare runs an informer of four ConfigMaps in one namespace with a user's share, which owns
// all slots, and a key.
func withShare(t *testing.T, key shard.Key, u *userShare, body func(r *sharing, i *sharedinformer.Informer[*corev1.ConfigMap])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		r := &sharing{T: t, srv: srv, endpoint: endpoint, net: simulated.New(1), key: key}
		for n := range 4 {
			r.put(fmt.Sprint("c", n))
		}
		u.share = newShare()
		for slot := range slots {
			u.set(slot, true, 1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		i := sharedinformer.New[*corev1.ConfigMap](r.source(r.net.Link("i")).Source(), sharedinformer.Options{Shard: shard.Scope{Key: key, Share: u}})
		running.Go(func() { _ = i.Run(ctx) })
		body(r, i)
	})
}

func (r *sharing) put(name string) {
	_, err := r.srv.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	require.NoError(r, err)
}

// A share that panics, or ends its goroutine, owns nothing, and is called again.
func TestAShareThatFails(t *testing.T) {
	for want, fail := range map[string]func(){
		"the methods of the share (*sharedinformer_test.userShare) panicked: broken; nothing is owned until":             func() { panic("broken") },
		"the methods of the share (*sharedinformer_test.userShare) called runtime.Goexit, as testing.T.FailNow does; no": runtime.Goexit,
	} {
		for _, where := range []string{"Owned", "Term"} {
			u := &userShare{}
			var broken atomic.Bool
			call := func(of string) {
				if of == where && broken.Load() {
					fail()
				}
			}
			u.owned = func() (shard.Slots, <-chan struct{}) { call("Owned"); return u.share.Owned() }
			u.term = func(slot int) (shard.Token, bool) { call("Term"); return u.share.Term(slot) }
			broken.Store(true)
			withShare(t, shard.ByUID(), u, func(r *sharing, i *sharedinformer.Informer[*corev1.ConfigMap]) {
				time.Sleep(time.Minute)
				require.ErrorContains(t, i.Status().Failure, want)
				require.Less(t, u.asked.Load(), int64(100))
				require.Zero(t, i.Cache().Len())
				broken.Store(false)
				time.Sleep(2 * time.Second)
				require.Equal(t, 4, i.Cache().Len())
				require.True(t, i.Holds(0))
				broken.Store(true)
				u.set(0, true, 1)
				time.Sleep(time.Second / 2)
				require.Zero(t, i.Cache().Len(), "who knows whose they are")
				require.False(t, i.Holds(0))
				broken.Store(false)
				time.Sleep(2 * time.Second)
				require.Equal(t, 4, i.Cache().Len())
			})
		}
	}
}

// A share that signals changes all the time causes no load on the processor or the server.
func TestAShareThatChangesWithoutEnd(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	for name, epoch := range map[string]func() uint64{
		"and has not": func() uint64 { return 1 },
		"and has":     func() func() uint64 { var n atomic.Uint64; return func() uint64 { return n.Add(1) } }(),
	} {
		t.Run(name, func(t *testing.T) {
			u := &userShare{
				owned: func() (shard.Slots, <-chan struct{}) { return shard.AllSlots(slots), closed },
				term:  func(slot int) (shard.Token, bool) { return shard.Token{Slot: slot, Epoch: epoch()}, true },
			}
			withShare(t, shard.ByUID(), u, func(r *sharing, i *sharedinformer.Informer[*corev1.ConfigMap]) {
				time.Sleep(10 * time.Second)
				require.Less(t, u.asked.Load(), int64(10_000))
				require.Less(t, r.srv.Stats().Requests("list", "configmaps"), 60)
			})
		})
	}
}

// A share that returns nonsense does not cause a failure.
func TestShareThatReturnsNonsense(t *testing.T) {
	for name, u := range map[string]*userShare{
		"no slots at all": {owned: func() (shard.Slots, <-chan struct{}) { return shard.Slots{}, nil }},
		"no terms": {
			owned: func() (shard.Slots, <-chan struct{}) { return shard.AllSlots(slots), nil },
			term:  func(int) (shard.Token, bool) { return shard.Token{}, false },
		},
		"another slot's term": {term: func(int) (shard.Token, bool) { return shard.Token{Slot: -1, Epoch: 1 << 63}, true }},
	} {
		t.Run(name, func(t *testing.T) {
			withShare(t, shard.ByUID(), u, func(r *sharing, i *sharedinformer.Informer[*corev1.ConfigMap]) {
				time.Sleep(time.Minute)
				require.True(t, i.HasSynced())
			})
		})
	}
	// The number of slots changes.
	u := &userShare{}
	total := 8
	var changed chan struct{} // made in the bubble
	var mu sync.Mutex
	u.owned = func() (shard.Slots, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		if changed == nil {
			changed = make(chan struct{})
		}
		return shard.AllSlots(total), changed
	}
	u.term = func(slot int) (shard.Token, bool) { return shard.Token{Slot: slot, Epoch: 1}, true }
	withShare(t, shard.ByUID(), u, func(r *sharing, i *sharedinformer.Informer[*corev1.ConfigMap]) {
		time.Sleep(time.Minute)
		require.Equal(t, 4, i.Cache().Len())
		for _, now := range []int{3, 100, 0, 5} {
			mu.Lock()
			total = now
			close(changed)
			changed = make(chan struct{})
			mu.Unlock()
			time.Sleep(time.Minute)
			require.Equal(t, 4*min(now, 1), i.Cache().Len(), "%d slots", now)
		}
	})
}

// The status names a share that does not return.
func TestAShareThatBlocks(t *testing.T) {
	var blocks sync.Mutex // not a channel, which would belong to a bubble
	blocks.Lock()
	u := &userShare{}
	u.owned = func() (shard.Slots, <-chan struct{}) {
		for !blocks.TryLock() {
			time.Sleep(time.Second)
		}
		blocks.Unlock()
		return u.share.Owned()
	}
	withShare(t, shard.ByUID(), u, func(r *sharing, i *sharedinformer.Informer[*corev1.ConfigMap]) {
		time.Sleep(time.Minute)
		require.False(t, i.HasSynced())
		require.ErrorContains(t, i.Status().Failure, "the methods of the share (*sharedinformer_test.userShare) have not returned for 5s")
		blocks.Unlock()
		time.Sleep(time.Minute)
		require.Equal(t, 4, i.Cache().Len())
	})
}

// A share that is not comparable is rejected. Waits fail immediately with the reason, before Run is
// called and afterwards.
func TestAShareThatCannotBeCompared(t *testing.T) {
	type incomparable struct {
		shard.Share
		_ []string
	}
	const refused = "needs a comparable type"
	for _, namespaces := range [][]string{nil, {"shop"}, {"bank", "shop"}} {
		synctest.Test(t, func(t *testing.T) {
			srv := apiservertest.New(apiservertest.Options{})
			defer srv.Close()
			endpoint, err := srv.Pipe()
			require.NoError(t, err)
			r := &sharing{T: t, srv: srv, endpoint: endpoint, net: simulated.New(1)}
			i := sharedinformer.New[*corev1.ConfigMap](r.source(r.net.Link("i")).Source(), sharedinformer.Options{Namespaces: namespaces, Shard: shard.Scope{Share: incomparable{Share: shard.Ordinal(0, 1)}}})
			reg := i.AddHandler(sharedinformer.HandlerFunc[*corev1.ConfigMap](func(context.Context, sharedinformer.Event[*corev1.ConfigMap]) error { return nil }))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			waits := func() {
				t.Helper()
				for _, err := range []error{
					i.WaitForSync(ctx), reg.WaitForSync(ctx), i.WaitForRV(ctx, "1"), i.WaitForRV(ctx, "1", "shop"),
					i.WaitUntil(ctx, func() bool { return false }),
				} {
					require.ErrorContains(t, err, refused)
					require.NotContains(t, err.Error(), "does not run")
				}
				require.ErrorContains(t, i.Unsynced(), refused)
				require.Equal(t, failure.PhaseOptions, i.Status().Reflector.Failure.Phase)
				require.NoError(t, ctx.Err(), "it waited")
			}
			waits()
			require.ErrorContains(t, i.Run(ctx), refused)
			waits()
		})
	}
}

// If a key fails, it is named, wherever it is called, and the process continues.
func TestAKeyThatFailsIsNamed(t *testing.T) {
	for want, fail := range map[string]func(){
		"panicked: no team":     func() { panic("no team") },
		"called runtime.Goexit": runtime.Goexit,
	} {
		for _, from := range []int64{1, 3, 4, 5, 6, 8, 9, 10} { // the number of the first call that fails
			var calls atomic.Int64
			key := shard.ByFunc("team", func(o object.Head) string {
				if calls.Add(1) >= from {
					fail()
				}
				return o.GetName()
			})
			withShare(t, key, &userShare{}, func(r *sharing, i *sharedinformer.Informer[*corev1.ConfigMap]) {
				time.Sleep(time.Minute)
				r.put("late")
				time.Sleep(time.Minute)
				var all []string
				s := i.Status()
				if s.Failure != nil {
					all = append(all, s.Failure.Error())
				}
				if s.Reflector.Failure != nil {
					all = append(all, s.Reflector.Failure.Error())
				}
				said := strings.Join(all, "\n")
				require.Contains(t, said, `the function of shard.ByFunc("team") at sharedinformer/shard_hooks_test.go:`, "from call %d", from)
				require.Contains(t, said, want, "from call %d", from)
				require.NotContains(t, said, "a method of an object")
				require.NotContains(t, said, "index function")
			})
		}
	}
}
