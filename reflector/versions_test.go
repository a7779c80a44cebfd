package reflector

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// lasting is a script whose watches, except for the last, stay open for a while after their events.
type lasting struct {
	*script
	lifetime time.Duration
}

func (l lasting) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	seq, err := l.script.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		seq(yield)
		select {
		case <-time.After(l.lifetime):
		case <-ctx.Done():
		}
	}, nil
}

// The server was restored from a backup. It is silent until its history reaches the version of the
// watch, which may take days.
func TestAServerThatWentBackIsListed(t *testing.T) {
	for name, c := range map[string]struct {
		lifetime time.Duration // of a watch
		watches  []answer
		asked    []string
	}{
		"mute watches, each too short to tell": {
			lifetime: 50 * time.Second,
			watches:  []answer{{events: []wire.Event[object.Head]{change(watch.Added, "a", 90), endOfInitial(100)}}, {}, {}, {}},
			asked:    []string{`watch rv="" initial`, `watch rv="100"`, `watch rv="100"`, `watch rv="100"`, `list rv="" limit=1`, `watch rv="" initial`},
		},
		"a mute watch": {
			lifetime: 5 * time.Minute,
			watches:  []answer{{events: []wire.Event[object.Head]{change(watch.Added, "a", 90), endOfInitial(100)}}, {}},
			asked:    []string{`watch rv="" initial`, `watch rv="100"`, `list rv="" limit=1`, `watch rv="" initial`},
		},
		"a bookmark": {
			lifetime: 5 * time.Minute,
			watches:  []answer{{events: []wire.Event[object.Head]{change(watch.Added, "a", 90), endOfInitial(100)}}, {events: []wire.Event[object.Head]{change(watch.Bookmark, "", 60)}}},
			asked:    []string{`watch rv="" initial`, `watch rv="100"`, `watch rv="" initial`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					lists:   []answer{{rv: "60", items: []object.Head{obj("a", 50)}}},
					watches: append(c.watches, answer{events: []wire.Event[object.Head]{change(watch.Added, "a", 50), endOfInitial(60)}, block: true}),
				}
				r := New(lasting{s, c.lifetime}, deltafifo.New(deltafifo.Options{}), Options{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(time.Duration(len(c.watches))*c.lifetime + time.Minute)
				synctest.Wait()
				require.Equal(t, c.asked, s.asked)
				require.Equal(t, "60", r.Status().RV)
				require.ErrorIs(t, r.Status().Failure, ErrWentBack)
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// Such a list is not queued, so the reflector is not Watching.
func TestL22_StreamingListThatWentBackIsNotWatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{watches: []answer{
			{events: []wire.Event[object.Head]{change(watch.Added, "a", 90), endOfInitial(100)}},
			{err: apierrors.NewResourceExpired("too old resource version")},
			{events: []wire.Event[object.Head]{change(watch.Added, "a", 50), endOfInitial(60)}},
			{events: []wire.Event[object.Head]{change(watch.Added, "a", 50), endOfInitial(60)}, block: true},
		}}
		var told []string
		r := New(lasting{s, time.Minute}, deltafifo.New(deltafifo.Options{}), Options{Initial: WatchList, OnState: func(s Status) {
			told = append(told, fmt.Sprintf("%s at %q, %d failed", s.State, s.RV, s.Attempts))
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(5 * time.Minute)
		cancel()
		require.NoError(t, <-ended)
		require.ErrorIs(t, r.Status().Failure, ErrWentBack)
		require.Equal(t, []string{
			`InitialWatch at "", 0 failed`, `Watching at "100", 0 failed`,
			`Connecting at "100", 0 failed`, `BackingOff at "100", 1 failed`,
			`InitialWatch at "100", 1 failed`, `BackingOff at "100", 2 failed`,
			`InitialWatch at "100", 2 failed`, `Watching at "60", 0 failed`,
			`Stopped at "60", 0 failed`,
		}, told)
	})
}

// If a caller reports that the watch missed a change, the watch may be waiting for a version that the
// server lost. The reflector asks the server immediately.
func TestWatchThatDeliversNothingOnAServerThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists: []answer{{rv: "60", items: []object.Head{obj("a", 50)}}},
			watches: []answer{
				{events: []wire.Event[object.Head]{change(watch.Added, "a", 90), endOfInitial(100)}, block: true},
				{events: []wire.Event[object.Head]{change(watch.Added, "a", 50), endOfInitial(60)}, block: true},
			},
		}
		r := New(s, deltafifo.New(deltafifo.Options{}), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		s.asking = func() { require.NotEqual(t, Watching, r.Status().State, "no watch is open") }
		r.Reconnect(fmt.Errorf("%w: a write at 60", ErrDeaf))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{`watch rv="" initial`, `list rv="" limit=1`, `watch rv="" initial`}, s.asked)
		require.Equal(t, "60", r.Status().RV)
		require.ErrorIs(t, r.Status().Failure, ErrWentBack)
		cancel()
		require.NoError(t, <-ended)
	})
}

// The reflector asks servers that send no bookmarks for one item, and then leaves them alone. If there is no response,
// the watch has proved nothing.
func TestSilentWatchOfAnUpToDateServerContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists:   []answer{{rv: "100", items: []object.Head{obj("a", 90), obj("b", 91)}}, {err: context.DeadlineExceeded}},
			watches: []answer{{events: []wire.Event[object.Head]{endOfInitial(100)}}, {}, {}, {block: true}},
		}
		r := New(lasting{s, 5 * time.Minute}, deltafifo.New(deltafifo.Options{}), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(19 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{`watch rv="" initial`, `watch rv="100"`, `list rv="" limit=1`, `watch rv="100"`, `list rv="" limit=1`, `watch rv="100"`}, s.asked)
		require.EqualValues(t, 1, r.Status().Failures)
		require.ErrorContains(t, r.Status().Failure, "check whether the history went back: ")
		cancel()
		require.NoError(t, <-ended)
	})
}

