package sharedinformer

import (
	"context"
	"errors"
	"io"
	"iter"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// scripted lists and watches by functions, and counts the requests.
type scripted struct {
	lists     atomic.Int64
	tries     atomic.Int64
	described atomic.Int64
	list      func() ([]podPtr, string)
	watch     func(ctx context.Context, req source.Request, yield func(wire.Event[object.Head], error) bool) error
	open      func() error
}

func (s *scripted) Describe() source.Description {
	s.described.Add(1)
	return source.Description{Name: "things", Narrows: true}
}

func (s *scripted) List(context.Context, source.Request) source.List[object.Head] {
	s.lists.Add(1)
	meta := new(metav1.ListMeta)
	return source.List[object.Head]{Meta: meta, Items: func(yield func(object.Head, error) bool) {
		items, rv := s.list()
		meta.ResourceVersion = rv
		for _, o := range items {
			if !yield(o, nil) {
				return
			}
		}
	}}
}

func (s *scripted) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	s.tries.Add(1)
	if s.open != nil {
		if err := s.open(); err != nil {
			return nil, err
		}
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		if err := s.watch(ctx, opts, yield); err != nil {
			yield(wire.Event[object.Head]{}, err)
		}
	}, nil
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func bookmarkAt(rv string) wire.Event[object.Head] {
	o := podAt("", rv, nil)
	o.Name, o.Namespace = "", ""
	return wire.Event[object.Head]{Type: watch.Bookmark, Object: o}
}

// A quiet kind is behind a load balancer that cuts each watch after 50 s.
func TestQuietKindIsNotStaleIfItsWatchesAreCut(t *testing.T) {
	for _, bookmarkFirst := range []bool{false, true} {
		t.Run(strconv.FormatBool(bookmarkFirst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := true
				from := &scripted{list: func() ([]podPtr, string) { return []podPtr{podAt("x", "5", nil)}, "10" }}
				from.watch = func(ctx context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) error {
					if first && bookmarkFirst {
						first = false
						if !yield(bookmarkAt("10"), nil) {
							return nil
						}
					}
					pause(ctx, 50*time.Second)
					return io.ErrUnexpectedEOF
				}
				i := New[podPtr](from, Options{Initial: reflector.List})
				_, err := i.Start(t.Context())
				require.NoError(t, err)
				require.NoError(t, i.WaitForSync(t.Context()))
				time.Sleep(20 * time.Minute)
				stale := 0
				for range 3600 {
					time.Sleep(time.Second)
					s := i.Status()
					if len(s.Stale(time.Now(), 15*time.Minute)) > 0 {
						stale++
					}
				}
				require.Zero(t, stale)
			})
		})
	}
}

// A proxy accepts each watch, forwards nothing for 30 s, and cuts it.
func TestL17_SilentWatchesAreReplacedByLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rv := atomic.Int64{}
		rv.Store(10)
		from := &scripted{list: func() ([]podPtr, string) {
			return []podPtr{podAt("x", strconv.Itoa(int(rv.Load())), nil)}, strconv.Itoa(int(rv.Load()))
		}}
		from.watch = func(ctx context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) error {
			pause(ctx, 30*time.Second)
			return io.ErrUnexpectedEOF
		}
		i := New[podPtr](from, Options{Initial: reflector.List})
		_, err := i.Start(t.Context())
		require.NoError(t, err)
		require.NoError(t, i.WaitForSync(t.Context()))
		rv.Store(20)
		time.Sleep(6 * time.Hour)
		o, _ := i.Cache().Get(object.Key{Namespace: "a", Name: "x"})
		require.Equal(t, "20", o.ResourceVersion)
	})
}

// Repeated events arrive late, between a superseded list and the newer one.
func TestL13_SupersededListDoesNotMarkTheServerUnordered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var phase atomic.Int64
		from := &scripted{}
		from.list = func() ([]podPtr, string) {
			switch phase.Load() {
			case 0:
				return []podPtr{podAt("x", "5", nil), podAt("b", "6", nil)}, "10"
			case 1:
				return []podPtr{podAt("x", "90", nil), podAt("b", "11", nil)}, "100"
			default:
				return []podPtr{podAt("x", "90", nil), podAt("b", "11", nil)}, "120"
			}
		}
		var turn atomic.Int64
		release, blocks := make(chan struct{}), atomic.Bool{}
		from.watch = func(ctx context.Context, o source.Request, yield func(wire.Event[object.Head], error) bool) error {
			switch turn.Add(1) {
			case 1: // blocks the index, then expires
				pause(ctx, time.Second)
				blocks.Store(true)
				if !yield(wire.Event[object.Head]{Type: watch.Modified, Object: podAt("b", "11", nil)}, nil) {
					return nil
				}
				pause(ctx, time.Second)
				phase.Store(1)
				return apierrors.NewResourceExpired("old")
			case 2: // from 100: a repeated event, then expires
				if !yield(wire.Event[object.Head]{Type: watch.Modified, Object: podAt("x", "90", nil)}, nil) {
					return nil
				}
				pause(ctx, time.Second)
				phase.Store(2)
				return apierrors.NewResourceExpired("old")
			}
			<-ctx.Done()
			return nil
		}
		i := New[podPtr](from, Options{Initial: reflector.List})
		AddIndex(i, "stuck", func(podPtr) []string {
			if blocks.Load() {
				<-release
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		require.NoError(t, i.WaitForSync(ctx))
		time.Sleep(time.Minute)
		blocks.Store(false)
		close(release)
		time.Sleep(time.Minute)
		s := i.Status()
		require.EqualValues(t, 3, from.lists.Load())
		require.NotZero(t, s.QueueMerged)
		require.False(t, s.Reflector.Unordered, "the server is ordered")
		cancel()
		_ = wait()
	})
}

// Watches do not count as failing during the time between two runs.
func TestL19_TimeBetweenTwoRunsIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &scripted{list: func() ([]podPtr, string) { return []podPtr{podAt("x", "5", nil)}, "10" }}
		var down atomic.Bool
		from.open = func() error {
			if down.Load() {
				return errors.New("connection refused")
			}
			return nil
		}
		from.watch = func(ctx context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) error {
			pause(ctx, 5*time.Second)
			if ctx.Err() == nil {
				down.Store(true)
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		i := New[podPtr](from, Options{Initial: reflector.List})
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		require.NoError(t, i.WaitForSync(ctx))
		time.Sleep(10 * time.Second)
		cancel()
		require.NoError(t, wait())
		time.Sleep(time.Hour)
		ctx, cancel = context.WithCancel(t.Context())
		wait, err = i.Start(ctx)
		require.NoError(t, err)
		time.Sleep(1500 * time.Millisecond)
		down.Store(false)
		time.Sleep(3 * time.Second)
		lists := from.lists.Load()
		cancel()
		_ = wait()
		require.EqualValues(t, 1, lists, "one refused connection in this run, and no ten minutes of failures")
	})
}
