package laws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// An informer stops at once in every phase of its work. The bubble proves that no goroutine remains.
func TestL23_ACancelEndsEveryWaitAtOnce(t *testing.T) {
	down := func(r *rig) { r.srv.Down() }
	faulty := func(verb string, do apiservertest.Action) func(r *rig) {
		return func(r *rig) { r.srv.Faults().Add(apiservertest.Fault{Verb: verb, Do: []apiservertest.Action{do}}) }
	}
	undiscovered := func(r *rig) {
		r.once("list", apiservertest.Fail{Code: 404}) // the built-in location is no longer trusted
		faulty("get", apiservertest.Silence{})(r)
	}
	for name, tc := range map[string]struct {
		opts  sharedinformer.Options
		first func(r *rig)
		after time.Duration
		state reflector.State
	}{
		"discovery":             {listing(), undiscovered, 4 * time.Second, reflector.Listing},
		"a list's first byte":   {listing(), faulty("list", apiservertest.Silence{}), time.Second, reflector.Listing},
		"a list":                {listing(), faulty("list", apiservertest.Silence{AfterFrames: 2}), time.Second, reflector.Listing},
		"a stream's first byte": {streaming(), faulty("watch", apiservertest.Silence{}), time.Second, reflector.InitialWatch},
		"a streaming list":      {streaming(), faulty("watch", apiservertest.Silence{AfterFrames: 2}), time.Second, reflector.InitialWatch},
		"a watch's opening":     {listing(), faulty("watch", apiservertest.Silence{}), 30 * time.Second, reflector.Connecting},
		"a watch":               {streaming(), func(*rig) {}, time.Minute, reflector.Watching},
		"a back-off":            {listing(), down, time.Hour, reflector.BackingOff},
		"a long Retry-After":    {listing(), faulty("list", apiservertest.Fail{Code: 429, RetryAfter: "86400"}), time.Hour, reflector.BackingOff},
		"before the first step": {listing(), func(*rig) {}, 0, reflector.Idle},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(3)
				tc.first(r)
				tc.opts.DetectMutations = time.Second
				i := r.informer(tc.opts)
				i.AddHandlerWith(record(r, i), sharedinformer.HandlerOptions{Resync: time.Minute})
				i.AddHandlerWith(record(r, i), sharedinformer.HandlerOptions{Lag: sharedinformer.Coalesce})
				ctx, cancel := context.WithCancel(r.ctx)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- i.Run(ctx) }()
				if tc.after > 0 {
					settle(tc.after)
					if i.Status().Reflector.State != tc.state && tc.state == reflector.BackingOff {
						settle(3 * time.Second) // it was in an attempt
					}
					require.Equal(r, tc.state, i.Status().Reflector.State)
				}
				began := time.Now()
				cancel()
				require.NoError(r, <-ended)
				require.Zero(r, time.Since(began))
				require.Equal(r, reflector.Stopped, i.Status().Reflector.State)
				synctest.Wait()
				require.Zero(r, r.srv.Stats().Open("", "pods"))
			})
		})
	}
}

// A blocked handler is released by its context, and Run waits until it has returned.
func TestL23_ABlockedHandlerIsReleasedByItsContext(t *testing.T) {
	for name, lag := range map[string]sharedinformer.Lag{"unbounded": sharedinformer.Unbounded, "coalesce": sharedinformer.Coalesce} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(3)
				i := r.informer(streaming())
				calls, returned := 0, false
				i.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(ctx context.Context, _ sharedinformer.Event[*corev1.Pod]) error {
					calls++
					<-ctx.Done()
					time.Sleep(time.Second) // cleans up
					returned = true
					return context.Cause(ctx)
				}), sharedinformer.HandlerOptions{Lag: lag})
				stop := r.run(i)
				settle(time.Hour)
				require.Equal(r, 1, calls)
				began := time.Now()
				stop()
				require.Equal(r, time.Second, time.Since(began))
				require.True(r, returned)
				require.Equal(r, 1, calls)
			})
		})
	}
}

func TestL23_StopEndsEveryWait(t *testing.T) {
	inBubble(t, apiservertest.Options{Authorize: apiservertest.Deny("", "pods")}, func(r *rig) {
		i := r.informer(sharedinformer.Options{SyncPatience: -1})
		registration := i.AddHandler(record(r, i))
		stop := r.run(i)
		waits := []func() error{
			func() error { return i.WaitForSync(r.ctx) },
			func() error { return i.WaitForRV(r.ctx, "100") },
			func() error { return registration.WaitForSync(r.ctx) },
		}
		errs := make(chan error, len(waits))
		for _, wait := range waits {
			go func() { errs <- wait() }()
		}
		settle(time.Minute)
		began := time.Now()
		stop()
		for range waits {
			require.ErrorIs(r, <-errs, sharedinformer.ErrStopped)
		}
		require.Zero(r, time.Since(began))
	})
}

