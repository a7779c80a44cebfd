package reflector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// misdeeds are the things that user code may do instead of returning.
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
					{events: []wire.Event[object.Head]{endOfInitial(8)}, broken: errors.New("cut")},
					{events: []wire.Event[object.Head]{change(watch.Added, "a", 9)}, block: true},
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
				{events: []wire.Event[object.Head]{change(watch.Added, "a", 1), endOfInitial(8)}},
				{events: []wire.Event[object.Head]{change(watch.Added, "a", 1), endOfInitial(8)}, block: true},
			}},
			"a watch": {watches: []answer{
				{events: []wire.Event[object.Head]{endOfInitial(8), change(watch.Added, "a", 9)}},
				{events: []wire.Event[object.Head]{change(watch.Added, "a", 9)}, block: true},
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
					queue := deltafifo.New(deltafifo.Options{})
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
			s := &script{lists: []answer{{rv: "8"}, {rv: "8"}}}
			r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
			r.Reconnect(why) // before the run there is no watch
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			synctest.Wait()
			require.Equal(t, Watching, r.Status().State)
			r.Reconnect(why)
			synctest.Wait()
			require.Equal(t, BackingOff, r.Status().State)
			require.ErrorIs(t, r.Status().Failure, want)
			r.Reconnect(why) // there is no watch now, either
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
		r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: List, Timing: Timing{Backoff: Backoff{Initial: time.Hour}}})
		r.RetryNow() // before the run there is nothing to end
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

type coded struct{ code string }

func (c *coded) Error() string { return c.code }

// A transform that returns a nil pointer as an error does not end the process.
func TestATransformWithANilErrorCannotEndTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{watches: []answer{{events: []wire.Event[object.Head]{change(watch.Added, "a", 1), endOfInitial(8)}}}, lists: []answer{{items: []object.Head{obj("a", 1)}, rv: "8"}, {rv: "8"}, {rv: "8"}}}
		r := New(Transformed(s, func(o partial) (partial, error) {
			var none *coded
			return o, none
		}), deltafifo.New(deltafifo.Options{}), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, failure.PhaseTransform, r.Status().Failure.Phase)
		cancel()
		require.NoError(t, <-ended)
	})
}

// A source that yields nil is reported as such, even behind a transform.
func TestTransformOfASourceThatReturnsNil(t *testing.T) {
	for name, s := range map[string]*script{
		"list":  {lists: []answer{{items: []object.Head{nil}, rv: "8"}, {rv: "8"}, {rv: "8"}}},
		"watch": {lists: []answer{{rv: "8"}}, watches: []answer{{events: []wire.Event[object.Head]{{Type: watch.Added}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Transformed(s, func(o partial) (partial, error) { return o, nil }), deltafifo.New(deltafifo.Options{}), Options{Initial: List})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				f := r.Status().Failure
				cancel()
				require.NoError(t, <-ended)
				require.ErrorIs(t, f, ErrNoObject)
			})
		})
	}
}

// However a transform fails on a change, a list skips that change after the third watch.
func TestL19_ListSkipsObjectsWhoseTransformFails(t *testing.T) {
	for name, misdeed := range map[string]func() error{
		"error": func() error { return io.EOF }, "panic": func() error { panic("oh") }, "goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bad := answer{events: []wire.Event[object.Head]{change(watch.Added, "a", 9)}, block: true}
				s := &script{lists: []answer{{rv: "8"}, {rv: "20"}}, watches: []answer{bad, bad, bad, {block: true}}}
				r := New(Transformed(s, func(o partial) (partial, error) { return o, misdeed() }), deltafifo.New(deltafifo.Options{}), Options{Initial: List})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				cancel()
				require.NoError(t, <-ended)
				require.Contains(t, s.asked, `list rv="" limit=500`)
			})
		})
	}
}

// deaf is a source without streaming lists that does not say so.
type deaf struct{ *script }

func (d deaf) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if o.SendInitialEvents != nil {
		d.asked = append(d.asked, "stream")
		return nil, nil
	}
	return d.script.Watch(ctx, o)
}

