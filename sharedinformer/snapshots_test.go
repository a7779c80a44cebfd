package sharedinformer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// traced is a part of a world with an Origin.
type traced struct{ part }

func (p traced) Describe() source.Description {
	d := p.part.Describe()
	d.Origin = p.origin
	return d
}

func (traced) origin() (source.Origin, bool) {
	return source.Origin{
		Kind: object.GVK{Version: "v1", Kind: "Thing"}, Type: reflect.TypeFor[partial](), Server: "s",
		Cluster: func(context.Context) (string, error) { return "c", nil },
	}, true
}

// asked is traced, with a cluster returned by ask.
type asked struct {
	traced
	ask func() (string, error)
}

func (a asked) Describe() source.Description {
	d := a.traced.Describe()
	d.Origin = func() (source.Origin, bool) {
		o, ok := a.origin()
		o.Cluster = func(context.Context) (string, error) { return a.ask() }
		return o, ok
	}
	return d
}

// put adds or updates an object with change.
func (w *world) put(namespace, name string, change func(partial)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rv++
	o := thing(name, 7, w.rv)
	o.Namespace, o.UID = namespace, types.UID(namespace+name)
	change(o)
	e := wire.Event[object.Head]{Type: watch.Modified, Object: o, Received: time.Now()}
	if _, ok := w.objects[object.KeyOf(o)]; !ok {
		e.Type = watch.Added
	}
	w.objects[object.KeyOf(o)] = o
	w.history = append(w.history, e)
	close(w.more)
	w.more = make(chan struct{})
}

// An object that cannot be packed counts as a failure until the object is gone.
func TestL22_AnObjectThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", "x", func(o partial) { o.CreationTimestamp = metav1.Time{Time: time.Unix(1, 5)} })
		i := informerOf(traced{part{w}}, Options{Snapshot: snapshot.In(dir, snapshot.Options{Interval: time.Minute})})
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		time.Sleep(5 * time.Minute)
		s := i.Status().Snapshot
		require.ErrorIs(t, s.Failure, wire.ErrKeptWhole)
		require.Empty(t, s.Off)
		require.Zero(t, s.Written)
		w.put("a", "x", func(partial) {})
		time.Sleep(5 * time.Minute)
		s = i.Status().Snapshot
		require.Nil(t, s.Failure)
		require.NotZero(t, s.Written)
	})
}

// A failure to write the file of one namespace is reported once, and stays in the status until that
// file is written, whatever happens to the others.
func TestL22_OneOfTwoSnapshotsFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("b", "x", func(partial) {})
		run := func(opts Options) (i *Informer[partial], stop func()) {
			opts.Snapshot = snapshot.In(dir, snapshot.Options{Interval: time.Minute})
			i = informerOf(traced{part{w}}, opts)
			stop = runFor(t, i)
			require.NoError(t, i.WaitForSync(t.Context()))
			return i, stop
		}
		_, stop := run(Options{Namespaces: []string{"b"}})
		stop()
		files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0]))
		require.NoError(t, os.MkdirAll(filepath.Join(files[0], "full"), 0o700))

		var reported []*failure.Failure
		i, stop := run(Options{Namespaces: []string{"a", "b", "c"}, OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			if f.Phase == failure.PhaseSnapshot { // the watches are also silent
				reported = append(reported, f)
			}
			return failure.Retry
		}})
		defer stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Len(t, reported, 1)
		now := i.Status().Snapshot.Failure
		require.Greater(t, now.Attempts, 5)
		require.Equal(t, reported[0].Since, now.Since)
		require.Greater(t, now.Last, reported[0].Last)
		require.NoError(t, os.RemoveAll(files[0]))
		time.Sleep(5 * time.Minute)
		require.Nil(t, i.Status().Snapshot.Failure)
		require.FileExists(t, files[0])
	})
}

