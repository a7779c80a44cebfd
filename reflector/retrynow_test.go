package reflector

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// A RetryNow while OnError runs, when the state is BackingOff already, ends the back-off that follows.
func TestRetryNowWhileOnErrorRunsEndsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []answer{{err: errors.New("no")}, {rv: "8"}}}
		r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: List, Timing: Timing{Backoff: Backoff{Initial: time.Hour}},
			OnError: func(context.Context, *failure.Failure) failure.Verdict {
				time.Sleep(time.Second) // meanwhile, another feed finds the kind served
				return failure.Retry
			}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		require.Equal(t, BackingOff, r.Status().State)
		r.RetryNow()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, Watching, r.Status().State, "the next attempt is at %s", r.Status().RetryAt)
		cancel()
		require.NoError(t, <-ended)
	})
}

// A saved state of a filtered source is confirmed, although the source has objects that it filters out.
func TestResumeBelowAFilteredSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := int64(1)
		s := &script{lists: []answer{{items: []object.Head{obj("unwanted", 3)}, left: &left, rv: "8"}, {items: []object.Head{obj("another", 1)}, rv: "8"}}, watches: []answer{{block: true}}}
		from := source.Filtered(s, func(o object.Head) bool { return o.GetName() != "unwanted" })
		r := New(from, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
		var refused error
		r.Resume(SavedState{Items: []object.Head{obj("another", 1)}, RV: "8", Refuse: func(why error) { refused = why }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, refused)
		require.True(t, r.Status().Resumed)
	})
}
