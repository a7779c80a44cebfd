package reflector

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// stepping records what it is waiting for, as package rest does: the last step of an answered
// request is "in the middle of the answer".
type stepping struct{ *script }

func (s stepping) List(ctx context.Context, o source.Request) source.List[object.Head] {
	source.ProgressOf(ctx).Step("10.0.0.1", "in the middle of the answer")
	return s.script.List(ctx, o)
}

func blocked(t *testing.T, s *script, look func(r *Reflector, log string)) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		release := make(chan struct{})
		from := Transformed(stepping{s}, func(o partial) (partial, error) { <-release; return o, nil })
		r := New(from, deltafifo.New(deltafifo.Options{}), Options{Initial: List, Logger: slog.New(slog.NewTextHandler(&log, nil))})
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

// The server has answered, but the transform does not return.
func TestAServerIsNotBlamedForATransformThatBlocksAList(t *testing.T) {
	blocked(t, &script{lists: []answer{{items: []object.Head{obj("a", 3)}, rv: "7"}}}, func(r *Reflector, log string) {
		require.Regexp(t, `^waiting for the transform reflector\.\S+ \(reflector/blocked_test\.go:\d+\), called on "?a"?, for 1h0m0s$`, r.Status().Waiting)
		require.Equal(t, Listing, r.Status().State, "the server has done nothing wrong")
		require.Nil(t, r.Status().Failure)
		require.NotContains(t, log, "10.0.0.1")
		require.Equal(t, 1, strings.Count(log, "a transform is blocking the reflector: it must return quickly"), "it is said once")
	})
}

// A watch blocked by a transform is reported as such, and not as silence of the server.
func TestL22_ATransformThatBlocksAWatchIsSeen(t *testing.T) {
	blocked(t, &script{lists: []answer{{rv: "7"}}, watches: []answer{{block: true, events: []wire.Event[object.Head]{change(watch.Added, "a", 8)}}}}, func(r *Reflector, log string) {
		s := r.Status()
		require.True(t, s.Held())
		require.Contains(t, s.Waiting, "called on")
		require.Zero(t, s.Silence(time.Now()))
		require.Nil(t, s.Failure)
		require.Equal(t, 1, strings.Count(log, "a transform is blocking the reflector"))
	})
}

// turning sends one page, and hangs on the next.
type turning struct{ *script }

func (p turning) List(ctx context.Context, o source.Request) source.List[object.Head] {
	steps, list := source.ProgressOf(ctx), p.script.List(ctx, o)
	first := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		steps.Step("10.0.0.1", "in the middle of the answer")
		for item, err := range first {
			time.Sleep(lateAnswer - time.Second)
			if !yield(item, err) {
				return
			}
		}
		time.Sleep(2 * lateAnswer) // the rest of the first page has only unwanted items
		steps.Step("10.0.0.1", "the request is sent")
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
	return list
}

// While a later page of a list does not arrive, the status and the log say so.
func TestL22_ALaterPageThatHangsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &script{lists: []answer{{items: []object.Head{obj("a", 3)}, rv: "7"}}}
		r := New(turning{s}, deltafifo.New(deltafifo.Options{}), Options{Initial: List, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(2 * lateAnswer)
		require.Empty(t, r.Status().Waiting, "the first page is arriving")
		time.Sleep(3 * lateAnswer)
		synctest.Wait()
		require.Contains(t, r.Status().Waiting, "no answer from 10.0.0.1 for ")
		require.Contains(t, r.Status().Waiting, "(the request is sent)")
		require.Equal(t, 1, strings.Count(log.String(), "reflector request is late"), "%s", &log)
		require.Contains(t, log.String(), "(the request is sent)")
		cancel()
		require.NoError(t, <-ended)
	})
}

// After the transform has returned, the server gets its full time again. Short calls are not reported.
func TestAServerIsBlamedBehindATransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		from := Transformed(&script{
			lists:   []answer{{items: []object.Head{obj("a", 3), obj("b", 4)}, rv: "7"}},
			watches: []answer{{block: true}},
		}, func(o partial) (partial, error) { time.Sleep(slowCall - time.Second); return o, nil })
		r := New(from, deltafifo.New(deltafifo.Options{}), Options{Initial: List, Timing: Timing{StallTimeout: 5 * time.Second}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(2 * slowCall)
		require.Equal(t, Watching, r.Status().State)
		require.Nil(t, r.Status().Failure)
		time.Sleep(11 * time.Minute)
		require.ErrorIs(t, r.Status().Failure.Err, ErrStalled)
		cancel()
		require.NoError(t, <-ended)
		require.NotContains(t, log.String(), "a transform blocks")
	})
}

// answering is a server that answers every request immediately, in pages, until the context of the
// request is done, as package rest does.
type answering struct{ items []object.Head }

func (answering) Describe() source.Description { return source.Description{Name: "things"} }

func (a answering) List(ctx context.Context, o source.Request) source.List[object.Head] {
	meta := new(metav1.ListMeta)
	return source.List[object.Head]{Meta: meta, Items: func(yield func(object.Head, error) bool) {
		for n, item := range a.items {
			if int64(n) == o.Limit { // the request of the second page
				meta.ResourceVersion = "10"
				if ctx.Err() != nil {
					yield(nil, ctx.Err())
					return
				}
			}
			if !yield(item, nil) {
				return
			}
		}
		meta.ResourceVersion = "10"
	}}
}

func (a answering) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		if o.SendInitialEvents != nil {
			for _, item := range a.items {
				if ctx.Err() != nil || !yield(wire.Event[object.Head]{Type: watch.Added, Object: item}, nil) {
					return
				}
				time.Sleep(time.Millisecond) // of reading
			}
			if ctx.Err() != nil || !yield(endOfInitial(10), nil) {
				return
			}
		}
		<-ctx.Done()
		yield(wire.Event[object.Head]{}, ctx.Err())
	}, nil
}

// The server gets its full time, however long transforms take in between, both when a saved state
// is confirmed and in a streaming list.
func TestAServerIsNotBlamedForASlowTransform(t *testing.T) {
	items := []object.Head{obj("a", 5), obj("b", 7), obj("c", 9)}
	for name, takes := range map[string]time.Duration{"probe": 75 * time.Second, "stream": 365 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := Transformed(answering{items}, func(o partial) (partial, error) { time.Sleep(takes); return o, nil })
				r := New(from, deltafifo.New(deltafifo.Options{}), Options{})
				if name == "probe" {
					r.Resume(SavedState{Items: items, RV: "10"})
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(3*takes + time.Second)
				synctest.Wait()
				s := r.Status()
				cancel()
				require.NoError(t, <-ended)
				require.Nil(t, s.Failure)
				require.Equal(t, Watching, s.State)
				require.Equal(t, name == "probe", s.Resumed)
			})
		})
	}
}