// If snapshots fail for another reason than before, the status has the new reason, which is reported too.
func TestL22_SnapshotsFailForAnotherReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause atomic.Value
		var reported []string
		i := informerOf(asked{traced{part{newWorld()}}, func() (string, error) { return "", cause.Load().(error) }}, Options{
			Snapshot: snapshot.In(t.TempDir(), snapshot.Options{Interval: time.Minute}),
			OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
				if f.Phase == failure.PhaseSnapshot {
					reported = append(reported, f.Err.Error())
				}
				return failure.Retry
			},
		})
		cause.Store(errors.New("no route"))
		stop := runFor(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		for _, text := range []string{"no route", "reset on port 1", "reset on port 2"} {
			cause.Store(errors.New(text))
			time.Sleep(5 * time.Minute)
			require.ErrorContains(t, i.Status().Snapshot.Failure, text)
		}
		stop()
		require.Equal(t, []string{"identify the cluster: no route", "identify the cluster: reset on port 1"}, reported)
	})
}

// If the last snapshot cannot be written in time during a stop, that is a failure like any other.
func TestL22_TheLastSnapshotFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(), snapshot.In(dir, snapshot.Options{})
		w.put("a", "x", func(partial) {})
		var reported []*failure.Failure
		i := informerOf(traced{part{w}}, Options{Snapshot: d, OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			reported = append(reported, f)
			return failure.Retry
		}})
		stop := runFor(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		busy := make(chan struct{})
		go func() {
			_, _ = d.Write(context.Background(), snapshot.Label{}, func(*snapshot.Writer) error { <-busy; return nil })
		}()
		synctest.Wait()
		stop()
		close(busy)
		require.Len(t, reported, 1)
		require.ErrorIs(t, reported[0], errSaveTimeout)
		require.Same(t, reported[0], i.Status().Snapshot.Failure)
	})
}

// From the first sync on the cache can be stale, even while another namespace is not listed yet.
func TestOnlyASyncedCacheIsStale(t *testing.T) {
	for _, store := range []Store{Whole, Packed} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.put("a", "x", func(partial) {})
			i := informerOf(traced{part{w}}, Options{Store: store, Namespaces: []string{"a"}, Snapshot: snapshot.In(dir, snapshot.Options{})})
			require.Zero(t, i.Stale().Len())
			stop := runFor(t, i)
			require.NoError(t, i.WaitForSync(t.Context()))
			require.Equal(t, 1, i.Stale().Len())
			stop()
			require.NoError(t, i.SetNamespaces([]string{"a", "b"}))
			require.False(t, i.HasSynced())
			require.Equal(t, 1, i.Stale().Len())
		})
	}
}

// A server that does not identify its cluster is reported once, whichever namespaces change. The failure
// ends when the server does identify it.
func TestL22_AnUnknownClusterIsReportedOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var out atomic.Bool
		ask := func() (string, error) {
			if out.Load() {
				return "", errors.New("no route")
			}
			return "c", nil
		}
		var reported []*failure.Failure
		namespaces := []string{"a", "b", "c"}
		i := informerOf(asked{traced{part{w}}, ask}, Options{
			Namespaces: namespaces, Snapshot: snapshot.In(dir, snapshot.Options{Interval: time.Minute}),
			OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
				if f.Phase == failure.PhaseSnapshot {
					reported = append(reported, f)
				}
				return failure.Retry
			},
		})
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		time.Sleep(5 * time.Minute)
		for round := range 2 {
			out.Store(true)
			for n := range namespaces { // each of them is asked first in turn
				w.put(namespaces[len(namespaces)-1-n], "x", func(partial) {})
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				require.Len(t, reported, round+1)
				require.ErrorIs(t, reported[round], errClusterUnknown)
				require.ErrorIs(t, i.Status().Snapshot.Failure, errClusterUnknown)
			}
			out.Store(false)
			time.Sleep(5 * time.Minute)
			require.Nil(t, i.Status().Snapshot.Failure)
		}
	})
}