// A run has not ended until its handlers have returned, and no other run starts before that.
func TestL23_ARunThatIsEndingIsARun(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(3)
		i := r.informer(streaming())
		release := make(chan struct{})
		var inside, most atomic.Int32
		stubborn := sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error {
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			<-release
			return nil
		})
		i.AddHandler(stubborn)
		ctx, cancel := context.WithCancel(r.ctx)
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		settle(time.Second)
		cancel()
		synctest.Wait()
		require.ErrorIs(r, i.Run(r.ctx), reflector.ErrRunning)
		late := i.AddHandler(record(r, i))
		close(release)
		require.NoError(r, <-ended)
		require.False(r, late.HasSynced(), "it joined a run that was ending")

		defer r.run(i)()
		synctest.Wait()
		require.NoError(r, late.WaitForSync(r.ctx))
		synctest.Wait()
		require.EqualValues(r, 1, most.Load())
	})
}

// A stop requested by an error handler ends everything, whichever goroutine calls the handler, and Run
// returns the failure.
func TestL23_AStopByTheErrorHandlerLeavesNothing(t *testing.T) {
	failing := errors.New("failing")
	for name, tc := range map[string]struct {
		phase   failure.Phase
		arrange func(r *rig, i *sharedinformer.Informer[*corev1.Pod])
	}{
		"list": {failure.PhaseList, func(r *rig, _ *sharedinformer.Informer[*corev1.Pod]) { r.fault("list", apiservertest.Fail{Code: 500}) }},
		"handler": {failure.PhaseHandler, func(r *rig, i *sharedinformer.Informer[*corev1.Pod]) {
			i.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error { return failing }))
		}},
		"panic": {failure.PhaseHandler, func(r *rig, i *sharedinformer.Informer[*corev1.Pod]) {
			i.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error { panic(failing) }))
		}},
		"index": {failure.PhaseIndex, func(r *rig, i *sharedinformer.Informer[*corev1.Pod]) {
			sharedinformer.AddIndex(i, "odd", func(*corev1.Pod) []int { panic(failing) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(1)
				opts := listing()
				opts.OnError = func(context.Context, *failure.Failure) failure.Verdict { return failure.Stop }
				i := r.informer(opts)
				tc.arrange(r, i)
				err := i.Run(r.ctx)
				failure, ok := errors.AsType[*failure.Failure](err)
				require.True(r, ok, "%v", err)
				require.Equal(r, tc.phase, failure.Phase)
				require.Equal(r, reflector.Stopped, i.Status().Reflector.State)
			})
		})
	}
}

// A stopped informer resumes without a list, with one watch from its version, and handlers see only the
// changes.
func TestL24_ARestartResumes(t *testing.T) {
	whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
		r.fill(3)
		i := r.spied(opts)
		i.stop()
		last := i.Cache().RV()
		require.Equal(r, 3, i.Cache().Len(), "it keeps its cache")
		require.NoError(r, i.WaitForSync(r.ctx), "and is still synced")
		r.put(pod("pa", "n=1"))
		r.delete("pb")
		r.put(pod("pb"))
		r.delete("pc")
		settle(time.Hour)
		require.Empty(r, i.handler.heard())
		require.Equal(r, 3, i.Cache().Len())

		defer r.run(i)()
		settle(time.Second)
		log := i.source.heard()
		require.Equal(r, []string{"watch"}, verbs(log))
		require.Equal(r, last, log[0].opts.ResourceVersion)
		require.Equal(r, []string{"update pa", "delete pb", "add pb", "delete pc"}, i.handler.heard())
		require.Empty(r, i.reported.heard())
		r.inStep(i.Informer)
	})
}

// If the history is gone, a list finds the changes, and handlers still see only the changes.
func TestL24_RestartAfterTheHistoryExpiredReportsTheDifference(t *testing.T) {
	whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
		r.fill(4)
		i := r.spied(opts)
		i.stop()
		r.put(pod("pa", "n=1"))
		r.delete("pb")
		r.delete("pc")
		r.put(pod("pc"))
		r.put(pod("pe"))
		r.srv.Compact()
		defer r.run(i)()
		settle(time.Minute)
		log := i.handler.heard()
		require.ElementsMatch(r, []string{"delete pb unknown", "delete pc unknown"}, log[:2])
		require.Equal(r, []string{"update pa", "add pc", "add pe"}, log[2:])
		require.EqualValues(r, 1, i.Status().Reflector.Relists)
		r.inStep(i.Informer)
	})
}

