package laws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

type (
	event = sharedinformer.Event[*corev1.Pod]
	funcs = sharedinformer.HandlerFuncs[*corev1.Pod]
)

// handler makes a handler from a function that returns no error.
func handler(f func(event)) sharedinformer.Handler[*corev1.Pod] {
	return sharedinformer.HandlerFunc[*corev1.Pod](func(_ context.Context, e event) error { f(e); return nil })
}

// gate is a handler that blocks in each call until it is opened or the informer stops.
type gate struct {
	open  chan struct{}
	calls chan event
}

func newGate() *gate { return &gate{open: make(chan struct{}), calls: make(chan event, 1000)} }

func (g *gate) Handle(ctx context.Context, e event) error {
	g.calls <- e
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	return nil
}

// lose makes the informer miss all changes made by missed. It cuts the watch and removes the history
// from which the informer would resume.
func (r *rig) lose(missed func()) {
	r.Helper()
	r.srv.Down()
	synctest.Wait()
	missed()
	r.srv.Compact()
	r.srv.Up()
	settle(2 * time.Minute)
}

func TestL01_OneObjectInTheOrderOfItsChanges(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i) // checks that no version goes back
		i.AddHandler(h)
		for n := range 50 {
			r.put(pod("a", fmt.Sprintf("n=%d", n)))
		}
		r.delete("a")
		r.put(pod("a"))
		log := h.heard()
		require.Len(r, log, 52)
		require.Equal(r, "add a", log[0])
		require.Equal(r, []string{"update a", "delete a", "add a"}, log[49:])
	})
}

func TestL01_OneCallAtATime(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		calls, most := 0, 0
		var mu sync.Mutex
		i.AddHandler(handler(func(event) {
			mu.Lock()
			calls++
			most = max(most, calls)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			calls--
			mu.Unlock()
		}))
		for n := range 10 {
			r.put(pod(fmt.Sprint("p", n)))
		}
		settle(time.Minute)
		require.Equal(r, 1, most)
	})
}

func TestL02_DifferentObjectsInTheOrderOfTheServer(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i)
		i.AddHandler(h)
		var want []string
		for n := range 100 {
			name := fmt.Sprint("p", (n*37)%10)
			verb := "add"
			if n >= 10 {
				verb = "update"
			}
			r.put(pod(name, fmt.Sprintf("n=%d", n)))
			want = append(want, verb+" "+name)
		}
		require.Equal(r, want, h.heard())
	})
}

func TestL02_RelistReportsDeletionsFirst(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("b"))
		r.put(pod("c"))
		r.put(pod("y"))
		r.put(pod("z"))
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i)
		i.AddHandler(h)
		require.ElementsMatch(r, []string{"add b initial", "add c initial", "add y initial", "add z initial"}, h.heard())
		r.lose(func() {
			r.put(pod("a"))
			r.put(pod("c", "changed=yes"))
			r.put(pod("d"))
			r.delete("y")
			r.put(pod("y"))
			r.delete("z")
		})
		log := h.heard()
		require.ElementsMatch(r, []string{"delete y unknown", "delete z unknown"}, log[:2])
		require.Equal(r, []string{"add a", "update c", "add d", "add y"}, log[2:], "b did not change")
	})
}

func TestL03_MissedDeletionIsReportedWithTheLastKnownObject(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a", "v=1"))
		i, _ := r.synced(sharedinformer.Options{})
		var last *corev1.Pod
		var unknown bool
		i.AddHandler(funcs{Delete: func(_ context.Context, p *corev1.Pod, finalStateUnknown bool) error {
			last, unknown = p, finalStateUnknown
			return nil
		}})
		r.lose(func() { r.put(pod("a", "v=2")); r.delete("a") })
		require.NotNil(r, last)
		require.True(r, unknown)
		require.Equal(r, "1", last.Labels["v"])

		r.put(pod("b", "v=3"))
		r.delete("b")
		synctest.Wait()
		require.Equal(r, "b", last.Name)
		require.False(r, unknown, "a deletion that was watched has its final state")
	})
}

func TestL04_AnotherUIDIsAnotherObject(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a"))
		r.put(pod("b"))
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i) // checks that no update changes a UID
		i.AddHandler(h)
		h.heard()
		r.lose(func() { r.delete("a"); r.put(pod("a")) })
		require.Equal(r, []string{"delete a unknown", "add a"}, h.heard())
		r.delete("b")
		r.put(pod("b"))
		require.Equal(r, []string{"delete b", "add b"}, h.heard())
		require.Equal(r, r.truth(), h.holds())
	})
}

