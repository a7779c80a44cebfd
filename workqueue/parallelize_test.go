package workqueue_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/workqueue"
)

func TestParallelizeRunsEachPieceOnce(t *testing.T) {
	for _, pieces := range []int{0, 1, 2, 7, 100, 1001} {
		for _, workers := range []int{-1, 1, 3, 200} {
			for _, chunk := range []int{-1, 1, 2, 64, 5000} {
				done := make([]atomic.Int32, pieces)
				err := workqueue.ParallelizeChunks(t.Context(), workers, pieces, chunk, func(i int) { done[i].Add(1) })
				require.NoError(t, err)
				for i := range done {
					if got := done[i].Load(); got != 1 {
						t.Fatalf("pieces %d workers %d chunk %d: piece %d was done %d times, want 1", pieces, workers, chunk, i, got)
					}
				}
			}
		}
	}
	var n atomic.Int32
	require.NoError(t, workqueue.Parallelize(t.Context(), 16, 1000, func(int) { n.Add(1) }))
	require.EqualValues(t, 1000, n.Load())
}

func TestParallelizeUsesAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, workqueue.Parallelize(t.Context(), 4, 8, func(int) { time.Sleep(time.Second) }))
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestParallelizeStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		var running, done atomic.Int32
		err := workqueue.ParallelizeChunks(ctx, 2, 100, 10, func(int) {
			running.Add(1)
			defer running.Add(-1)
			time.Sleep(time.Second)
			if done.Add(1) == 4 {
				cancel(stop)
			}
		})
		require.ErrorIs(t, err, stop)
		require.Contains(t, err.Error(), " of 100 pieces done: enough")
		require.Zero(t, running.Load(), "all calls must have returned")
		require.LessOrEqual(t, done.Load(), int32(5))
	})
}

func explode() { panic(errors.New("boom")) }

func TestParallelizePanicsInTheCallerAfterAllWorkersEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		defer func() {
			var p *workqueue.PiecePanic
			require.ErrorAs(t, recover().(error), &p)
			require.Equal(t, 3, p.Piece)
			require.EqualError(t, errors.Unwrap(p), "boom")
			require.True(t, strings.Contains(string(p.Stack), "explode"), "stack: %s", p.Stack)
			require.Contains(t, p.Error(), "piece 3 panicked: boom")
			require.Zero(t, running.Load())
		}()
		_ = workqueue.ParallelizeChunks(t.Context(), 4, 100, 1, func(i int) {
			running.Add(1)
			defer running.Add(-1)
			if i == 3 {
				explode()
			}
			time.Sleep(time.Second)
			if i > 3 {
				t.Errorf("piece %d was begun after the panic", i)
			}
		})
		t.Error("no panic")
	})
}

func TestParallelizeReportsPiecesThatCalledGoexit(t *testing.T) {
	err := workqueue.Parallelize(t.Context(), 1, 3, func(int) { runtime.Goexit() })
	require.ErrorContains(t, err, "0 of 3 pieces done")
	require.EqualError(t, err, "parallelize: 0 of 3 pieces done: a piece called runtime.Goexit, as testing.T.FailNow does")
	require.ErrorAs(t, err, new(*failure.GoexitError))
}
