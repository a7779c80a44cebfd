package sharedinformer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// having is nothing with some objects.
func having(objects ...podPtr) *scripted {
	s := nothing()
	s.list = func() ([]podPtr, string) { return objects, "10" }
	return s
}

// The server is down when the informer runs again, so the cache has the state of the previous run.
func TestL24_WaitForSyncWaitsForTheServerInEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		from := having(podAt("x", "5", nil))
		from.open = func() error {
			if down.Load() {
				return apierrors.NewServiceUnavailable("down for maintenance")
			}
			return nil
		}
		i := New[podPtr](from, Options{Initial: reflector.List, SyncPatience: time.Minute})
		run := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			wait, err := i.Start(ctx)
			require.NoError(t, err)
			return func() {
				cancel()
				require.NoError(t, wait())
			}
		}
		stop := run()
		require.NoError(t, i.WaitForSync(t.Context()))
		stop()
		require.True(t, i.HasSynced(), "its cache is whole, as of the run before")

		down.Store(true)
		stop = run()
		began := time.Now()
		err := i.WaitForSync(t.Context())
		require.ErrorContains(t, err, "down for maintenance")
		require.Equal(t, time.Minute, time.Since(began).Round(10*time.Second))
		down.Store(false)
		time.Sleep(time.Minute) // longer than the back-off
		require.NoError(t, i.WaitForSync(t.Context()))
		stop()

		down.Store(true)
		stop = run()
		time.AfterFunc(time.Second, stop)
		require.ErrorIs(t, i.WaitForSync(t.Context()), ErrStopped)
		synctest.Wait()
	})
}

// The same if the namespaces have changed between the runs, even if the cache has the lists of all that are left.
func TestL24_WaitForSyncWaitsForTheServerAfterNamespacesChanged(t *testing.T) {
	for _, set := range [][]string{{"shop"}, {"bank", "mail", "shop"}} {
		synctest.Test(t, func(t *testing.T) {
			from := &failing{fixed: newFixed(in("bank", "a", 5), in("shop", "a", 5))}
			i := New[partial](from, Options{Initial: reflector.List, Namespaces: []string{"bank", "shop"}, SyncPatience: time.Minute})
			stop := runFor(t, i)
			require.NoError(t, i.WaitForSync(t.Context()))
			stop()
			require.NoError(t, i.SetNamespaces(set))
			from.fails.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			wait, err := i.Start(ctx)
			require.NoError(t, err)
			require.ErrorContains(t, i.WaitForSync(t.Context()), "down for maintenance")
			from.fails.Store(false)
			time.Sleep(2 * time.Minute) // longer than the back-off
			require.NoError(t, i.WaitForSync(t.Context()))
			cancel()
			require.NoError(t, wait())
		})
	}
}

// failing is a source that fails in namespace shop if it is told to.
type failing struct {
	*fixed
	fails atomic.Bool
}

func (f *failing) err(req source.Request) error {
	if f.fails.Load() && req.Namespace == "shop" {
		return apierrors.NewServiceUnavailable("down for maintenance")
	}
	return nil
}

func (f *failing) List(ctx context.Context, req source.Request) source.List[object.Head] {
	list := f.fixed.List(ctx, req)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		if err := f.err(req); err != nil {
			yield(nil, err)
			return
		}
		for item, err := range items {
			if item.GetNamespace() == req.Namespace && !yield(item, err) {
				return
			}
		}
	}
	return list
}

func (f *failing) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if err := f.err(req); err != nil {
		return nil, err
	}
	return f.fixed.Watch(ctx, req)
}

// An index function that ends its goroutine leaves a batch half applied.
func TestL22_UnusableCacheReportsTheReason(t *testing.T) {
	for name, first := range map[string]bool{"in the first list": true, "after the sync": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := having()
				if first {
					from = having(podAt("bad", "5", nil))
				}
				more := make(chan struct{})
				from.watch = func(ctx context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) error {
					<-more
					yield(wire.Event[object.Head]{Type: watch.Added, Object: podAt("bad", "11", nil)}, nil)
					<-ctx.Done()
					return nil
				}
				i := New[podPtr](from, Options{Initial: reflector.List})
				AddIndex(i, "bad", func(podPtr) []string { runtime.Goexit(); return nil })
				wait, err := i.Start(t.Context())
				require.NoError(t, err)
				if !first {
					require.NoError(t, i.WaitForSync(t.Context()))
				}
				close(more)
				require.ErrorContains(t, wait(), "Goexit")
				require.False(t, i.HasSynced())
				require.False(t, i.HasSyncedIn("shop"))
				require.False(t, i.Status().Synced)
				require.ErrorContains(t, i.WaitForSync(t.Context()), "Goexit")
				require.ErrorContains(t, i.WaitForRV(t.Context(), "99"), "Goexit")
				require.ErrorContains(t, i.Unsynced(), "Goexit")
			})
		})
	}
}

func TestL22_AWaitSaysWhyTheInformerEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := New[podPtr](having(podAt("x", "5", nil)), Options{
			Initial: reflector.List,
			OnError: func(context.Context, *failure.Failure) failure.Verdict { return failure.Stop },
		})
		let := make(chan struct{})
		i.AddHandler(HandlerFunc[podPtr](func(context.Context, Event[podPtr]) error {
			<-let
			return errors.New("the database is full")
		}))
		wait, err := i.Start(t.Context())
		require.NoError(t, err)
		waited := make(chan error, 1)
		go func() { waited <- i.WaitForRV(t.Context(), "99") }()
		synctest.Wait()
		close(let)
		require.ErrorContains(t, wait(), "the database is full")
		err = <-waited
		require.ErrorIs(t, err, ErrStopped)
		require.ErrorContains(t, err, "the database is full")
	})
}

// A function that panics on everything is reported ten times a second, with a count of the panics that
// were not reported.
func TestL22_FailuresOfOneFunctionAreSummedUp(t *testing.T) {
	const objects = 20_000
	var all []podPtr
	for n := range objects {
		all = append(all, podAt(strconv.Itoa(n), "5", nil))
	}
	for _, of := range []string{"an index", "a handler"} {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				var calls, told atomic.Int64
				i := New[podPtr](having(all...), Options{
					Initial: reflector.List, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
						calls.Add(1)
						told.Add(1 + int64(f.Others))
						return failure.Retry
					},
				})
				if of == "an index" {
					AddIndex(i, "bad", func(podPtr) []string { panic("nil map") })
				} else {
					i.AddHandler(HandlerFunc[podPtr](func(context.Context, Event[podPtr]) error { return errors.New("no") }))
				}
				ctx, cancel := context.WithCancel(t.Context())
				wait, err := i.Start(ctx)
				require.NoError(t, err)
				require.NoError(t, i.WaitForSync(ctx))
				time.Sleep(time.Minute)
				require.EqualValues(t, objects, told.Load())
				require.LessOrEqual(t, calls.Load(), int64(reportsPerSecond+1))
				require.Contains(t, log.String(), fmt.Sprintf("others=%d", objects-reportsPerSecond-1))
				cancel()
				require.NoError(t, wait())
			})
		})
	}
}

func TestL22_AStopThatWaitsForAHandlerIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		i := New[podPtr](having(podAt("x", "5", nil)), Options{Initial: reflector.List, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		let := make(chan struct{})
		i.AddHandler(HandlerFunc[podPtr](func(context.Context, Event[podPtr]) error { <-let; return nil }))
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "a handler is blocking"))
		require.Contains(t, log.String(), "failures_test.go")
		close(let)
		require.NoError(t, wait())
	})
}

// A handler that was removed while it was blocked is forgotten, and the others are not.
func TestARemovedHandlerIsForgotten(t *testing.T) {
	i := informerOf(part{newWorld()}, Options{})
	stays, goes, slow := new(delivery), new(delivery), newSlowHandlers()
	goes.closed.Store(true)
	for _, d := range []*delivery{stays, goes} {
		slow.inCall[d], slow.behind[d] = 1, true
	}
	slow.check(i.core.(*core))
	require.Equal(t, map[*delivery]uint64{stays: 1}, slow.inCall)
	require.Equal(t, map[*delivery]bool{stays: true}, slow.behind)
}

// L09: a handler that has been in one call for an hour is an hour behind.
func TestL09_AHandlerThatBlocksInAResyncIsBehind(t *testing.T) {
	for _, lag := range []Lag{Unbounded, Coalesce} {
		t.Run(fmt.Sprint(lag), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := New[podPtr](having(podAt("x", "5", nil)), Options{Initial: reflector.List})
				let := make(chan struct{})
				r := i.AddHandlerWith(HandlerFuncs[podPtr]{Resync: func(context.Context, podPtr) error { <-let; return nil }},
					HandlerOptions{Lag: lag, Resync: time.Second})
				ctx, cancel := context.WithCancel(t.Context())
				wait, err := i.Start(ctx)
				require.NoError(t, err)
				time.Sleep(time.Hour)
				require.Greater(t, r.Status().Behind, 59*time.Minute)
				close(let)
				cancel()
				require.NoError(t, wait())
			})
		})
	}
}

// Call times use the monotonic clock. A step of the wall clock during a call must not affect the
// recorded time.
func TestAStepOfTheClockMakesNoSlowCall(t *testing.T) {
	w := stopwatch{made: time.Now()}
	w.start()
	require.Less(t, time.Duration(w.since.Load()), time.Minute, "since the stopwatch was made, and not since 1970")
	require.Less(t, w.running(), time.Minute)
	w.stop()
	require.Zero(t, w.running())
}

