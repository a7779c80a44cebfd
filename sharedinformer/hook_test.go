package sharedinformer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
)

// A hook called in a handler's goroutine may close the handler and wait.
func TestL07_CloseAndWaitFromAHook(t *testing.T) {
	for _, hook := range []string{"OnSync", "OnError", "OnError of OnSync"} {
		t.Run(hook, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, calls, closed := newFixed(things(3)...), 0, 0
				var r *Registration
				closeIt := func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					require.NoError(t, r.CloseAndWait(ctx))
					closed++
				}
				i := informerOf(from, Options{OnError: func(context.Context, *failure.Failure) failure.Verdict { closeIt(); return failure.Retry }})
				r = i.AddHandlerWith(HandlerFunc[partial](func(context.Context, Event[partial]) error {
					if calls++; hook == "OnError" {
						return errors.New("oh")
					}
					return nil
				}), HandlerOptions{OnSync: func() {
					if hook == "OnSync" {
						closeIt()
					} else {
						panic("oh")
					}
				}})
				defer runFor(t, i)()
				synctest.Wait()
				require.Equal(t, 1, closed)
				require.NoError(t, r.CloseAndWait(t.Context()))
				heard := calls
				from.change("t0", 100, 20)
				synctest.Wait()
				require.Equal(t, heard, calls)
			})
		})
	}
}

// The time spent in a hook does not count for the handler.
func TestL22_AHookThatBlocksIsNotTheHandler(t *testing.T) {
	for _, hook := range []string{"OnSync", "OnError"} {
		t.Run(hook, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, release := newFixed(things(3)...), make(chan struct{})
				var log bytes.Buffer
				i := informerOf(from, Options{
					Logger:  slog.New(slog.NewTextHandler(&log, nil)),
					OnError: func(context.Context, *failure.Failure) failure.Verdict { <-release; return failure.Retry },
				})
				r := i.AddHandlerWith(HandlerFunc[partial](func(context.Context, Event[partial]) error {
					if hook == "OnError" {
						return errors.New("oh")
					}
					return nil
				}), HandlerOptions{Name: "quick", OnSync: func() { <-release }})
				stop := runFor(t, i)
				began := time.Now()
				err := i.WaitForSync(t.Context())
				if hook == "OnError" {
					require.ErrorContains(t, err, "2 events pending before it is synced; OnError has not returned for 1m0s")
					require.Equal(t, time.Minute, time.Since(began))
				} else {
					require.NoError(t, err)
				}
				time.Sleep(2 * time.Minute)
				s := r.Status()
				require.Zero(t, s.Behind)
				require.Zero(t, s.Slowest)
				close(release)
				synctest.Wait()
				from.change("t0", 100, 20)
				synctest.Wait()
				s = r.Status()
				require.Zero(t, s.Slowest)
				require.EqualValues(t, 4, s.Delivered)
				require.NotContains(t, log.String(), "a handler is blocking")
				require.Regexp(t, `a hook is blocking.* hook=`+hook+` handler="handler \\"quick\\"`, log.String())
				stop()
			})
		})
	}
}
