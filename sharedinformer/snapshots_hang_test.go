package sharedinformer

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/snapshot"
)

// A file system that hangs while files are written is a failure, and does not keep the informer from stopping.
// A file system that responds again is used again. In the test the question for the cluster hangs, because no
// regular file does.
func TestL23_WritingSnapshotsHangs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, hangs := newWorld(), make(chan struct{})
		w.put("a", "x", func(partial) {})
		ask := func() (string, error) {
			<-hangs
			return "c", nil
		}
		var reported []*failure.Failure
		i := informerOf(asked{traced{part{w}}, ask}, Options{
			Snapshot: snapshot.In(dir, snapshot.Options{Interval: time.Minute}),
			OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
				if f.Phase == failure.PhaseSnapshot {
					reported = append(reported, f)
				}
				return failure.Retry
			},
		})
		stop := runFor(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Len(t, reported, 1)
		require.ErrorIs(t, reported[0], errHangs)
		require.ErrorIs(t, i.Status().Snapshot.Failure, errHangs)
		began := time.Now()
		stop()
		require.LessOrEqual(t, time.Since(began), lastSaveTimeout+2*stopGrace)
		require.ErrorIs(t, i.Status().Snapshot.Failure, errSaveTimeout)

		began, stop = time.Now(), runFor(t, i)
		synctest.Wait()
		stop()
		require.LessOrEqual(t, time.Since(began), lastSaveTimeout+2*stopGrace)

		close(hangs)
		defer runFor(t, i)()
		time.Sleep(5 * time.Minute)
		require.Nil(t, i.Status().Snapshot.Failure)
		files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
		require.NoError(t, err)
		require.Len(t, files, 1)
	})
}

// If the file cannot be read in time, the informer lists. Nor does its stop wait for the file.
func TestC02_ReadingASnapshotHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, hangs := newWorld(), make(chan struct{})
		defer close(hangs)
		w.put("a", "x", func(partial) {})
		i := informerOf(traced{part{w}}, Options{Snapshot: snapshot.In(t.TempDir(), snapshot.Options{})})
		var reads atomic.Int32
		i.core.(*core).snapshots.open = func(snapshot.Label) (*snapshot.File, error) {
			reads.Add(1)
			<-hangs
			return nil, nil
		}
		stop := runFor(t, i)
		synctest.Wait()
		began := time.Now()
		stop()
		require.LessOrEqual(t, time.Since(began), stopGrace)
		require.Empty(t, i.Status().Snapshot.Unused)

		defer runFor(t, i)()
		synctest.Wait()
		require.NoError(t, i.WaitForSync(t.Context()))
		require.EqualValues(t, 2, reads.Load())
		require.Equal(t, 1, i.Cache().Len())
		require.Contains(t, i.Status().Snapshot.Unused, errReadTimeout.Error())
	})
}

// An informer whose snapshots are disabled does not reserve the directory.
func TestADisabledSnapshotDoesNotReserveItsDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		d := snapshot.In(path, snapshot.Options{})
		i := informerOf(part{newWorld()}, Options{Snapshot: d})
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NotEmpty(t, i.Status().Snapshot.Off)
		for _, d := range []*snapshot.Directory{d, snapshot.In(path, snapshot.Options{})} {
			_, err := d.Write(t.Context(), snapshot.Label{}, func(*snapshot.Writer) error { return nil })
			require.NoError(t, err)
		}
	})
}
