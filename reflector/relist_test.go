package reflector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// If Refuse breaks, the refused state is still not used again.
func TestRefusedStateIsNotTriedAgain(t *testing.T) {
	type events = []wire.Event[object.Head]
	gone := answer{err: apierrors.NewResourceExpired("too old")}
	for name, c := range map[string]struct {
		first answer
		end   func()
	}{
		"expired, panic":  {gone, func() { panic("no") }},
		"expired, Goexit": {gone, runtime.Goexit},
		"silent, panic":   {answer{block: true}, func() { panic("no") }},
	} {
		t.Run(name, func(t *testing.T) {
			anew := answer{block: true, events: events{change(watch.Added, "n", 15), endOfInitial(20)}}
			s := &script{lists: []answer{{rv: "12", items: []object.Head{obj("a", 5)}}}, watches: []answer{c.first, anew, anew}}
			refused := 0
			_, r := playFrom(t, s, Options{}, &SavedState{Items: []object.Head{obj("a", 5)}, RV: "10", Refuse: func(error) { refused++; c.end() }})
			require.Equal(t, 1, refused)
			require.False(t, r.Status().Resumed)
			require.Equal(t, []string{`list rv="" limit=1`, `watch rv="10"`, `watch rv="" initial`}, s.asked)
		})
	}
}

// listless is a source that cannot list.
type listless struct{ *script }

func (listless) List(context.Context, source.Request) source.List[object.Head] {
	panic("this source cannot list")
}

// A list that panics is followed by another streaming list.
func TestASourceThatCannotListIsStreamed(t *testing.T) {
	reset := answer{broken: errors.New("reset")}
	s := &script{watches: []answer{reset, reset, {block: true, events: []wire.Event[object.Head]{endOfInitial(20)}}}}
	_, d := runOn(t, listless{s}, Options{})
	require.Len(t, d, 1)
}

// An unknown event is a failure, whatever its version.
func TestUnknownEventDuringTheConfirmationOfAState(t *testing.T) {
	s := &script{lists: []answer{{rv: "12", items: []object.Head{obj("a", 5)}}, {rv: "30"}, {rv: "30"}}, watches: []answer{
		{block: true, events: []wire.Event[object.Head]{change("WEIRD", "a", 5), change(watch.Bookmark, "", 12)}},
		{block: true, events: []wire.Event[object.Head]{change(watch.Bookmark, "", 12)}},
	}}
	playFrom(t, s, Options{}, &SavedState{Items: []object.Head{obj("a", 5)}, RV: "10"})
	require.Equal(t, `watch rv="10"`, s.asked[2], "the state is asked for again after the failure")
}

// stopping is a script that stops the reflector during watch number at.
type stopping struct {
	*script
	at   int
	stop func()
}

func (s *stopping) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if s.at--; s.at == 0 {
		s.stop()
	}
	return s.script.Watch(ctx, req)
}

// The next run knows what an attempt revealed about the history, even if the reflector was stopped
// in between.
func TestL24_TheHistoryIsKnownToTheNextRun(t *testing.T) {
	type events = []wire.Event[object.Head]
	for name, second := range map[string]answer{
		"back":    {block: true, events: events{change(watch.Bookmark, "", 5)}},
		"expired": {broken: apierrors.NewResourceExpired("too old")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := &stopping{at: 2, stop: cancel, script: &script{watches: []answer{{events: events{endOfInitial(20)}}, second, {block: true, events: events{endOfInitial(6)}}, {block: true}}}}
				r := New(s, new(taken), Options{})
				require.NoError(t, r.Run(ctx))
				ctx, cancel = context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(10 * time.Millisecond)
				cancel()
				require.NoError(t, <-ended)
				require.Equal(t, `watch rv="" initial`, s.asked[2])
			})
		})
	}
}

// A change that cannot be read right after a streaming list is tried three times, as any other.
func TestAnUnreadableChangeAfterAStreamingList(t *testing.T) {
	odd := &wire.Error{Err: errors.New("odd")}
	s := &script{
		watches: []answer{{events: []wire.Event[object.Head]{endOfInitial(20)}, broken: odd}, {broken: odd}, {broken: odd}},
		lists:   []answer{{rv: "30"}},
	}
	play(t, s, Options{})
	require.Equal(t, []string{`watch rv="" initial`, `watch rv="20"`, `watch rv="20"`, `list rv="" limit=500`}, s.asked[:4])
}

// The error of an unrelated request may wrap ErrWentBack. It says nothing about this history.
func TestTheHistoryOfAnotherReflectorWentBack(t *testing.T) {
	foreign := &TransformError{Transform: "t", Err: fmt.Errorf("the other informer: %w", ErrWentBack)}
	s := &script{watches: []answer{{events: []wire.Event[object.Head]{endOfInitial(20), change(watch.Modified, "a", 21)}, broken: foreign}, {block: true}}}
	play(t, s, Options{})
	require.Equal(t, `watch rv="21"`, s.asked[1])
}

// Only a response from the server turns streaming off. After any other error, a list shows whether there is a problem,
// and the next initial state is streamed.
func TestOnlyAResponseTurnsStreamingOff(t *testing.T) {
	for err, off := range map[error]bool{
		errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR"): false,
		errors.New("tls: failed to verify certificate: x509: certificate has expired or is not yet valid"):  false,
		apierrors.NewBadRequest("sendInitialEvents is forbidden"):                                           true,
	} {
		s := &script{
			lists:   []answer{{rv: "10"}, {rv: "20"}},
			watches: []answer{{err: err}, {err: apierrors.NewResourceExpired("too old")}, {block: true, events: []wire.Event[object.Head]{endOfInitial(20)}}},
		}
		_, r := play(t, s, Options{})
		require.Equal(t, off, r.noStream, "%v", err)
		require.Equal(t, []string{`watch rv="" initial`, `list rv="0" limit=0`, `watch rv="10"`}, s.asked[:3])
		require.Equal(t, map[bool]string{false: `watch rv="" initial`, true: `list rv="" limit=500`}[off], s.asked[3])
	}
}

// A version that has expired says nothing about streaming.
func TestAnExpiredVersionRefusesNoStream(t *testing.T) {
	s := &script{lists: []answer{{rv: "10"}}, watches: []answer{{err: apierrors.NewResourceExpired("too old")}}}
	_, r := play(t, s, Options{})
	require.False(t, r.noStream)
	require.NotNil(t, r.Status().Failure)
}

// An error whose methods panic is a failure, and says nothing about streaming.
func TestAnErrorThatPanicsRefusesNoStream(t *testing.T) {
	s := &script{
		lists:   []answer{{rv: "10"}},
		watches: []answer{{err: (*apierrors.StatusError)(nil)}, {block: true, events: []wire.Event[object.Head]{endOfInitial(20)}}},
	}
	_, r := play(t, s, Options{})
	require.False(t, r.noStream)
	require.Equal(t, `watch rv="" initial`, s.asked[1])
}
