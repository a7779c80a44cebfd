package laws

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// neverEnding returns options for streaming lists that only the server ends.
func neverEnding() sharedinformer.Options {
	return sharedinformer.Options{
		Initial: reflector.WatchList, Timing: reflector.Timing{StreamIdle: time.Hour, StreamTimeout: time.Hour},
	}
}

func paged() sharedinformer.Options {
	opts := listing()
	opts.PageSize = 2
	return opts
}

var unsyncable = map[string]struct {
	opts  sharedinformer.Options
	fault apiservertest.Fault
	phase failure.Phase
}{
	"list cut":            {listing(), apiservertest.Fault{Verb: "list", Do: []apiservertest.Action{apiservertest.Cut{AfterBytes: 500}}}, failure.PhaseList},
	"list truncated":      {listing(), apiservertest.Fault{Verb: "list", Do: []apiservertest.Action{apiservertest.Truncate{Frame: 3}}}, failure.PhaseDecode},
	"list garbled":        {listing(), apiservertest.Fault{Verb: "list", Do: []apiservertest.Action{apiservertest.Garble{Frame: 4}}}, failure.PhaseDecode},
	"list refused":        {listing(), apiservertest.Fault{Verb: "list", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}}, failure.PhaseList},
	"list silent":         {listing(), apiservertest.Fault{Verb: "list", Do: []apiservertest.Action{apiservertest.Silence{AfterFrames: 3}}}, failure.PhaseList},
	"second page refused": {paged(), apiservertest.Fault{Verb: "list", Every: 2, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}}, failure.PhaseList},
	"second page cut":     {paged(), apiservertest.Fault{Verb: "list", Every: 2, Do: []apiservertest.Action{apiservertest.Truncate{Frame: 1}}}, failure.PhaseDecode},
	"stream cut":          {neverEnding(), apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{apiservertest.Cut{AfterBytes: 500}}}, failure.PhaseWatch},
	"stream truncated":    {neverEnding(), apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{apiservertest.Truncate{Frame: 3}}}, failure.PhaseDecode},
	"stream garbled":      {neverEnding(), apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{apiservertest.Garble{Frame: 4}}}, failure.PhaseDecode},
	"stream that fails before its end": {neverEnding(), apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{
		apiservertest.ErrorEvent{AfterFrames: 5, Status: metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError}}}}, failure.PhaseWatch},
}

func TestL18_OnlyACompleteInitialListSyncs(t *testing.T) {
	for name, tc := range unsyncable {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(5)
				tc.fault.Resource = "pods"
				r.srv.Faults().Add(tc.fault)
				reported := &failures{}
				tc.opts.OnError = reported.handle
				tc.opts.SyncPatience = -1
				i := r.informer(tc.opts)
				h := record(r, i)
				registration := i.AddHandler(h)
				defer r.run(i)()

				ctx, cancel := context.WithTimeout(r.ctx, time.Hour)
				defer cancel()
				err := i.WaitForSync(ctx)
				require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
				require.ErrorIs(r, err, context.DeadlineExceeded)
				require.ErrorContains(r, err, "pods: "+string(tc.phase)+": ")
				require.False(r, i.HasSynced())
				require.False(r, registration.HasSynced())
				require.Zero(r, i.Cache().Len())
				require.Empty(r, i.Cache().RV())
				require.Empty(r, h.heard())
				require.Equal(r, []failure.Phase{tc.phase}, distinct(phases(reported.heard())))

				r.srv.Faults().Clear()
				require.NoError(r, i.WaitForSync(r.ctx))
				r.inStep(i)
				require.Len(r, h.heard(), 5)
			})
		})
	}
}

func TestL18_ACancelledListDoesNotSync(t *testing.T) {
	for name, tc := range map[string]struct {
		opts sharedinformer.Options
		verb string
	}{"list": {listing(), "list"}, "stream": {streaming(), "watch"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(5)
				r.once(tc.verb, apiservertest.Silence{AfterFrames: 3})
				i := r.informer(tc.opts)
				h := record(r, i)
				registration := i.AddHandler(h)
				stop := r.run(i)
				settle(time.Second)
				require.Equal(r, 1, r.srv.Stats().Open(tc.verb, "pods"), "half-way through")
				stop()
				require.False(r, i.HasSynced())
				require.False(r, registration.HasSynced())
				require.Zero(r, i.Cache().Len())
				require.Empty(r, i.Cache().RV())
				err := i.WaitForSync(r.ctx)
				require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
				require.ErrorIs(r, err, sharedinformer.ErrStopped)

				r.run(i)
				synctest.Wait()
				require.NoError(r, i.WaitForSync(r.ctx))
				r.inStep(i)
				require.Len(r, h.heard(), 5)
			})
		})
	}
}