// After the second failure of a streaming list, a plain list replaces it.
func TestListReplacesAPanickingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []answer{{rv: "8"}}}
		r := New(deaf{s}, deltafifo.New(deltafifo.Options{}), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		status := r.Status()
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, "8", status.RV, status.Missing())
	})
}

// bursting is a script whose first watch breaks in a given way after all events were read.
type bursting struct {
	*script
	burst func()
}

func (b *bursting) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := b.script.Watch(ctx, o)
	if b.burst == nil || err != nil {
		return events, err
	}
	burst := b.burst
	b.burst = nil
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if !yield(e, err) {
				return
			}
		}
		burst()
	}, nil
}

// A source that breaks after a complete initial list has broken a watch, not a streaming list.
func TestSourceThatFailsAfterTheInitialSet(t *testing.T) {
	for name, burst := range misdeeds {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", resumed ", resumed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &script{watches: []answer{
						{events: []wire.Event[object.Head]{change(watch.Added, "a", 90), endOfInitial(100)}},
						{err: apierrors.NewResourceExpired("too old resource version")},
						{err: apierrors.NewInternalError(io.EOF)},
						{events: []wire.Event[object.Head]{change(watch.Added, "a", 90), endOfInitial(110)}, block: true},
					}}
					want := []string{`watch rv="" initial`, `watch rv="100"`, `watch rv="" initial`, `watch rv="" initial`}
					if resumed {
						s.lists = []answer{{rv: "100", items: []object.Head{obj("a", 90)}}}
						want = append([]string{`list rv="" limit=1`, `watch rv="80"`}, want[1:]...)
					}
					var failed []*failure.Failure
					r := New(&bursting{s, burst}, deltafifo.New(deltafifo.Options{}), Options{
						OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
							failed = append(failed, f)
							return failure.Retry
						},
					})
					if resumed {
						r.Resume(SavedState{RV: "80"})
					}
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error)
					go func() { ended <- r.Run(ctx) }()
					time.Sleep(time.Minute)
					cancel()
					require.NoError(t, <-ended)
					require.Equal(t, want, s.asked)
					require.Equal(t, failure.PhaseWatch, failed[0].Phase)
				})
			})
		}
	}
}

// hooked runs a reflector whose watch breaks after half a minute, and calls look after an hour
// during which a hook has blocked.
func hooked(t *testing.T, with func(block func()) Options, look func(s Status, log string)) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		release := make(chan struct{})
		from := &script{
			lists:   []answer{{rv: "7"}},
			watches: []answer{{events: []wire.Event[object.Head]{change(watch.Added, "b", 8)}, after: 30 * time.Second, broken: io.ErrUnexpectedEOF}, {block: true}},
		}
		opts := with(func() { <-release })
		opts.Initial, opts.Logger = List, slog.New(slog.NewTextHandler(&log, nil))
		r := New(from, deltafifo.New(deltafifo.Options{}), opts)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		s := r.Status()
		defer func() {
			cancel()
			close(release)
			require.NoError(t, <-ended)
		}()
		look(s, log.String())
	})
}

// After a watch broke, and while OnError has not returned, no watch is open, and none has served
// since.
func TestL22_OnErrorThatBlocksIsSeen(t *testing.T) {
	hooked(t, func(block func()) Options {
		return Options{OnError: func(context.Context, *failure.Failure) failure.Verdict { block(); return failure.Retry }}
	}, func(s Status, log string) {
		require.Equal(t, BackingOff, s.State)
		require.Equal(t, 1, s.Attempts)
		require.Equal(t, "waiting for the hook OnError for 59m30s", s.Waiting)
		require.Equal(t, 1, strings.Count(log, "a hook is blocking the reflector: it must return quickly"))
		require.Contains(t, log, "resource=things hook=OnError for=10s")
	})
}

// While OnState blocks, an unread watch does not count as silence of the server.
func TestL22_OnStateThatBlocksIsSeen(t *testing.T) {
	hooked(t, func(block func()) Options {
		return Options{OnState: func(s Status) {
			if s.State == Watching {
				block()
			}
		}}
	}, func(s Status, _ string) {
		require.True(t, s.Held())
		require.Equal(t, "waiting for the hook OnState for 1h0m0s", s.Waiting)
		require.Zero(t, s.Silence(time.Now()))
		require.Nil(t, s.Failure)
	})
}
