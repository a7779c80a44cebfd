package laws

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
)

// The error of WaitForSync says what keeps the informer from syncing.
func TestL22_WaitForSyncSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		server  apiservertest.Options
		arrange func(r *rig)
		kind    object.GVK
		want    string // a regular expression
	}{
		"forbidden": {
			server: apiservertest.Options{Authorize: apiservertest.Deny("", "pods")}, kind: podKind,
			want: `^not synced: pods: list: forbidden: pods is forbidden: User "admin" cannot list resource "pods" in API group "" at the cluster scope \(\d+ attempts, last \d+s ago\); (BackingOff|Listing) for \d+s$`,
		},
		"watch forbidden": {
			server: apiservertest.Options{Authorize: apiservertest.Deny("", "pods", "list")}, kind: podKind,
			arrange: func(r *rig) {
				r.srv.Faults().Add(apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{apiservertest.Fail{Code: 403}}})
			},
			want: `^not synced: pods: list: forbidden: .* \(\d+ attempts, last \d+s ago\); `,
		},
		"unauthorized": {
			server: apiservertest.Options{}, kind: podKind,
			arrange: func(r *rig) { r.fault("", apiservertest.Fail{Code: 401}) },
			want:    `^not synced: pods: .*: unauthorized: .* \(\d+ attempts, last \d+s ago\); `,
		},
		"unknown kind": {
			kind: object.GVK{Group: "shop.example.com", Version: "v1", Kind: "Order"},
			want: `^not synced: Order\.shop\.example\.com: resolve: .*the server does not serve .*Order.* \(\d+ attempts, last \d+s ago\); `,
		},
		"not found": {
			kind:    podKind,
			arrange: func(r *rig) { r.fault("", apiservertest.Fail{Code: 404}) },
			want:    `^not synced: pods: list: notfound: .* \(\d+ attempts, last \d+s ago\); `,
		},
		"unreachable": {
			kind: podKind, arrange: func(r *rig) { r.srv.Down() },
			want: `^not synced: pods: list: .*connection refused.* \(\d+ attempts, last \d+s ago\); `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tc.server, func(r *rig) {
				if tc.arrange != nil {
					tc.arrange(r)
				}
				i := newInformer[*unstructured.Unstructured](rest.ResourceForKind[*unstructured.Unstructured](r.client, tc.kind).Source(), sharedinformer.Options{})
				defer r.run(i)()

				// WaitForSync waits until the deadline of the context, but not longer than SyncPatience if
				// there are only failures.
				ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
				defer cancel()
				began := time.Now()
				err := i.WaitForSync(ctx)
				require.ErrorIs(r, err, context.DeadlineExceeded)
				require.Equal(r, 20*time.Second, time.Since(began))
				require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
				err = i.WaitForSync(r.ctx)
				r.within(time.Minute, time.Minute+time.Second, time.Since(began).Round(time.Second)) // discovery may take a second before the first failure
				require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
				require.Regexp(r, tc.want, err.Error())
				failure, ok := errors.AsType[*failure.Failure](err)
				require.True(r, ok)
				require.Equal(r, i.Status().Reflector.Failure, failure)
				require.Equal(r, failure.Attempts, i.Status().Reflector.Attempts)
				r.within(55*time.Second, time.Minute, failure.Last.Sub(failure.Since)+time.Since(failure.Last))
			})
		})
	}
}

func TestL22_SyncPatienceStartsAtTheFirstFailure(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fault("list", apiservertest.Delay{For: 40 * time.Second}, apiservertest.Fail{Code: 500})
		opts := listing()
		opts.SyncPatience = 2 * time.Minute
		i := r.informer(opts)
		defer r.run(i)()
		began := time.Now()
		require.ErrorIs(r, i.WaitForSync(r.ctx), sharedinformer.ErrNotSynced)
		require.Equal(r, 40*time.Second+2*time.Minute, time.Since(began))
		r.srv.Faults().Clear()
		settle(5 * time.Minute)
		require.True(r, i.HasSynced(), "it has gone on trying")
		require.NoError(r, i.WaitForSync(r.ctx))
	})
}

