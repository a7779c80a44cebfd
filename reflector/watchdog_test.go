package reflector

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

func full() *deltafifo.DeltaFIFO {
	queue := deltafifo.New(deltafifo.Options{})
	for n := range deltafifo.MaxAhead {
		o := obj("x", n+1)
		queue.Add(deltafifo.Delta{Type: deltafifo.Updated, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion})
	}
	return queue
}

// The consumer is busy for longer than the server may be silent.
func TestTheServerIsNotBlamedForASlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := full()
		s := &script{watches: []answer{{block: true, events: []wire.Event[object.Head]{change(watch.Added, "a", 5001), endOfInitial(5002), change(watch.Modified, "a", 5003)}}}}
		r := New(s, queue, Options{Timing: Timing{WatchTimeout: time.Minute}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		queue.TryPop()
		synctest.Wait()
		status := r.Status()
		require.Equal(t, []string{`watch rv="" initial`}, s.asked, "last failure: %v", status.Failure)
		require.Zero(t, status.Failures)
		require.Equal(t, "5003", status.RV)
		cancel()
		require.NoError(t, <-ended)
	})
}

// frozen is a source that accepts connections and does not answer.
type frozen struct{ script }

func (f *frozen) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if o.SendInitialEvents != nil && len(f.watches) > 0 {
		return f.script.Watch(ctx, o)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A server that does not answer is reported as such, and the streaming list is tried again later.
func TestFrozenServerIsNotTakenForOneWithoutStreamingLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frozen{script{lists: []answer{{rv: "8"}}}}
		r := New(f, deltafifo.New(deltafifo.Options{}), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		status := r.Status()
		require.ErrorIs(t, status.Failure, ErrNoAnswer)
		require.NotErrorIs(t, status.Failure, ErrNoEnd)
		require.Equal(t, failure.PhaseWatchOpen, status.Failure.Phase)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{`list rv="0" limit=0`}, f.asked, "a proxy may hold back a stream")
		require.False(t, r.noStream)
		cancel()
		require.NoError(t, <-ended)
	})
}

// buffered is a source whose streaming list delivers its end when it is abandoned.
type buffered struct{ script }

func (b *buffered) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := b.script.Watch(ctx, o)
	if o.SendInitialEvents == nil {
		return events, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		<-ctx.Done()
		if yield(endOfInitial(9), nil) {
			yield(wire.Event[object.Head]{}, ctx.Err())
		}
	}, nil
}

// If the end of a streaming list arrives just when the list is abandoned, the end counts. The watch
// continues from there, the failure does not say that the end was missing, and no list follows.
func TestStreamingListEndsAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &buffered{script{watches: []answer{{}, {block: true}}}}
		r := New(b, deltafifo.New(deltafifo.Options{}), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(12 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{`watch rv="" initial`, `watch rv="9"`}, b.asked)
		require.ErrorIs(t, r.Status().Failure, ErrLateEnd)
		require.False(t, r.noStream)
		require.Equal(t, Watching, r.Status().State)
		cancel()
		require.NoError(t, <-ended)
	})
}

// While an answer is missing, the status says what the request is waiting for.
func TestStatusNamesWhatARequestWaitsFor(t *testing.T) {
	for name, initial := range map[string]Initial{"list": List, "streaming list": Auto} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				r := New(&plugged{}, deltafifo.New(deltafifo.Options{}), Options{Initial: initial, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Timing: Timing{StreamIdle: time.Minute}})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				synctest.Wait()
				require.Empty(t, r.Status().Waiting)
				time.Sleep(12 * time.Second)
				synctest.Wait()
				require.Equal(t, `waiting for exec plugin "x" for 12s`, r.Status().Waiting)
				cancel()
				require.NoError(t, <-ended)
				require.Empty(t, r.Status().Waiting)
				require.Contains(t, log.String(), `exec plugin \"x\" for 10s`)
			})
		})
	}
}

// plugged is a source whose credentials come from a plugin that hangs.
type plugged struct{}

func (plugged) hang(ctx context.Context) error {
	source.ProgressOf(ctx).Step("", `exec plugin "x"`)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (p plugged) List(ctx context.Context, _ source.Request) source.List[object.Head] {
	return source.List[object.Head]{Items: func(yield func(object.Head, error) bool) { yield(nil, p.hang(ctx)) }}
}

func (plugged) Describe() source.Description { return source.Description{} }

func (p plugged) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return nil, p.hang(ctx)
}