// The ways in which a synced cache can stop following its server.
func TestL31_AFrozenCacheIsStale(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no rights"))
	for name, freeze := range map[string]func(s *scripted){
		"the server refuses lists and watches": func(s *scripted) {
			s.list = nil // a source that panics
			s.open = func() error { return refused }
		},
		"the server answers no watch": func(s *scripted) {
			s.list = nil
			s.open = func() error { return io.EOF }
		},
		"each watch fails in the stream": func(s *scripted) {
			s.list = nil
			s.watch = func(context.Context, source.Request, func(wire.Event[object.Head], error) bool) error {
				return apierrors.NewInternalError(errors.New("etcd"))
			}
		},
		"a change cannot be read": func(s *scripted) {
			s.list = nil
			s.watch = func(_ context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) error {
				return &wire.Error{Where: "frame 0", Err: wire.ErrSyntax}
			}
		},
		"the watch is silent": func(s *scripted) {
			s.watch = func(ctx context.Context, _ source.Request, _ func(wire.Event[object.Head], error) bool) error {
				<-ctx.Done()
				return ctx.Err()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := having(podAt("x", "5", nil))
				bad := make(chan struct{})
				from.watch = func(_ context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) error {
					yield(bookmarkAt("10"), nil)
					<-bad
					return io.ErrUnexpectedEOF
				}
				i := New[podPtr](from, Options{Initial: reflector.List})
				ctx, cancel := context.WithCancel(t.Context())
				wait, err := i.Start(ctx)
				require.NoError(t, err)
				require.NoError(t, i.WaitForSync(ctx))
				synctest.Wait()
				freeze(from)
				close(bad)
				time.Sleep(16 * time.Minute)
				s := i.Status()
				require.True(t, s.Synced)
				require.Len(t, s.Stale(time.Now(), 15*time.Minute), 1)
				require.NotNil(t, s.Reflector.Failure)
				cancel()
				require.NoError(t, wait())
			})
		})
	}
}

// A single failure of an index function is reported even while another function fails all the time.
func TestL22_AFailureIsNotCountedAsOneOfAnotherFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []podPtr
		for n := range 100 {
			objects = append(objects, podAt(strconv.Itoa(n), "5", nil))
		}
		var mu sync.Mutex
		heard := make(map[string]int)
		i := New[podPtr](having(objects...), Options{Initial: reflector.List, OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			mu.Lock()
			defer mu.Unlock()
			var of *indexer.IndexError
			if errors.As(f.Err, &of) {
				heard[of.Index] += 1 + f.Others
			}
			return failure.Retry
		}})
		AddIndex(i, "always", func(podPtr) []string { panic("oh") })
		AddIndex(i, "once", func(o podPtr) []string {
			if o.Name == "50" {
				panic("oh")
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		cancel()
		require.NoError(t, wait())
		require.Equal(t, map[string]int{"always": len(objects), "once": 1}, heard)
	})
}

// Contradictory options do not go away, so the wait fails immediately, however long its patience is.
func TestL22_AWaitSaysAtOnceThatOptionsContradict(t *testing.T) {
	for _, patience := range []time.Duration{0, time.Hour, -1} {
		synctest.Test(t, func(t *testing.T) {
			i := New[podPtr](having(), Options{PageSize: -1, SyncPatience: patience})
			require.ErrorContains(t, i.Run(t.Context()), "PageSize is -1")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			require.ErrorContains(t, i.WaitForSync(ctx), "PageSize is -1")
			require.ErrorContains(t, i.WaitForRV(ctx, "5"), "PageSize is -1")
			require.Equal(t, began, time.Now())
		})
	}
}

// shallow is an object that cannot be copied.
type shallow struct{ *metav1.PartialObjectMetadata }

func (*shallow) DeepCopyObject() apiruntime.Object { return nil }

type shallows struct{}

func (shallows) Describe() source.Description { return source.Description{} }

func (shallows) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "5"}, Items: func(yield func(object.Head, error) bool) {
		yield(&shallow{thing("x", 1, 4)}, nil)
	}}
}

func (shallows) Watch(context.Context, source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return nil, errors.New("not asked")
}

// An object whose methods panic does not end the process either.
func TestAnObjectThatPanicsEndsTheRun(t *testing.T) {
	i := New[*shallow](shallows{}, Options{Initial: reflector.List, DetectMutations: time.Hour})
	err := i.Run(t.Context())
	require.ErrorContains(t, err, "a method of an object panicked: interface conversion")
	require.NotContains(t, err.Error(), "Goexit")
	require.ErrorIs(t, i.Run(t.Context()), err)
	require.ErrorIs(t, i.Status().Failure, err)
}
