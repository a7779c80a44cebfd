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
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// unruly lists the ways a hook may misbehave.
var unruly = map[string]func(){"panic": func() { panic("oh") }, "exit": runtime.Goexit}

// A hook that panics or ends its goroutine is reported, and does not affect the handlers, the informer
// or the process.
func TestL08_MisbehavingHookDoesNoHarm(t *testing.T) {
	for name, misbehave := range unruly {
		for _, hook := range []string{"OnSync", "OnError", "OnState"} {
			t.Run(hook+" "+name, func(t *testing.T) {
				inBubble(t, apiservertest.Options{}, func(r *rig) {
					r.put(pod("a"))
					var log strings.Builder
					reported := &failures{}
					opts := sharedinformer.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), OnError: reported.handle}
					var of sharedinformer.HandlerOptions
					switch hook {
					case "OnSync":
						of = sharedinformer.HandlerOptions{Name: "unlucky", OnSync: misbehave}
					case "OnError":
						opts.OnError = func(context.Context, *failure.Failure) failure.Verdict { misbehave(); return failure.Stop }
					case "OnState":
						opts.OnState = func(reflector.Status) { misbehave() }
					}
					i := r.informer(opts)
					calls := 0
					registration := i.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, event) error {
						if calls++; calls == 1 {
							return errors.New("once")
						}
						return nil
					}), of)
					stop := r.run(i)
					require.NoError(r, i.WaitForSync(r.ctx))
					r.put(pod("b"))
					synctest.Wait()
					require.Equal(r, 2, calls, "the handler hears of b")
					stop()
					require.Contains(r, log.String(), hook)
					if hook == "OnSync" {
						all := reported.heard()
						require.Len(r, all, 2, "with that of the call")
						require.Equal(r, failure.PhaseHook, all[1].Phase)
						require.Equal(r, registration.String(), all[1].Handler)
					}
				})
			})
		}
	}
}

// An error that wraps a panic is reported as an error.
func TestL10_AnErrorThatWrapsAPanicIsAnError(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a"))
		i, _ := r.synced(sharedinformer.Options{})
		theirs := fmt.Errorf("a worker: %w", &failure.PanicError{In: "worker", Value: "oh"})
		registration := i.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, event) error { return theirs }),
			sharedinformer.HandlerOptions{CrashOnPanic: true})
		synctest.Wait()
		s := registration.Status()
		require.Zero(r, s.Panics)
		require.EqualValues(r, 1, s.Errors)
	})
}

// The log names a handler that blocks once, with its event and the number of events waiting. The call
// counts as slow, and no wait lasts forever.
func TestL22_AHandlerThatBlocksIsNamed(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(3)
		var log strings.Builder
		i := r.informer(sharedinformer.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		release := make(chan struct{})
		blocked := i.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, event) error { <-release; return nil }),
			sharedinformer.HandlerOptions{Name: "stuck"})
		defer r.run(i)()
		defer close(release)
		began := time.Now()
		for _, wait := range []func(context.Context) error{i.WaitForSync, blocked.WaitForSync} {
			err := wait(r.ctx)
			require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
			require.ErrorContains(r, err, `handler "stuck" (laws/hooks_test.go:`)
			require.ErrorContains(r, err, "has 3 events pending before it is synced; the call for shop/p")
			require.Equal(r, time.Minute, time.Since(began).Round(time.Second))
		}
		require.GreaterOrEqual(r, blocked.Status().Slowest, time.Minute)
		settle(time.Hour)
		require.Equal(r, 1, strings.Count(log.String(), "a handler is blocking"), log.String())
		require.NotContains(r, log.String(), "the cache is blocked")
		require.Regexp(r, `a handler is blocking.*handler="handler \\"stuck\\" \(laws/hooks_test.go:\d+\)" key=shop/p\w+ for=\ds pending=3 behind=\ds`, log.String())
	})
}

// An index function that blocks also blocks the cache and everything after it.
func TestL22_AnIndexFunctionThatBlocksIsNamedOnce(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(1)
		var log strings.Builder
		i := r.informer(sharedinformer.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), SyncPatience: -1})
		blocked := make(chan struct{})
		release := sync.OnceFunc(func() { close(blocked) })
		sharedinformer.AddIndex(i, "stuck", func(*corev1.Pod) []string { <-blocked; return nil })
		defer r.run(i)()
		defer release()
		settle(time.Hour)
		require.Equal(r, 1, strings.Count(log.String(), `msg="the cache is blocked: an index function must return quickly, or the process lacks CPU time" resource=pods for=5s queued=`), log.String())
		blocks := `the cache has been waiting \S+s for the function of index \\*"stuck\\*", called on shop/p`
		require.Regexp(r, `by="`+blocks, log.String())
		require.Regexp(r, "^"+blocks, i.Status().Blocked)
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		for _, wait := range []func() error{
			func() error { return i.WaitForSync(ctx) },
			func() error { return i.WaitForRV(ctx, "1") },
			func() error { return i.WaitUntil(ctx, func() bool { return false }) },
		} {
			err := wait()
			require.ErrorIs(r, err, context.DeadlineExceeded)
			require.Regexp(r, blocks, err.Error())
		}
		release()
		require.NoError(r, i.WaitForSync(r.ctx))
		require.Empty(r, i.Status().Blocked)
	})
}