// A watch is not announced before the server has accepted it.
func TestStatusIsWatchingOnceTheServerHasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frozen{script{watches: []answer{{events: []wire.Event[object.Head]{endOfInitial(8)}}}}}
		var states []string
		r := New(f, deltafifo.New(deltafifo.Options{}), Options{OnState: func(s Status) { states = append(states, s.State.String()) }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(70 * time.Second)
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, []string{"InitialWatch", "Watching", "Connecting", "BackingOff", "Connecting", "Stopped"}, states)
	})
}

// resting is a source that first waits as long as the server has asked it to, unless that is forever,
// and then waits for the server.
type resting struct {
	plugged
	pause time.Duration
}

func (s resting) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	source.ProgressOf(ctx).Rest("the end of a rest")
	select {
	case <-time.After(s.pause):
		return nil, s.hang(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A streaming list is not abandoned while its source waits because the server asked it to. It is
// abandoned after that wait, and after StallTimeout.
func TestBackoffDoesNotCountAsSilence(t *testing.T) {
	for _, c := range []struct{ pause, given time.Duration }{
		{35 * time.Second, 40 * time.Second},
		{time.Hour, time.Minute},
	} {
		t.Run(c.pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(&resting{pause: c.pause}, deltafifo.New(deltafifo.Options{}), Options{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(c.given - time.Second)
				synctest.Wait()
				require.Zero(t, r.Status().Failures)
				require.NotEmpty(t, r.Status().Waiting)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.ErrorIs(t, r.Status().Failure, ErrNoAnswer)
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// The watch of a quiet kind delivers nothing for a minute. It must not count as failing all that time
// because an earlier watch broke.
func TestWorkingWatchEndsASeriesOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		s := &script{
			lists:   []answer{{items: []object.Head{obj("a", 7)}, rv: "9"}},
			watches: []answer{{broken: broken}, {broken: broken}, {broken: broken, after: 20 * time.Second}},
		}
		r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for r.Status().Watches < 3 {
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, 2, r.Status().Attempts)
		time.Sleep(9 * time.Second)
		require.Equal(t, 2, r.Status().Attempts, "it may break again at once")
		time.Sleep(2 * time.Second)
		require.Zero(t, r.Status().Attempts)
		require.ErrorIs(t, r.Status().Failure, broken, "it is known for good")
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, r.Status().Failure.Attempts, "the next is the first of its series")
		require.EqualValues(t, 3, r.Status().Failures)
		cancel()
		require.NoError(t, <-ended)
	})
}

// A list shows the state at its first page, so the cache is as old as the request.
func TestTheAgeIncludesTheTimeOfTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{script: &script{lists: []answer{{items: []object.Head{obj("a", 1), obj("b", 2)}, rv: "5"}}}}
		began := time.Now()
		r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(41 * time.Second)
		require.Equal(t, "5", r.Status().RV)
		require.True(t, began.Equal(r.Status().Heard))
		cancel()
		require.NoError(t, <-ended)
	})
}

// The silence of an open watch is shown, counted from its last event.
func TestStatusSaysHowLongAWatchIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &script{lists: []answer{{rv: "10"}}, watches: []answer{
			{events: []wire.Event[object.Head]{change(watch.Modified, "a", 11)}, broken: io.ErrUnexpectedEOF, after: time.Minute},
			{events: []wire.Event[object.Head]{change(watch.Bookmark, "", 12)}, block: true},
		}}
		r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
		require.Zero(t, r.Status().Heard)
		require.Zero(t, r.Status().Silence(time.Now()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(30 * time.Second)
		require.Equal(t, 30*time.Second, r.Status().Silence(time.Now()))
		time.Sleep(30*time.Second + time.Millisecond)
		require.Equal(t, BackingOff, r.Status().State)
		require.Zero(t, r.Status().Silence(time.Now()), "no watch is open")
		require.True(t, began.Equal(r.Status().Heard), "the list, and the change at once after it")
		time.Sleep(time.Minute)
		again := r.Status().Since
		require.True(t, again.After(began.Add(time.Minute)), "the next watch was accepted")
		require.True(t, again.Equal(r.Status().Heard), "its bookmark came with that")
		time.Sleep(time.Minute)
		require.Equal(t, time.Since(again), r.Status().Silence(time.Now()))
		require.Equal(t, time.Since(again), r.Status().Age(time.Now()))
		cancel()
		require.NoError(t, <-ended)
		require.Zero(t, r.Status().Silence(time.Now()))
	})
}
