package reflector

import (
	"context"
	"iter"
	"strconv"
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

// odd is a server with empty lists at a given version and watches defined by a function.
type odd struct {
	script
	rv    int
	watch func(ctx context.Context, req source.Request, yield func(wire.Event[object.Head], error) bool)
}

func (s *odd) List(ctx context.Context, req source.Request) source.List[object.Head] {
	s.lists = []answer{{rv: strconv.Itoa(s.rv)}}
	return s.script.List(ctx, req)
}

func (s *odd) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) { s.watch(ctx, req, yield) }, nil
}

// live runs a reflector of s for some time, and returns its final status.
func live(t *testing.T, s source.ListerWatcher, long time.Duration) (status Status) {
	synctest.Test(t, func(t *testing.T) {
		r := New(s, new(taken), Options{Initial: List})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(long)
		status = r.Status()
		cancel()
		require.NoError(t, <-ended)
	})
	return status
}

// Some aggregated servers send bookmarks without a version.
func TestBookmarkWithoutAVersionIsIgnored(t *testing.T) {
	bare := change(watch.Bookmark, "", 0)
	bare.Object.(partial).ResourceVersion = ""
	s := &script{lists: []answer{{rv: "5"}}, watches: []answer{{block: true, events: []wire.Event[object.Head]{
		change(watch.Added, "a", 6), bare, change(watch.Modified, "a", 7),
	}}}}
	queued, r := play(t, s, Options{Initial: List})
	require.Equal(t, []string{"replaced @5", "added a@6", "updated a@7"}, queued)
	require.Nil(t, r.Status().Failure)
	require.EqualValues(t, 1, r.Status().Watches)
}

// Bookmarks that lag behind the events of their watch do not indicate a lost history.
func TestL19_BookmarksThatLagLeadToNoList(t *testing.T) {
	s := &script{lists: []answer{{rv: "5"}}, watches: []answer{{block: true, events: []wire.Event[object.Head]{
		change(watch.Added, "a", 8), change(watch.Bookmark, "", 7), change(watch.Modified, "a", 9),
	}}}}
	queued, r := play(t, s, Options{Initial: List})
	require.Equal(t, []string{"replaced @5", "added a@8", "updated a@9"}, queued)
	require.Nil(t, r.Status().Failure)
	require.Equal(t, "9", r.Status().RV)
}

// A watch from "0" may begin at any version, so objects deleted since the list would stay.
func TestL13_AListOfVersionZeroIsRefused(t *testing.T) {
	zero := endOfInitial(0)
	s := &script{lists: []answer{{rv: "0"}, {rv: "5"}}, watches: []answer{{events: []wire.Event[object.Head]{zero}}}}
	_, r := play(t, s, Options{})
	require.ErrorIs(t, r.Status().Failure, ErrNoRV)
	require.Equal(t, []string{`watch rv="" initial`, `watch rv="" initial`, `list rv="0" limit=0`, `list rv="0" limit=0`, `watch rv="5"`}, s.asked)
}

// Every watch is closed immediately, after a change that only looks new.
func TestL19_NoHotLoopOfShortWatches(t *testing.T) {
	for name, event := range map[string]func(n int) wire.Event[object.Head]{
		"a bookmark that moves":            func(n int) wire.Event[object.Head] { return change(watch.Bookmark, "", 10+n) },
		"a change that is news":            func(n int) wire.Event[object.Head] { return change(watch.Modified, "a", 10+n) },
		"versions that move to and fro":    func(n int) wire.Event[object.Head] { return change(watch.Modified, "a", 2+n%2) },
		"a version that is that of a list": func(n int) wire.Event[object.Head] { return change(watch.Modified, "a", 10) },
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			s := &odd{rv: 10}
			s.watch = func(_ context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) {
				time.Sleep(time.Millisecond)
				n++
				yield(event(n), nil)
			}
			status := live(t, s, 10*time.Minute)
			require.Less(t, status.Watches, uint64(90), "three a back-off at most, and that grows to 30 s")
		})
	}
}

// A server or proxy does not end a watch when asked to, and keeps sending.
func TestL20_ABusyWatchThatOutlivesItsTimeIsNotSilent(t *testing.T) {
	for name, pause := range map[string]time.Duration{"busy": time.Second, "rarely": 25 * time.Second} {
		t.Run(name, func(t *testing.T) {
			s := &odd{rv: 10}
			s.watch = func(ctx context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) {
				for n := 11; ctx.Err() == nil; n++ {
					select {
					case <-time.After(pause):
						if !yield(change(watch.Modified, "a", n), nil) {
							return
						}
					case <-ctx.Done():
					}
				}
			}
			status := live(t, s, time.Hour)
			require.Nil(t, status.Failure)
			require.EqualValues(t, 1, status.Watches)
		})
	}
}

// The same watch, once it is silent.
func TestL20_AWatchThatOutlivesItsTimeAndFallsSilentIsDead(t *testing.T) {
	s := &odd{rv: 10}
	s.watch = func(ctx context.Context, _ source.Request, yield func(wire.Event[object.Head], error) bool) {
		for n := range 60 {
			time.Sleep(20 * time.Second)
			if !yield(change(watch.Modified, "a", 11+n), nil) {
				return
			}
		}
		<-ctx.Done()
		yield(wire.Event[object.Head]{}, ctx.Err())
	}
	status := live(t, s, 22*time.Minute)
	require.ErrorIs(t, status.Failure, ErrStalled)
	require.Equal(t, failure.PhaseWatch, status.Failure.Phase)
}

// A step of the wall clock does not make the state look old.
func TestAStepOfTheClockMakesNoStateOld(t *testing.T) {
	r := New(&script{}, deltafifo.New(deltafifo.Options{}), Options{})
	r.noteHeard(time.Now())
	require.Less(t, time.Since(r.Status().Heard), time.Minute)
	require.Contains(t, r.Status().Heard.String(), "m=", "a monotonic clock reading: package time")
}
