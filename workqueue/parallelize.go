package workqueue

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/failure"
)

// chunksPerWorker is the number of chunks per worker if all workers are equally fast. It is large enough that
// a slow piece causes little delay, and small enough that the cost of taking chunks is negligible.
const chunksPerWorker = 8

// PiecePanic is the value Parallelize panics with if a piece panics.
type PiecePanic struct {
	Piece int    // index of the piece
	Value any    // the value it panicked with
	Stack []byte // stack of the goroutine that panicked
}

// Error returns a message with the piece, the value and the stack trace.
func (p *PiecePanic) Error() string {
	return fmt.Sprintf("piece %d panicked: %v\n\n%s", p.Piece, p.Value, p.Stack)
}

// Unwrap returns the panic value if it is an error.
func (p *PiecePanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Parallelize calls do with each number from 0 to pieces-1, in at most the given number of goroutines. It
// returns when all calls have returned and all goroutines have exited. Pieces are taken in order, in chunks
// of a size that suits pieces of similar duration; see [ParallelizeChunks].
//
// It returns nil if every piece was done. If ctx is done, no more pieces are started, and the error contains
// the cause and the number of completed pieces. If a piece calls runtime.Goexit, other pieces may not be
// done, and the error is a *failure.GoexitError. If a piece panics, no more pieces are started, and
// Parallelize panics in the caller's goroutine with a *PiecePanic describing the first panic.
func Parallelize(ctx context.Context, workers, pieces int, do func(piece int)) error {
	workers = min(max(workers, 1), max(pieces, 1))
	return ParallelizeChunks(ctx, workers, pieces, pieces/(workers*chunksPerWorker), do)
}

// ParallelizeChunks is [Parallelize] with an explicit chunk size: each goroutine takes that many consecutive
// pieces at a time. A chunk size below 1 is treated as 1.
func ParallelizeChunks(ctx context.Context, workers, pieces, chunk int, do func(piece int)) error {
	if pieces <= 0 {
		return nil
	}
	chunk = min(max(chunk, 1), pieces)
	chunks := (pieces-1)/chunk + 1
	work := parallel{ctx: ctx, pieces: pieces, chunk: chunk, chunks: int64(chunks), do: do}
	var running sync.WaitGroup
	for range min(max(workers, 1), chunks) {
		running.Go(work.run)
	}
	running.Wait()
	if p := work.panicked.Load(); p != nil {
		panic(p)
	}
	if done := work.done.Load(); done < int64(pieces) {
		return fmt.Errorf("parallelize: %d of %d pieces done: %w", done, pieces, work.stopCause())
	}
	return nil
}

// parallel is a single call to ParallelizeChunks.
type parallel struct {
	ctx      context.Context
	pieces   int
	chunk    int
	chunks   int64
	do       func(int)
	next     atomic.Int64 // chunk to take
	done     atomic.Int64 // pieces done
	panicked atomic.Pointer[PiecePanic]
}

// run takes chunks until none are left.
func (p *parallel) run() {
	for {
		c := p.next.Add(1) - 1
		if c >= p.chunks {
			return
		}
		from := int(c) * p.chunk
		if !p.runChunk(from, min(p.chunk, p.pieces-from)) {
			return
		}
	}
}

// runChunk runs n pieces and reports whether to continue.
func (p *parallel) runChunk(from, n int) bool {
	piece, end := from, from+n
	defer func() {
		p.done.Add(int64(piece - from))
		if piece == end {
			return
		}
		if v := recover(); v != nil {
			p.panicked.CompareAndSwap(nil, &PiecePanic{Piece: piece, Value: v, Stack: debug.Stack()})
		}
	}()
	for ; piece < end; piece++ {
		if p.panicked.Load() != nil || p.ctx.Err() != nil {
			return false
		}
		p.do(piece)
	}
	return true
}

// stopCause returns an error describing why some pieces were not done although none panicked.
func (p *parallel) stopCause() error {
	if err := context.Cause(p.ctx); err != nil {
		return err
	}
	return &failure.GoexitError{In: "a piece"}
}