// Handlers that were behind when the informer stopped get the remaining events. Handlers that joined while
// it was stopped get every object once.
func TestL24_HandlersContinueAfterARestart(t *testing.T) {
	for name, lag := range map[string]sharedinformer.Lag{"unbounded": sharedinformer.Unbounded, "coalesce": sharedinformer.Coalesce} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(4)
				i := r.informer(streaming())
				slow := record(r, i)
				first := true
				i.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(ctx context.Context, e sharedinformer.Event[*corev1.Pod]) error {
					defer func() { first = false }()
					if first {
						<-ctx.Done()
					}
					return slow.Handle(ctx, e)
				}), sharedinformer.HandlerOptions{Lag: lag})
				stop := r.run(i)
				settle(time.Minute)
				r.put(pod("pd", "n=1"))
				synctest.Wait()
				stop()
				require.Equal(r, []string{"add pa initial"}, slow.heard())
				late := record(r, i)
				registration := i.AddHandler(late)
				settle(time.Minute)
				require.Empty(r, late.heard())

				r.put(pod("pa", "n=2"))
				defer r.run(i)()
				synctest.Wait()
				require.NoError(r, registration.WaitForSync(r.ctx))
				require.NoError(r, i.WaitForSync(r.ctx))
				heard := slow.heard()
				want := []string{"add pb initial", "add pc initial", "add pd initial"}
				if lag == sharedinformer.Unbounded {
					want = append(want, "update pd")
				}
				require.Equal(r, append(want, "update pa"), heard)
				require.Equal(r, r.truth(), slow.holds())
				require.ElementsMatch(r, []string{"add pa initial", "add pb initial", "add pc initial", "add pd initial", "update pa"}, late.heard())
				require.Equal(r, r.truth(), late.holds())
			})
		})
	}
}

// Stops at any moments, however many, lose or repeat no event.
func TestL24_ManyRestartsAtRandomMoments(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			inBubble(t, apiservertest.Options{Seed: seed}, func(r *rig) {
				random := rand.New(rand.NewPCG(seed, 24))
				r.fill(4)
				i := r.informer([]sharedinformer.Options{listing(), streaming(), paged()}[seed%3])
				h := record(r, i) // checks each call
				i.AddHandler(h)
				for range 60 {
					ctx, cancel := context.WithTimeout(r.ctx, time.Duration(random.IntN(5000))*time.Millisecond)
					ended := make(chan error, 1)
					go func() { ended <- i.Run(ctx) }()
					for range random.IntN(10) {
						time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
						change(r, random)
						switch random.IntN(12) {
						case 0:
							r.srv.Compact()
						case 1:
							r.srv.Restart()
						case 2:
							cancel()
						}
					}
					require.NoError(r, <-ended)
					cancel()
					change(r, random)
				}
				stop := r.run(i)
				settle(2 * time.Minute)
				r.inStep(i)
				require.Equal(r, r.truth(), h.holds(), "seed %d", seed)
				stop()
			})
		})
	}
}

// The time for which the last run had been failing does not count.
func TestL24_ARestartIsGivenTimeToSync(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(2)
		i := newInformer[*corev1.Pod](r.source().Source(), listing())
		r.srv.Down()
		stop := r.run(i)
		require.ErrorIs(r, i.WaitForSync(r.ctx), sharedinformer.ErrNotSynced)
		stop()
		settle(time.Hour)
		ctx, cancel := context.WithCancel(r.ctx)
		wait, err := i.Start(ctx)
		require.NoError(r, err)
		time.AfterFunc(10*time.Second, r.srv.Up)
		require.NoError(r, i.WaitForSync(r.ctx))
		r.inStep(i)
		cancel()
		require.NoError(r, wait())
	})
}

// Everything read from the server is in the cache when Run returns, because the next run resumes after it.
func TestL24_QueuedChangesAreAppliedBeforeTheStop(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(2)
		i, stop := r.synced(streaming())
		var slow atomic.Bool
		sharedinformer.AddIndex(i, "slow", func(*corev1.Pod) []string {
			if slow.Swap(false) {
				time.Sleep(time.Minute)
			}
			return nil
		})
		h := record(r, i)
		i.AddHandler(h)
		h.heard()
		slow.Store(true)
		r.put(pod("pa", "n=1"))
		settle(time.Second)
		r.put(pod("pb", "n=1")) // stays in the queue
		r.put(pod("pc"))
		synctest.Wait()
		stop()
		require.Equal(r, i.Status().Reflector.RV, i.Status().RV)
		r.inStep(i)
		r.run(i)
		settle(time.Minute)
		require.Equal(r, []string{"update pa", "update pb", "add pc"}, h.heard())
	})
}
