package workqueue

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/failure"
)

// chunksPerWorker is how many chunks a worker gets if all are equally fast:
// enough that a slow piece holds up little, few enough that taking a chunk
// costs nothing beside working on it.
const chunksPerWorker = 8

// PiecePanic is what Parallelize panics with when a piece panicked.
type PiecePanic struct {
	Piece int    // index of the piece
	Value any    // what it panicked with
	Stack []byte // stack of the goroutine that panicked
}

// Error tells the piece, the value and the stack.
func (p *PiecePanic) Error() string {
	return fmt.Sprintf("piece %d panicked: %v\n\n%s", p.Piece, p.Value, p.Stack)
}

// Unwrap returns the value that the piece panicked with if that is an error.
func (p *PiecePanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Parallelize calls do for each of 0 to pieces-1, on at most the given number
// of goroutines, and returns when all calls have returned and all goroutines
// have ended. Pieces are taken in order, in chunks of a size that suits pieces
// of like duration; see ParallelizeChunks.
//
// It returns nil if every piece was done, and otherwise an error that tells how
// many were and the cause of the context's end: after that no piece is begun. A
// piece that ends its goroutine leaves others undone; the error is then a
// *failure.GoexitError.
// If a piece panics no further one is begun, and Parallelize panics in the
// caller's goroutine with a *PiecePanic of the first.
func Parallelize(ctx context.Context, workers, pieces int, do func(piece int)) error {
	workers = min(max(workers, 1), max(pieces, 1))
	return ParallelizeChunks(ctx, workers, pieces, pieces/(workers*chunksPerWorker), do)
}

// ParallelizeChunks is Parallelize where a goroutine takes the given number of
// neighbouring pieces at a time. A chunk of less than one is one.
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

// parallel is one call of ParallelizeChunks.
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

// run takes chunks until none is left.
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

// runChunk works on n pieces and reports whether to go on.
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

// stopCause says why pieces were left although none panicked.
func (p *parallel) stopCause() error {
	if err := context.Cause(p.ctx); err != nil {
		return err
	}
	return &failure.GoexitError{In: "a piece"}
}