func TestL05_CacheIsUpdatedBeforeHandlers(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a"))
		i := r.informer(sharedinformer.Options{})
		byLabel := sharedinformer.AddIndex(i, "v", func(p *corev1.Pod) []string { return []string{p.Labels["v"]} })
		calls := 0
		i.AddHandler(handler(func(e event) {
			calls++
			now, ok := i.Cache().Get(object.KeyOf(e.Object))
			switch {
			case e.Type == sharedinformer.Delete:
				require.False(r, ok && now.UID == e.Object.UID, "deleted, but cached")
			case !ok:
				t.Errorf("%s of %s, which is not cached", e.Type, e.Object.Name)
			case newer(e.Object, now):
				t.Errorf("told of %s, cached is %s", version(e.Object), version(now))
			case byLabel.Len(now.Labels["v"]) == 0:
				t.Errorf("%s is not in the index", e.Object.Name)
			}
		}))
		r.run(i)
		require.NoError(r, i.WaitForSync(r.ctx))
		for n := range 20 {
			r.put(pod("a", fmt.Sprintf("v=%d", n)))
			r.put(pod(fmt.Sprint("p", n)))
			synctest.Wait()
		}
		r.delete("a")
		synctest.Wait()
		require.Equal(r, 42, calls)
	})
}

func TestL06_LateHandlerReceivesEverythingOnce(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for n := range 20 {
			r.put(pod(fmt.Sprint("p", n)))
		}
		i, _ := r.synced(sharedinformer.Options{})
		stop := make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if name := fmt.Sprint("p", n%30); n%7 == 3 {
					_ = r.srv.Delete(pods, object.Key{Namespace: "shop", Name: name})
				} else {
					r.put(pod(name, fmt.Sprintf("n=%d", n)))
				}
			}
		})
		var late []*recorder
		for range 40 {
			time.Sleep(3 * time.Millisecond)
			h := record(r, i) // a repeated or missing event shows as an error or a difference
			late = append(late, h)
			require.NoError(r, i.AddHandler(h).WaitForSync(r.ctx))
		}
		close(stop)
		writer.Wait()
		settle(time.Second)
		for n, h := range late {
			require.Equal(r, r.truth(), h.holds(), "handler %d", n)
			initial := 0
			for _, line := range h.heard() {
				if len(line) > 8 && line[len(line)-8:] == " initial" {
					initial++
				}
			}
			require.NotZero(r, initial, "handler %d was told of the cached objects as initial", n)
		}
	})
}

func TestL06_JoiningDoesNotWaitForOthers(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a"))
		i, _ := r.synced(sharedinformer.Options{})
		slow := newGate()
		i.AddHandler(slow)
		<-slow.calls
		h := record(r, i)
		require.NoError(r, i.AddHandler(h).WaitForSync(r.ctx))
		r.put(pod("b"))
		require.Equal(r, []string{"add a initial", "add b"}, h.heard())
		close(slow.open)
	})
}

func TestL07_NoCallAfterCloseAndWait(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		g := newGate()
		reg := i.AddHandler(g)
		r.put(pod("a"))
		<-g.calls
		r.put(pod("b"))
		closed := make(chan error, 1)
		go func() { closed <- reg.CloseAndWait(r.ctx) }()
		synctest.Wait()
		require.Empty(r, closed, "the call in progress is waited for")
		close(g.open)
		require.NoError(r, <-closed)
		r.put(pod("c"))
		synctest.Wait()
		require.Empty(r, g.calls)
		require.Empty(r, i.Status().Handlers)
		reg.Close()
		require.NoError(r, reg.CloseAndWait(r.ctx))
		require.ErrorIs(r, reg.WaitForSync(r.ctx), sharedinformer.ErrClosed)
	})
}

func TestL07_CloseWithoutWaitingReturnsAtOnce(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		g := newGate()
		reg := i.AddHandler(g)
		r.put(pod("a"))
		<-g.calls
		reg.Close()
		r.put(pod("b"))
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		require.ErrorIs(r, reg.CloseAndWait(ctx), context.DeadlineExceeded)
		close(g.open)
		synctest.Wait()
		require.Empty(r, g.calls)
	})
}