// A handler is synced when its last initial Add has returned, not when the informer is synced.
func TestL18_AHandlerIsSyncedWhenItsLastInitialAddHasReturned(t *testing.T) {
	for name, lag := range map[string]sharedinformer.Lag{"unbounded": sharedinformer.Unbounded, "coalesce": sharedinformer.Coalesce} {
		for when, late := range map[string]bool{"early": false, "late": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				inBubble(t, apiservertest.Options{}, func(r *rig) {
					r.fill(3)
					i := r.informer(streaming())
					if late {
						defer r.run(i)()
						require.NoError(r, i.WaitForSync(r.ctx))
					}
					adds, release := 0, make(chan struct{})
					registration := i.AddHandlerWith(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: func(_ context.Context, _ *corev1.Pod, initial bool) error {
						assert.True(r, initial)
						if adds++; adds == 3 {
							<-release
						}
						return nil
					}}, sharedinformer.HandlerOptions{Name: "slow", Lag: lag})
					if !late {
						defer r.run(i)()
					}
					settle(30 * time.Second)
					require.Equal(r, 3, adds)
					require.True(r, i.HasSynced())
					require.False(r, registration.HasSynced(), "the last Add has not returned")
					ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
					defer cancel()
					require.ErrorContains(r, i.WaitForSync(ctx), `handler "slow" (`)
					require.Error(r, registration.WaitForSync(ctx))

					close(release)
					require.NoError(r, registration.WaitForSync(r.ctx))
					require.NoError(r, i.WaitForSync(r.ctx))
					require.True(r, registration.HasSynced())
				})
			})
		}
	}
}

func TestL18_AnEmptySetSyncs(t *testing.T) {
	for name, opts := range map[string]sharedinformer.Options{"list": listing(), "stream": streaming()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				i := r.informer(opts)
				early := i.AddHandler(record(r, i))
				require.False(r, early.HasSynced())
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				late := i.AddHandler(record(r, i))
				require.NoError(r, late.WaitForSync(r.ctx))
				require.True(r, early.HasSynced())
				require.Equal(r, r.srv.RV(), i.Cache().RV())
			})
		})
	}
}

// streamed is a source with a scripted streaming list.
type streamed struct {
	script
	frames []wire.Event[object.Head]
}

func (s *streamed) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if opts.SendInitialEvents != nil {
		s.script.frames.Store(&s.frames)
	}
	return s.script.Watch(ctx, opts)
}

// Changes before the end of a streaming list are part of the list.
func TestL18_ChangesWithinAStreamingListCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := func(kind watch.EventType, name, uid, rv string) wire.Event[object.Head] {
			p := pod(name)
			p.UID, p.ResourceVersion = types.UID(uid), rv
			return wire.Event[object.Head]{Type: kind, Object: p}
		}
		end := event(watch.Bookmark, "", "", "20")
		end.Object.(*corev1.Pod).Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		source := &streamed{frames: []wire.Event[object.Head]{
			event(watch.Added, "a", "1", "1"), event(watch.Added, "b", "2", "2"), event(watch.Added, "c", "3", "3"),
			event(watch.Deleted, "a", "1", "11"), event(watch.Modified, "b", "2", "12"), event(watch.Added, "d", "4", "13"),
			event(watch.Deleted, "c", "3", "14"), event(watch.Added, "c", "5", "15"),
			event(watch.Bookmark, "", "", "15"), event(watch.Modified, "b", "2", "16"), event(watch.Deleted, "d", "4", "17"), end,
		}}
		i := sharedinformer.New[*corev1.Pod](source, streaming())
		h := record(t, i)
		i.AddHandler(h)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		require.NoError(t, i.WaitForSync(ctx))
		require.Equal(t, "20", i.Cache().RV())
		require.Equal(t, map[string]string{"shop/b": "2@16", "shop/c": "5@15"}, cached(i))
		require.Equal(t, []string{"add c initial", "add b initial"}, h.heard())
		cancel()
		require.NoError(t, <-ended)
	})
}

// OnSync is called once, when the last initial Add has returned, and also for a handler without initial
// Adds.
func TestL18_OnSyncIsCalledAfterTheLastInitialAdd(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i := r.informer(sharedinformer.Options{})
		var log []string
		join := func() *sharedinformer.Registration {
			return i.AddHandlerWith(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: func(_ context.Context, p *corev1.Pod, _ bool) error {
				log = append(log, p.Name)
				return nil
			}}, sharedinformer.HandlerOptions{OnSync: func() { log = append(log, "synced") }})
		}
		first := join()
		r.put(pod("a"))
		stop := r.run(i)
		require.NoError(r, i.WaitForSync(r.ctx))
		synctest.Wait()
		require.Equal(r, []string{"a", "synced"}, log)
		first.Close()
		log = nil
		join()
		synctest.Wait()
		require.Equal(r, []string{"a", "synced"}, log, "also of one that joins late")
		r.delete("a")
		stop()
		log = nil
		r.run(i)
		synctest.Wait()
		require.Empty(r, log, "and not again when the informer is run again")
	})
}

func TestL14_WaitUntil(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i := r.informer(sharedinformer.Options{})
		gone := func() bool { return i.HasSynced() && i.Cache().Len() == 0 }
		r.put(pod("a"))
		stop := r.run(i)
		ended := make(chan error, 1)
		go func() { ended <- i.WaitUntil(r.ctx, gone) }()
		synctest.Wait()
		require.Empty(r, ended)
		r.delete("a")
		synctest.Wait()
		require.NoError(r, <-ended, "a deletion ends it, though no object tells its version")

		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		never := func() bool { return false }
		require.ErrorIs(r, i.WaitUntil(ctx, never), context.DeadlineExceeded)
		go func() { ended <- i.WaitUntil(r.ctx, never) }()
		synctest.Wait()
		stop()
		require.ErrorIs(r, <-ended, sharedinformer.ErrStopped)
	})
}