// A failure of any kind is in the status as soon as it occurs, and the error handler receives the same
// value.
func TestL22_EveryPhaseShowsAtOnce(t *testing.T) {
	broken := errors.New("broken")
	type informer = *sharedinformer.Informer[*corev1.Pod]
	handled := func(s sharedinformer.Status) *failure.Failure { return s.Handlers[0].Failure }
	own := func(s sharedinformer.Status) *failure.Failure { return s.Failure }
	reflected := func(s sharedinformer.Status) *failure.Failure { return s.Reflector.Failure }
	for name, tc := range map[string]struct {
		opts      func(*sharedinformer.Options)
		transform func(*corev1.Pod) (*corev1.Pod, error)
		before    func(r *rig, i informer)
		after     func(r *rig, i informer) // called after the sync
		phase     failure.Phase
		key       string
		at        func(sharedinformer.Status) *failure.Failure
	}{
		"list":       {before: func(r *rig, _ informer) { r.once("list", apiservertest.Fail{Code: 500}) }, phase: failure.PhaseList, at: reflected},
		"watch open": {before: func(r *rig, _ informer) { r.once("watch", apiservertest.Fail{Code: 500}) }, phase: failure.PhaseWatchOpen, at: reflected},
		"watch":      {after: func(r *rig, _ informer) { r.srv.Restart() }, phase: failure.PhaseWatch, at: reflected},
		"decode":     {before: func(r *rig, _ informer) { r.once("list", apiservertest.Garble{}) }, phase: failure.PhaseDecode, key: "a", at: reflected},
		"transform": {transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Labels["bad"] != "" {
				return nil, broken
			}
			return p, nil
		}, after: func(r *rig, _ informer) { r.put(pod("a", "bad=1")) }, phase: failure.PhaseTransform, key: "a", at: reflected},
		"index": {before: func(_ *rig, i informer) {
			sharedinformer.AddIndex(i, "odd", func(*corev1.Pod) []int { panic(broken) })
		}, phase: failure.PhaseIndex, key: "a", at: own},
		"late index": {after: func(_ *rig, i informer) {
			sharedinformer.AddIndex(i, "odd", func(*corev1.Pod) []int { panic(broken) })
		}, phase: failure.PhaseIndex, key: "a", at: own},
		"handler": {before: func(_ *rig, i informer) {
			i.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error { return broken }))
		}, phase: failure.PhaseHandler, key: "a", at: handled},
		"cache": {opts: func(o *sharedinformer.Options) { o.DetectMutations = time.Hour }, after: func(r *rig, i informer) {
			for p := range i.Cache().All() {
				p.Spec.NodeName = "mine"
			}
			r.put(pod("a", "n=2"))
		}, phase: failure.PhaseCache, key: "a", at: own},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.put(pod("a"))
				opts := listing()
				if tc.opts != nil {
					tc.opts(&opts)
				}
				var i informer
				var seen []*failure.Failure
				opts.OnError = func(_ context.Context, f *failure.Failure) failure.Verdict {
					seen = append(seen, f)
					assert.Same(r, f, tc.at(i.Status()), "the status is never behind the error handler")
					return failure.Retry
				}
				var source source.ListerWatcher = rest.ResourceFor[*corev1.Pod](r.client).Source()
				if tc.transform != nil {
					source = reflector.Transformed(source, tc.transform)
				}
				i = newInformer[*corev1.Pod](source, opts)
				if tc.before != nil {
					tc.before(r, i)
				}
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				synctest.Wait()
				began := time.Now()
				if tc.after != nil {
					tc.after(r, i)
					synctest.Wait()
					began = time.Now()
				}
				require.NotEmpty(r, seen)
				f := seen[0]
				require.Equal(r, tc.phase, f.Phase)
				require.Equal(r, tc.key, f.Key.Name)
				require.Equal(r, 1, f.Attempts)
				require.Equal(r, f.Since, f.Last)
				require.False(r, f.Last.After(began))
				require.Contains(r, []string{"pods", "Pod"}, f.Resource)
				require.ErrorContains(r, f, string(tc.phase)+": ")
				if tc.phase == failure.PhaseHandler || tc.phase == failure.PhaseTransform {
					require.ErrorIs(r, f, broken)
				}
			})
		})
	}
}

func TestL22_AKindThatIsNotServedShowsAtOnce(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		var i *sharedinformer.Informer[*unstructured.Unstructured]
		var seen []*failure.Failure
		opts := listing()
		opts.OnError = func(_ context.Context, f *failure.Failure) failure.Verdict {
			seen = append(seen, f)
			assert.Same(r, f, i.Status().Reflector.Failure, "the status is never behind the error handler")
			return failure.Retry
		}
		order := object.GVK{Group: "shop.example.com", Version: "v1", Kind: "Order"}
		i = newInformer[*unstructured.Unstructured](rest.ResourceForKind[*unstructured.Unstructured](r.client, order).Source(), opts)
		defer r.run(i)()
		settle(time.Second)
		require.NotEmpty(r, seen)
		require.Equal(r, failure.PhaseResolve, seen[0].Phase)
		require.Equal(r, 1, seen[0].Attempts)
		require.Equal(r, "Order.shop.example.com", seen[0].Resource)
	})
}

func TestL22_BadOptionsAreReportedAsAFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		opts sharedinformer.Options
		want string
	}{
		"negative duration":            {sharedinformer.Options{Timing: reflector.Timing{WatchTimeout: -1}}, "WatchTimeout"},
		"below what the API can count": {sharedinformer.Options{Timing: reflector.Timing{WatchTimeout: time.Millisecond}}, "seconds"},
		"contradiction":                {sharedinformer.Options{Initial: reflector.WatchList, PageSize: 5}, "PageSize"},
		"unknown mode":                 {sharedinformer.Options{Initial: 9}, "Initial"},
		"a selector of nothing":        {sharedinformer.Options{LabelSelector: labels.Nothing()}, "selects nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				i := r.informer(tc.opts)
				require.Equal(r, failure.PhaseOptions, i.Status().Reflector.Failure.Phase, "before Run")
				require.ErrorContains(r, i.WaitForSync(r.ctx), tc.want)
				failed, ok := errors.AsType[*failure.Failure](i.Run(r.ctx))
				require.True(r, ok)
				require.Equal(r, failure.PhaseOptions, failed.Phase)
				require.ErrorContains(r, i.WaitForSync(r.ctx), tc.want)
				require.Zero(r, r.srv.Stats().Requests("", ""))
			})
		})
	}
}

func TestL22_AStopEndsRunWithTheFailure(t *testing.T) {
	inBubble(t, apiservertest.Options{Authorize: apiservertest.Deny("", "pods")}, func(r *rig) {
		reported := &failures{verdict: func(f *failure.Failure) failure.Verdict {
			if f.Refused() && f.Attempts == 3 {
				return failure.Stop
			}
			return failure.Retry
		}}
		opts := listing()
		opts.OnError = reported.handle
		i := r.informer(opts)
		waited := make(chan error, 1)
		go func() { waited <- i.WaitForSync(r.ctx) }()
		failure, ok := errors.AsType[*failure.Failure](i.Run(r.ctx))
		require.True(r, ok)
		require.Equal(r, 3, failure.Attempts)
		require.Len(r, reported.heard(), 3)
		err := <-waited
		require.ErrorIs(r, err, sharedinformer.ErrStopped)
		require.ErrorContains(r, err, "pods: list: forbidden: ")
		status := i.Status().Reflector
		require.Equal(r, reflector.Stopped, status.State)
		require.Same(r, failure, status.Failure)
	})
}

// The error handler may use the informer, and may panic.
func TestL22_ErrorHandlerMayCallTheInformer(t *testing.T) {
	for name, do := range map[string]func(*sharedinformer.Informer[*corev1.Pod], *sharedinformer.Registration){
		"panics": func(*sharedinformer.Informer[*corev1.Pod], *sharedinformer.Registration) { panic("oh no") },
		"uses the informer": func(i *sharedinformer.Informer[*corev1.Pod], r *sharedinformer.Registration) {
			i.Status()
			r.Close()
			i.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{}).Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(3)
				r.once("list", apiservertest.Fail{Code: 500})
				var i *sharedinformer.Informer[*corev1.Pod]
				var registration *sharedinformer.Registration
				seen := map[failure.Phase]bool{}
				opts := listing()
				opts.OnError = func(_ context.Context, f *failure.Failure) failure.Verdict {
					seen[f.Phase] = true
					do(i, registration)
					return failure.Retry
				}
				i = r.informer(opts)
				sharedinformer.AddIndex(i, "odd", func(*corev1.Pod) []int { panic("odd") })
				registration = i.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{})
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				synctest.Wait()
				i.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error {
					return errors.New("no")
				}))
				synctest.Wait()
				require.Equal(r, map[failure.Phase]bool{failure.PhaseList: true, failure.PhaseIndex: true, failure.PhaseHandler: true}, seen)
				r.inStep(i)
			})
		})
	}
}

// The log contains the stack of a panic. The text of the failure does not.
func TestL22_TheLogHasTheStackOfAPanic(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(20)
		var log strings.Builder
		opts := listing()
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		bad := func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Labels["bad"] != "" {
				panic("cannot cope with it")
			}
			return p, nil
		}
		i := newInformer[*corev1.Pod](reflector.Transformed(rest.ResourceFor[*corev1.Pod](r.client).Source(), bad), opts)
		sharedinformer.AddIndex(i, "odd", func(*corev1.Pod) []int { panic("odd") })
		stop := r.run(i)
		require.NoError(r, i.WaitForSync(r.ctx))
		synctest.Wait() // index failures are reported after the write that synced
		r.put(pod("a", "bad=1"))
		synctest.Wait()
		stop()
		require.Regexp(r, `msg="informer failure" .*phase=index .* stack=".*failures_test.go`, log.String())
		require.Equal(r, 11, strings.Count(log.String(), "phase=index"), "the first ten, and the last with the number of the others")
		require.Contains(r, log.String(), "others=9")
		index, transform, _ := strings.Cut(log.String(), "phase=transform")
		require.Equal(r, 10, strings.Count(index, " stack="), "the first few will do")
		require.Regexp(r, `stack=".*failures_test.go`, transform)
	})
}