func TestL07_CloseFromInsideTheHandler(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		calls := 0
		var reg *sharedinformer.Registration
		reg = i.AddHandler(handler(func(event) {
			calls++
			require.NoError(r, reg.CloseAndWait(context.Background()))
		}))
		r.put(pod("a"))
		r.put(pod("b"))
		synctest.Wait()
		require.NoError(r, reg.CloseAndWait(r.ctx))
		require.Equal(r, 1, calls)
	})
}

func TestL07_CloseAfterTheInformerStoppedOrBeforeItRan(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a"))
		i := r.informer(sharedinformer.Options{})
		before, after := record(r, i), record(r, i)
		require.NoError(r, i.AddHandler(before).CloseAndWait(r.ctx))
		reg := i.AddHandler(after)
		stop := r.run(i)
		require.NoError(r, i.WaitForSync(r.ctx))
		stop()
		require.NoError(r, reg.CloseAndWait(r.ctx))
		r.put(pod("b"))
		stop = r.run(i)
		settle(time.Second)
		stop()
		require.Empty(r, before.heard())
		require.Equal(r, []string{"add a initial"}, after.heard())
	})
}

func TestL08_BlockedHandlerDoesNotDelayOthers(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for _, lag := range []sharedinformer.Lag{sharedinformer.Unbounded, sharedinformer.Coalesce} {
			i, stop := r.synced(sharedinformer.Options{})
			blocked := newGate()
			i.AddHandlerWith(blocked, sharedinformer.HandlerOptions{Lag: lag})
			i.AddHandler(handler(func(event) { panic("no use") }))
			h := record(r, i)
			i.AddHandler(h)
			began := time.Now()
			var rv string
			for n := range 500 {
				rv = r.put(pod(fmt.Sprint("p", n%10), fmt.Sprintf("n=%d", n)))
			}
			require.NoError(r, i.WaitForRV(r.ctx, rv))
			require.Equal(r, r.truth(), cached(i))
			synctest.Wait()
			require.Equal(r, r.truth(), h.holds())
			require.Zero(r, time.Since(began), "not even virtual time has passed")
			require.Len(r, blocked.calls, 1)
			close(blocked.open)
			stop()
			for n := range 10 {
				r.delete(fmt.Sprint("p", n))
			}
		}
	})
}

func TestL09_HeldObjectsAreCountedAndNamed(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		all, newest := newGate(), newGate()
		i.AddHandlerWith(all, sharedinformer.HandlerOptions{Name: "all"})
		i.AddHandlerWith(newest, sharedinformer.HandlerOptions{Lag: sharedinformer.Coalesce})
		for n := range 1000 {
			r.put(pod(fmt.Sprint("p", n%10), fmt.Sprintf("n=%d", n)))
		}
		settle(3 * time.Second)
		s := i.Status().Handlers
		require.Equal(r, "all", s[0].Name)
		require.Contains(r, s[0].Place, "laws/delivery_test.go:")
		require.Equal(r, s[1].Place, s[1].Name, "a handler without a name is called by its place")
		require.Equal(r, 1000, s[0].Pending)
		require.GreaterOrEqual(r, s[0].Behind, 3*time.Second)
		require.Equal(r, 1+10, s[1].Pending, "the call in progress, and one entry per object")
		require.EqualValues(r, 1000-1-10, s[1].Coalesced)
		close(all.open)
		close(newest.open)
		synctest.Wait()
		s = i.Status().Handlers
		require.EqualValues(r, 1000, s[0].Delivered)
		require.EqualValues(r, 11, s[1].Delivered)
		require.Zero(r, s[0].Pending+s[1].Pending)
		require.Zero(r, s[0].Behind+s[1].Behind)
		require.GreaterOrEqual(r, s[0].Slowest, 3*time.Second)
	})
}

// A coalescing handler that sleeps through series of changes must still see pairing, identity, order and
// the latest state. The recorder checks them.
func TestL09_CoalescingKeepsPairingAndTheLatestState(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i)
		i.AddHandlerWith(handler(func(e event) {
			_ = h.Handle(r.ctx, e)
			time.Sleep(37 * time.Millisecond)
		}), sharedinformer.HandlerOptions{Lag: sharedinformer.Coalesce})
		for n := range 3000 {
			time.Sleep(time.Millisecond)
			if name := fmt.Sprint("p", (n*n+n/3)%9); n%5 == 2 {
				_ = r.srv.Delete(pods, object.Key{Namespace: "shop", Name: name})
			} else {
				r.put(pod(name, fmt.Sprintf("n=%d", n)))
			}
		}
		settle(time.Minute)
		require.Equal(r, r.truth(), h.holds())
		require.Greater(r, i.Status().Handlers[0].Coalesced, uint64(1000))
	})
}

