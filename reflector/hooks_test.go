package reflector

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/wire"
)

// misdeeds is what user code may do instead of returning.
var misdeeds = map[string]func(){
	"panics": func() { panic("oh") },
	"exits":  func() { runtime.Goexit() },
}

func TestHooksCannotEndTheReflector(t *testing.T) {
	for name, misdeed := range misdeeds {
		for hook, opts := range map[string]Options{
			"OnError": {OnError: func(context.Context, *failure.Failure) failure.Verdict { misdeed(); return failure.Stop }},
			"OnState": {OnState: func(Status) { misdeed() }},
		} {
			t.Run(hook+" "+name, func(t *testing.T) {
				s := &script{watches: []answer{
					{events: []wire.Event[partial]{endOfInitial(8)}, broken: errors.New("cut")},
					{events: []wire.Event[partial]{change(watch.Added, "a", 9)}, block: true},
				}}
				queued, _ := play(t, s, opts)
				require.Equal(t, []string{"replaced @8", "added a@9"}, queued)
			})
		}
	}
}

func TestATransformCannotEndTheReflector(t *testing.T) {
	for name, misdeed := range misdeeds {
		for state, s := range map[string]*script{
			"a streaming list": {watches: []answer{
				{events: []wire.Event[partial]{change(watch.Added, "a", 1), endOfInitial(8)}},
				{events: []wire.Event[partial]{change(watch.Added, "a", 1), endOfInitial(8)}, block: true},
			}},
			"a watch": {watches: []answer{
				{events: []wire.Event[partial]{endOfInitial(8), change(watch.Added, "a", 9)}},
				{events: []wire.Event[partial]{change(watch.Added, "a", 9)}, block: true},
			}},
		} {
			t.Run(name+" in "+state, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					calls := 0
					transformed := Transformed(s, func(o partial) (partial, error) {
						if calls++; calls == 1 {
							misdeed()
						}
						return o, nil
					})
					queue := deltafifo.New[partial](deltafifo.Options{})
					r := New(transformed, queue, Options{})
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error)
					go func() { ended <- r.Run(ctx) }()
					time.Sleep(time.Minute)
					synctest.Wait()
					require.Equal(t, Watching, r.Status().State)
					require.EqualValues(t, 1, r.Status().Failures)
					require.Equal(t, failure.PhaseTransform, r.Status().Failure.Phase)
					require.Contains(t, r.Status().Failure.Handler, "hooks_test.go")
					require.Contains(t, r.Status().Failure.Error(), map[string]string{"panics": "transform panicked: oh", "exits": "transform called runtime.Goexit"}[name])
					cancel()
					require.NoError(t, <-ended)
					require.Equal(t, 2, calls)
				})
			})
		}
	}
}

func TestReconnectOpensTheWatchAgain(t *testing.T) {
	for why, want := range map[error]error{nil: ErrDeaf, io.ErrClosedPipe: io.ErrClosedPipe} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{lists: []answer{{rv: "8"}}}
			r := New(s, deltafifo.New[partial](deltafifo.Options{}), Options{Initial: List})
			r.Reconnect(why) // before the run: there is no watch
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			synctest.Wait()
			require.Equal(t, Watching, r.Status().State)
			r.Reconnect(why)
			synctest.Wait()
			require.Equal(t, BackingOff, r.Status().State)
			require.ErrorIs(t, r.Status().Failure, want)
			r.Reconnect(why) // there is none now, either
			time.Sleep(time.Minute)
			status := r.Status()
			require.Equal(t, Watching, status.State)
			require.EqualValues(t, 2, status.Watches)
			require.Equal(t, why == nil, status.Attempts == 1, "silence tells nothing where it was the failure")
			require.EqualValues(t, 1, status.Lists)
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

func TestRetryNowEndsABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []answer{{err: errors.New("no")}, {rv: "8"}}}
		r := New(s, deltafifo.New[partial](deltafifo.Options{}), Options{Initial: List, Timing: Timing{Backoff: Backoff{Initial: time.Hour}}})
		r.RetryNow() // before the run: there is nothing to end
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		require.Equal(t, BackingOff, r.Status().State)
		r.RetryNow()
		synctest.Wait()
		require.Equal(t, Watching, r.Status().State)
		r.RetryNow()
		cancel()
		require.NoError(t, <-ended)
	})
}