// A proxy accepts watches and forwards nothing, and a caller notices again and again that changes are missing. After
// ten minutes, the reflector lists.
func TestL19_AWatchThatStaysDeafLeadsToAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: slices.Repeat([]answer{{rv: "100"}}, 1000)}
		r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for range 15 * 6 {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if r.Status().State == Watching {
				r.Reconnect(ErrDeaf)
			}
		}
		require.GreaterOrEqual(t, r.Status().Lists, uint64(2))
		require.True(t, r.Status().Polling)
		cancel()
		require.NoError(t, <-ended)
	})
}

// If the server asks for patience, the next watch waits for that long.
func TestNextWatchHonoursRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		watch answer
		after func(*Reflector)
		about []error
	}{
		"a deaf watch": {answer{block: true}, func(r *Reflector) { r.Reconnect(ErrDeaf) }, []error{ErrDeaf}},
		"a mute watch": {answer{}, func(*Reflector) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					lists:   []answer{{rv: "100"}, {err: apierrors.NewTooManyRequests("busy", 40)}},
					watches: []answer{c.watch, {block: true}},
				}
				r := New(lasting{s, 5 * time.Minute}, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				synctest.Wait()
				c.after(r)
				for range 6 * 60 {
					if time.Sleep(time.Second); r.Status().Failures > 0 {
						break
					}
				}
				last := r.Status().Failure
				require.True(t, apierrors.IsTooManyRequests(last.Err), last)
				require.ErrorContains(t, last, "check whether the history went back: ")
				for _, about := range c.about {
					require.ErrorIs(t, last, about)
				}
				time.Sleep(time.Until(last.Last.Add(39 * time.Second)))
				require.EqualValues(t, 1, r.Status().Watches)
				time.Sleep(time.Minute)
				cancel()
				require.NoError(t, <-ended)
				require.Equal(t, []string{`list rv="0" limit=0`, `watch rv="100"`, `list rv="" limit=1`, `watch rv="100"`}, s.asked)
			})
		})
	}
}

// A restored history may reach the same version with other content.
func TestKnownObjectsAreNotReusedAfterTheHistoryWentBack(t *testing.T) {
	expired := answer{broken: apierrors.NewResourceExpired("too old resource version")}
	for name, c := range map[string]struct {
		watch answer
		lists int // until the cache is renewed
	}{
		"a bookmark":         {answer{events: []wire.Event[object.Head]{change(watch.Bookmark, "", 60)}}, 1},
		"a list that is low": {expired, 2},
	} {
		t.Run(name, func(t *testing.T) {
			cached := obj("a", 50)
			item := []object.Head{obj("a", 50)}
			s := &script{
				lists:   []answer{{rv: "100", items: item}},
				watches: []answer{c.watch, {events: []wire.Event[object.Head]{change(watch.Added, "b", 70)}, broken: expired.broken}},
			}
			for range c.lists {
				s.lists = append(s.lists, answer{rv: "60", items: item})
			}
			s.lists = append(s.lists, answer{rv: "80", items: item})
			known := func(key object.Key) (object.Head, bool) { return cached, key.Name == "a" }
			var replaced []deltafifo.Delta
			synctest.Test(t, func(t *testing.T) {
				queue := new(taken)
				r := New(&keeper{s}, queue, Options{Initial: List, Known: known})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(time.Minute)
				cancel()
				require.NoError(t, <-ended)
				require.Equal(t, "80", r.Status().RV)
				for _, d := range queue.deltas {
					if d.Type == deltafifo.Replaced {
						replaced = append(replaced, d)
					}
				}
			})
			require.Len(t, replaced, 3)
			for n, back := range []bool{true, false, true} {
				require.Equal(t, back, replaced[n].Items[0] == cached, "list %d", n)
				require.Equal(t, !back, replaced[n].NewHistory, "list %d", n)
			}
		})
	}
}

// If versions are not ordered, a bookmark below the last version does not prove anything.
func TestAServerWithoutOrderGoesBackThreeTimes(t *testing.T) {
	s := &script{lists: []answer{{rv: "10"}}}
	for range 8 {
		s.lists = append(s.lists, answer{rv: "10"})
		s.watches = append(s.watches, answer{events: []wire.Event[object.Head]{change(watch.Modified, "a", 50), change(watch.Bookmark, "", 20)}})
	}
	synctest.Test(t, func(t *testing.T) {
		r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
		r.Settle(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 1+maxRollbacks, r.Status().Lists)
		require.Equal(t, `watch rv="20"`, s.asked[len(s.asked)-1])
		cancel()
		require.NoError(t, <-ended)
	})
}