func TestL10_PanicIsReportedAndTheHandlerContinues(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		var failures []*failure.Failure
		var log strings.Builder
		i, _ := r.synced(sharedinformer.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
				failures = append(failures, f)
				return failure.Retry
			},
		})
		var heard []string
		i.AddHandlerWith(funcs{Add: func(_ context.Context, p *corev1.Pod, _ bool) error {
			if p.Name == "bad" {
				panic("cannot cope with it")
			}
			heard = append(heard, p.Name)
			return nil
		}}, sharedinformer.HandlerOptions{Name: "touchy"})
		r.put(pod("bad"))
		r.put(pod("good"))
		synctest.Wait()
		require.Equal(r, []string{"good"}, heard)
		require.Len(r, failures, 1)
		f := failures[0]
		require.Equal(r, failure.PhaseHandler, f.Phase)
		require.Regexp(r, `^pods: handler: handler "touchy" \(laws/delivery_test.go:\d+\): shop/bad: handler panicked: cannot cope with it`, f.Error())
		var p *failure.PanicError
		require.ErrorAs(r, f, &p)
		require.Contains(r, string(p.Stack), "delivery_test.go")
		require.Regexp(r, `msg="informer failure" .*key=shop/bad .*handler="handler .*touchy.* stack=".*delivery_test.go`, log.String())
		s := i.Status().Handlers[0]
		require.EqualValues(r, 1, s.Panics)
		require.Same(r, f, s.Failure)
	})
}

func TestL10_HandlerThatCallsGoexitContinuesInAnotherGoroutine(t *testing.T) {
	for _, lag := range []sharedinformer.Lag{sharedinformer.Unbounded, sharedinformer.Coalesce} {
		inBubble(t, apiservertest.Options{}, func(r *rig) {
			r.put(pod("a"))
			i, _ := r.synced(sharedinformer.Options{})
			var heard []string
			reg := i.AddHandlerWith(handler(func(e event) {
				heard = append(heard, e.Object.Name)
				if e.Object.Name != "c" {
					runtime.Goexit()
				}
			}), sharedinformer.HandlerOptions{Lag: lag})
			require.NoError(r, reg.WaitForSync(r.ctx))
			r.put(pod("b"))
			r.put(pod("c"))
			synctest.Wait()
			require.Equal(r, []string{"a", "b", "c"}, heard)
			s := reg.Status()
			require.EqualValues(r, 2, s.Errors)
			require.ErrorContains(r, s.Failure, "runtime.Goexit")
			require.EqualValues(r, 3, s.Delivered)
			require.Zero(r, s.Pending)
			require.NoError(r, reg.CloseAndWait(r.ctx))
		})
	}
}

func TestL10_AnErrorIsReportedAndMayStopTheInformer(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		broken := errors.New("disk full")
		i := r.informer(sharedinformer.Options{
			OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
				if errors.Is(f, broken) {
					return failure.Stop
				}
				return failure.Retry
			},
		})
		i.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, event) error { return broken }))
		r.put(pod("a"))
		err := i.Run(r.ctx)
		require.ErrorIs(r, err, broken)
		require.EqualValues(r, 1, i.Status().Handlers[0].Errors)
	})
}

func TestL11_ResyncIsMarkedAndOnlyForHandlersThatRequestedIt(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a"))
		i, _ := r.synced(sharedinformer.Options{})
		asked, other, late := record(r, i), record(r, i), record(r, i)
		i.AddHandlerWith(asked, sharedinformer.HandlerOptions{Resync: time.Minute})
		i.AddHandler(other)
		settle(150 * time.Second)
		i.AddHandlerWith(late, sharedinformer.HandlerOptions{Resync: 40 * time.Second, Lag: sharedinformer.Coalesce})
		settle(time.Minute)
		require.Equal(r, []string{"add a initial", "resync a", "resync a", "resync a"}, asked.heard())
		require.Equal(r, []string{"add a initial"}, other.heard())
		require.Equal(r, []string{"add a initial", "resync a"}, late.heard())

		updates := 0
		i.AddHandlerWith(funcs{Update: func(_ context.Context, old, new *corev1.Pod) error {
			require.Same(r, old, new)
			updates++
			return nil
		}}, sharedinformer.HandlerOptions{Resync: time.Minute})
		settle(61 * time.Second)
		require.Equal(r, 1, updates, "a handler without Resync hears it as an update of nothing")
	})
}