// A directory that was removed is created again with all files, including those of namespaces
// without changes.
func TestARemovedDirectoryIsFilledAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snapshots")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for _, namespace := range []string{"a", "b"} {
			w.put(namespace, "x", func(partial) {})
		}
		i := informerOf(traced{part{w}}, Options{Namespaces: []string{"a", "b"}, Snapshot: snapshot.In(dir, snapshot.Options{Interval: time.Minute})})
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		time.Sleep(5 * time.Minute)
		before, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
		require.NoError(t, err)
		require.Len(t, before, 2)
		for _, change := range []func(){func() {}, func() { w.put("a", "x", func(partial) {}) }} {
			require.NoError(t, os.RemoveAll(dir))
			change()
			time.Sleep(5 * time.Minute)
			after, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
			require.NoError(t, err)
			require.Equal(t, before, after)
		}
	})
}

// A wrong file that cannot be removed counts as a failure until it is removed or replaced. The
// replacement stays.
func TestL22_WrongSnapshotIsNotAFailureOnceRemoved(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", "x", func(partial) {})
		i := informerOf(traced{part{w}}, Options{Snapshot: snapshot.In(dir, snapshot.Options{})})
		stop := runFor(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		stop()
		s, f := i.core.(*core).snapshots, i.core.(*core).feeds.all()[0]
		files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0]))
		require.NoError(t, os.MkdirAll(filepath.Join(files[0], "full"), 0o700))
		s.invalidate(f, false)
		s.removeInvalid(t.Context())
		require.NotNil(t, i.Status().Snapshot.Failure)
		require.NoError(t, os.RemoveAll(files[0]))
		s.removeInvalid(t.Context())
		require.Nil(t, i.Status().Snapshot.Failure)

		require.NoError(t, os.MkdirAll(filepath.Join(files[0], "full"), 0o700))
		s.invalidate(f, false)
		s.removeInvalid(t.Context())
		require.NotNil(t, i.Status().Snapshot.Failure)
		require.NoError(t, os.RemoveAll(files[0]))
		s.save(t.Context(), time.Second)
		require.Nil(t, i.Status().Snapshot.Failure)
		s.removeInvalid(t.Context())
		require.FileExists(t, files[0])
	})
}

// A change that waits for the cache is not in a file, and neither is its version: a process that
// starts from there would never receive it.
func TestC02_AgeOfAFileIsThatOfItsContents(t *testing.T) {
	from := &fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { return []podPtr{podAt("x", "1", nil)}, "1" }}
	i := New[podPtr](from, Options{Initial: reflector.List})
	ctx, stop := context.WithCancel(t.Context())
	wait, err := i.Start(ctx)
	require.NoError(t, err)
	require.NoError(t, i.WaitForSync(ctx))
	f := i.core.(*core).feeds.all()[0]
	early := 0
	for n := 2; n < 50; n++ {
		rv := strconv.Itoa(n)
		i.core.(*core).join.Lock()
		from.events <- wire.Event[object.Head]{Type: watch.Modified, Object: podAt("x", rv, nil)}
		require.Eventually(t, func() bool { return f.reflector.Status().RV == rv }, time.Minute, 100*time.Microsecond)
		i.core.(*core).join.Unlock() // for which the change waits as well
		objects, upTo := i.core.(*core).contentOf(f)
		require.Equal(t, objects.At(0).GetResourceVersion(), upTo)
		if upTo != rv {
			early++
		}
		require.NoError(t, i.WaitForRV(ctx, rv))
	}
	require.NotZero(t, early, "the change was in the cache each time")
	stop()
	require.NoError(t, wait())
}

// A Directory that was not created with In is not used.
func TestTheZeroDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := informerOf(traced{part{newWorld()}}, Options{Snapshot: new(snapshot.Directory)})
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		require.Equal(t, "a zero Directory: create it with snapshot.In", i.Status().Snapshot.Off)
	})
	_, err := new(snapshot.Directory).Write(t.Context(), snapshot.Label{}, nil)
	require.ErrorContains(t, err, "create it with snapshot.In")
}
