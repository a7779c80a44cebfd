package sharedinformer

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// restored is a source with snapshots, which returns the list and the events that a test gives it.
type restored struct {
	mu     sync.Mutex
	items  []object.Head
	rv     string
	fail   error
	events chan wire.Event[object.Head]
}

func (*restored) Describe() source.Description {
	return source.Description{Name: "things", Origin: func() (source.Origin, bool) {
		return source.Origin{
			Kind: object.GVK{Version: "v1", Kind: "Thing"}, Type: reflect.TypeFor[partial](), Server: "s",
			Cluster: func(context.Context) (string, error) { return "c", nil },
		}, true
	}}
}

// answer sets the result of lists.
func (s *restored) answer(rv string, fail error, items ...object.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items, s.rv, s.fail = items, rv, fail
}

func (s *restored) List(context.Context, source.Request) source.List[object.Head] {
	meta := new(metav1.ListMeta)
	return source.List[object.Head]{Meta: meta, Items: func(yield func(object.Head, error) bool) {
		s.mu.Lock()
		items, fail := s.items, s.fail
		meta.ResourceVersion = s.rv
		s.mu.Unlock()
		if fail != nil {
			yield(nil, fail)
			return
		}
		for _, o := range items {
			if !yield(o, nil) {
				return
			}
		}
	}}
}

func (s *restored) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		for {
			select {
			case e := <-s.events:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// partialBookmark returns a bookmark at a version.
func partialBookmark(rv string) wire.Event[object.Head] {
	return wire.Event[object.Head]{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}}
}

// beginRestored runs an informer with snapshots in dir until it is synced. The returned function stops it.
func beginRestored(t *testing.T, s *restored, dir string) (i *Informer[partial], stop func()) {
	i = informerOf(s, Options{Snapshot: snapshot.In(dir, snapshot.Options{Interval: time.Minute})})
	stop = runFor(t, i)
	require.NoError(t, i.WaitForSync(t.Context()))
	return i, stop
}

func snapshotsIn(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	require.NoError(t, err)
	return files
}

// The server was restored from a backup. While the list that would replace the lost history fails, its file is
// removed, and is not written again, not even when the informer stops.
func TestL17_NoFileOfALostHistory(t *testing.T) {
	for name, changed := range map[string]bool{"the file is current": false, "a change was not written yet": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := &restored{events: make(chan wire.Event[object.Head])}
				s.answer("20", nil, in("n", "a", 5), in("n", "x", 18))
				i, stop := beginRestored(t, s, dir)
				time.Sleep(2 * time.Minute)
				require.Len(t, snapshotsIn(t, dir), 1)
				if changed {
					s.events <- wire.Event[object.Head]{Type: watch.Modified, Object: in("n", "x", 21)}
				}
				s.answer("12", errors.New("overloaded"), in("n", "a", 5), in("n", "x", 11))
				s.events <- partialBookmark("12")
				synctest.Wait()
				require.ErrorIs(t, i.Status().Reflector.Failure, reflector.ErrWentBack)
				require.Empty(t, snapshotsIn(t, dir))
				time.Sleep(10 * time.Minute)
				require.Empty(t, snapshotsIn(t, dir))
				stop()
				require.Empty(t, snapshotsIn(t, dir))

				s.answer("12", nil, in("n", "a", 5), in("n", "x", 11))
				stop = runFor(t, i)
				time.Sleep(time.Minute)
				stop()
				files := snapshotsIn(t, dir)
				require.Len(t, files, 1)
				file, err := snapshot.Open(files[0])
				require.NoError(t, err)
				require.Equal(t, "12", file.RV)
			})
		})
	}
}

// A file written before the server's versions turned out to be unordered does not stay: the next process would
// take its version for proof that it includes every change up to there.
func TestC02_NoFileOfAnUnorderedServer(t *testing.T) {
	for name, running := range map[string]time.Duration{"while it runs": 5 * time.Minute, "when it stops": 0} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := &restored{events: make(chan wire.Event[object.Head])}
				s.answer("10", nil, in("n", "a", 10), in("n", "b", 5))
				i, stop := beginRestored(t, s, dir)
				defer func() { stop() }()
				time.Sleep(30 * time.Second)
				require.Len(t, snapshotsIn(t, dir), 1)
				s.events <- wire.Event[object.Head]{Type: watch.Modified, Object: in("n", "b", 7)}
				synctest.Wait()
				require.True(t, i.Status().Reflector.Unordered)
				if running == 0 {
					stop()
					stop = func() {}
				}
				time.Sleep(running)
				require.Empty(t, snapshotsIn(t, dir))
				require.Nil(t, i.Status().Snapshot.Failure)
			})
		})
	}
}

// The status says why the server refused a file.
func TestL22_TheStatusSaysWhyAFileWasRefused(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &restored{events: make(chan wire.Event[object.Head])}
		for _, run := range []struct{ rv, unused string }{
			{"20", ""}, {"10", "the server is at version 10, the saved state at 20: " + reflector.ErrWentBack.Error()}, {"10", ""},
		} {
			s.answer(run.rv, nil, in("n", "a", 4))
			i, stop := beginRestored(t, s, dir)
			require.Equal(t, run.unused, i.Status().Snapshot.Unused)
			stop()
		}
	})
}