func TestL11_ResyncNeverOvertakesAChange(t *testing.T) {
	for _, lag := range []sharedinformer.Lag{sharedinformer.Unbounded, sharedinformer.Coalesce} {
		inBubble(t, apiservertest.Options{}, func(r *rig) {
			i, _ := r.synced(sharedinformer.Options{})
			h := record(r, i) // checks that no version goes back
			i.AddHandlerWith(handler(func(e event) {
				_ = h.Handle(r.ctx, e)
				time.Sleep(700 * time.Millisecond) // slower than the changes
			}), sharedinformer.HandlerOptions{Resync: time.Second, Lag: lag})
			for n := range 60 {
				time.Sleep(331 * time.Millisecond)
				if n%10 == 9 {
					r.delete(fmt.Sprint("p", n%3))
				} else {
					r.put(pod(fmt.Sprint("p", n%3), fmt.Sprintf("n=%d", n)))
				}
			}
			settle(10 * time.Minute)
			require.Contains(r, h.heard(), "resync p1")
			require.Equal(r, r.truth(), h.holds())
		})
	}
}

func TestL11_NoResyncBeforeTheHandlerIsSynced(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for n := range 10 {
			r.put(pod(fmt.Sprint("p", n)))
		}
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i)
		i.AddHandlerWith(handler(func(e event) {
			_ = h.Handle(r.ctx, e)
			time.Sleep(10 * time.Second)
		}), sharedinformer.HandlerOptions{Resync: 15 * time.Second})
		settle(104 * time.Second) // synced for 4 s; the next resync is due at 105 s
		log := h.heard()
		require.Len(r, log, 10)
		for _, line := range log {
			require.Contains(r, line, " initial")
		}
	})
}

func TestL11_ResyncsDoNotPileUpBeforeASlowHandler(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(10)
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i)
		i.AddHandlerWith(handler(func(e event) {
			_ = h.Handle(r.ctx, e)
			time.Sleep(10 * time.Second)
		}), sharedinformer.HandlerOptions{Resync: 15 * time.Second})
		settle(time.Hour)
		h.heard()
		r.put(pod("new"))
		settle(4 * time.Minute) // the resync in progress, another one before the change, and a few more
		require.Contains(r, h.heard(), "add new")
		settle(4 * time.Minute)
		require.Contains(r, h.heard(), "resync new", "resyncs go on")
	})
}

func TestFilteringHandlerTurnsCrossingIntoAddAndDelete(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i) // checks pairing
		i.AddHandler(sharedinformer.Filter(func(p *corev1.Pod) bool { return p.Labels["in"] == "yes" }, h))
		r.put(pod("a", "in=no"))
		r.put(pod("a", "in=yes"))
		r.put(pod("a", "in=yes", "more=x"))
		r.put(pod("a", "in=no"))
		r.delete("a")
		r.put(pod("b", "in=yes"))
		r.delete("b")
		require.Equal(r, []string{"add a", "update a", "delete a", "add b", "delete b"}, h.heard())
	})
}

// If changes are merged, a deletion may carry a state that the handler has not seen, on the other side of
// the filter.
func TestL03_FilteredHandlerReceivesTheDeletionOfAnObjectItKnows(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i) // checks pairing
		filtered := sharedinformer.Filter(func(p *corev1.Pod) bool { return p.Labels["in"] == "yes" }, h)
		g := newGate()
		i.AddHandlerWith(handler(func(e event) {
			_ = g.Handle(r.ctx, e)
			_ = filtered.Handle(r.ctx, e)
		}), sharedinformer.HandlerOptions{Lag: sharedinformer.Coalesce})
		r.put(pod("blocked"))
		<-g.calls
		g.open <- struct{}{}
		r.put(pod("leaves", "in=yes"))
		r.put(pod("enters", "in=no"))
		for range 2 {
			<-g.calls
			g.open <- struct{}{}
		}
		require.Equal(r, []string{"add leaves"}, h.heard())
		r.put(pod("blocked", "again=yes"))
		<-g.calls
		r.put(pod("leaves", "in=no"))
		r.delete("leaves")
		r.put(pod("enters", "in=yes"))
		r.delete("enters")
		synctest.Wait()
		close(g.open)
		require.Equal(r, []string{"delete leaves"}, h.heard())
	})
}
