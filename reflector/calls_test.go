package reflector

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// stepping notes what it waits for, as package rest does: the last step of a request that
// was answered is "in the middle of the answer".
type stepping struct{ *script }

func (s stepping) List(ctx context.Context, o metav1.ListOptions) source.List[partial] {
	source.ProgressOf(ctx).Step("10.0.0.1", "in the middle of the answer")
	return s.script.List(ctx, o)
}

func blocked(t *testing.T, s *script, look func(r *Reflector[partial], log string)) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		release := make(chan struct{})
		from := Transformed[partial](stepping{s}, func(o partial) (partial, error) { <-release; return o, nil })
		r := New(from, deltafifo.New[partial](deltafifo.Options{}), Options{Initial: List, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		defer func() {
			cancel()
			close(release)
			require.NoError(t, <-ended)
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		look(r, log.String())
	})
}

// The server has answered, and it is the transform that does not return.
func TestAServerIsNotBlamedForATransformThatBlocksAList(t *testing.T) {
	blocked(t, &script{lists: []answer{{items: []partial{obj("a", 3)}, rv: "7"}}}, func(r *Reflector[partial], log string) {
		require.Regexp(t, `^waiting for the transform reflector\.\S+ \(reflector/calls_test\.go:\d+\), called on "?a"?, since 1h0m0s$`, r.Status().Waiting)
		require.Equal(t, Listing, r.Status().State, "the server has done nothing wrong")
		require.Nil(t, r.Status().Failure)
		require.NotContains(t, log, "10.0.0.1")
		require.Equal(t, 1, strings.Count(log, "a transform blocks the reflector: it must return soon"), "it is said once")
	})
}

// A watch that stands still because of a transform is no secret, and no silence of the server's.
func TestL22_ATransformThatBlocksAWatchIsSeen(t *testing.T) {
	blocked(t, &script{lists: []answer{{rv: "7"}}, watches: []answer{{block: true, events: []wire.Event[partial]{change(watch.Added, "a", 8)}}}}, func(r *Reflector[partial], log string) {
		s := r.Status()
		require.True(t, s.Held())
		require.Contains(t, s.Waiting, "called on")
		require.Zero(t, s.Silence(time.Now()))
		require.Nil(t, s.Failure)
		require.Equal(t, 1, strings.Count(log, "a transform blocks the reflector"))
	})
}

// The server has its time again when the transform has returned, and short calls are not named.
func TestAServerIsBlamedBehindATransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		from := Transformed[partial](&script{
			lists:   []answer{{items: []partial{obj("a", 3), obj("b", 4)}, rv: "7"}},
			watches: []answer{{block: true}},
		}, func(o partial) (partial, error) { time.Sleep(slowHook - time.Second); return o, nil })
		r := New(from, deltafifo.New[partial](deltafifo.Options{}), Options{Initial: List, Timing: Timing{StallTimeout: 5 * time.Second}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(2 * slowHook)
		require.Equal(t, Watching, r.Status().State)
		require.Nil(t, r.Status().Failure)
		time.Sleep(time.Hour)
		require.ErrorIs(t, r.Status().Failure.Err, ErrStalled)
		cancel()
		require.NoError(t, <-ended)
		require.NotContains(t, log.String(), "a transform blocks")
	})
}
