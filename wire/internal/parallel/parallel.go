// Package parallel decodes the values in a body on all CPUs and yields them in order. The goroutine that
// reads the body finds the values and helps decode them. Other goroutines only decode, and exit when
// there is no work left.
package parallel

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// batchBytes is the minimum amount of input, in bytes, that is worth handing to another goroutine.
const batchBytes = 32 << 10

// Decoder decodes the values in a body on all CPUs and yields them in order. The goroutine that ranges over
// the body reads it and finds the values. Once it has found a batch, another goroutine may decode it. Before
// it reads more, it helps until everything found so far has been decoded and yielded:
//
//	body → source → batch | batch | batch | rest     found in what has arrived
//	                  ↓       ↓       ↓      ↓
//	                worker  caller  worker  caller   decode
//	                  ↓       ↓       ↓      ↓
//	                yield → yield → yield → yield    the caller
//
// Therefore every value is yielded before the source waits for more input, values stay in the source's
// buffer until they have been decoded, and no other part of the body is in memory. If less than a batch
// arrives at once, the calling goroutine decodes it alone, value by value.
type Decoder[V any] struct {
	yield     func(V) bool
	newDecode func() Decode[V] // called once per goroutine

	decode  Decode[V]                       // the caller's
	spare   memory.Reusable[workerState[V]] // for workers
	items   []frame.Item                    // found since the last batch
	bytes   int                             // of items
	tape    frame.Tape                      // of items
	before  int                             // number of values found before items
	batches []*batch[V]                     // since the last read, in order
	work    chan *batch[V]                  // batches to decode; nil if there are no workers
	workers sync.WaitGroup
	running int // workers
	stopped atomic.Bool
	failure error // error about a value, or ErrStopped; nothing is yielded after it
}

// ErrStopped stops reading when the consumer has stopped. It is not returned to callers.
var ErrStopped = errors.New("stopped by the consumer")

// Decode decodes a value. number identifies the value in messages.
type Decode[V any] func(i frame.Item, number int) (V, error)

// batch is a run of values in a body, with its own tape. Decoding a value may write to its part of the tape.
type batch[V any] struct {
	items  []frame.Item
	tape   frame.Tape
	number int // number of the first item

	done  chan struct{} // contains a token when the fields below are complete
	out   []V
	err   error // error about the value after the last one in out
	panic *Panic
	ended bool // false if decode called runtime.Goexit
}

// Panic is a panic that occurred while decoding a value, with the stack of the decoding goroutine,
// which may not be the caller's.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns the value and the stack, as printed when the program crashes.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\nwhile decoding, in\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error, and nil otherwise.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// workerState is reused by the workers of the next burst.
type workerState[V any] struct {
	decode []Decode[V] // one per worker
	free   []*batch[V]
}

// maxReusedItems is the maximum number of items whose memory is kept between reads.
const maxReusedItems = 1 << 6

// New returns a Decoder for the values in a body. It flushes before s reads more.
func New[V any](s *frame.Source, newDecode func() Decode[V], yield func(V) bool) *Decoder[V] {
	d := &Decoder[V]{yield: yield, newDecode: newDecode, decode: newDecode()}
	s.BeforeRead(d.Flush)
	return d
}

// Add adds a value located in the source's buffer.
func (d *Decoder[V]) Add(i frame.Item) {
	start := len(d.tape)
	d.tape = append(d.tape, i.Tape...)
	d.items = append(d.items, frame.Item{Raw: i.Raw, Tape: d.tape[start:len(d.tape):len(d.tape)]})
	if d.bytes += len(i.Raw); d.bytes >= batchBytes && d.failure == nil && runtime.GOMAXPROCS(0) > 1 {
		d.dispatch()
	}
}

// Err returns the error that stopped the decoder, or nil.
func (d *Decoder[V]) Err() error { return d.failure }

// Count returns the number of values found.
func (d *Decoder[V]) Count() int { return d.before + len(d.items) }

// Flush yields all values found so far. After an error it always returns that
// error.
func (d *Decoder[V]) Flush() error {
	if len(d.batches) > 0 && len(d.items) > 0 {
		d.dispatch()
	}
	for _, b := range d.batches {
		if d.failure == nil {
			d.await(b)
			d.failure = d.deliver(b)
		}
	}
	d.stopWorkers()
	for n, i := range d.items {
		if d.failure != nil {
			break
		}
		var v V
		if v, d.failure = d.decode(i, d.before+n); d.failure == nil && !d.yield(v) {
			d.failure = ErrStopped
		}
	}
	d.before += len(d.items)
	clear(d.items)
	if cap(d.items) > maxReusedItems {
		d.items = nil
	}
	d.items, d.bytes, d.tape = d.items[:0], 0, d.tape.Reset()
	return d.failure
}

// dispatch creates a batch from the values found. Any goroutine may decode it.
func (d *Decoder[V]) dispatch() {
	b := d.newBatch()
	b.items, d.items = d.items, b.items
	b.tape, d.tape = d.tape, b.tape
	b.number, d.bytes = d.before, 0
	d.before += len(b.items)
	d.batches = append(d.batches, b)
	if d.work == nil {
		d.work = make(chan *batch[V], frame.BusyBuffer/batchBytes)
	}
	select {
	case d.work <- b:
		if d.running+1 < runtime.GOMAXPROCS(0) {
			d.startWorker()
		}
	default:
		b.run(d.decode)
	}
}

func (d *Decoder[V]) newBatch() *batch[V] {
	w := d.spareState()
	if last := len(w.free) - 1; last >= 0 {
		b := w.free[last]
		w.free = w.free[:last]
		return b
	}
	return &batch[V]{done: make(chan struct{}, 1)}
}

// spareState returns the state that workers reuse.
func (d *Decoder[V]) spareState() *workerState[V] {
	if w := d.spare.Get(); w != nil {
		return w
	}
	return d.spare.Set(new(workerState[V]))
}

// startWorker starts a worker, which exits when there are no more batches.
func (d *Decoder[V]) startWorker() {
	w := d.spareState()
	if d.running == len(w.decode) {
		w.decode = append(w.decode, d.newDecode())
	}
	work, decode := d.work, w.decode[d.running]
	d.running++
	d.workers.Go(func() {
		for b := range work {
			if !d.stopped.Load() {
				b.run(decode)
			}
		}
	})
}

// stopWorkers waits for the workers to exit.
func (d *Decoder[V]) stopWorkers() {
	if d.work == nil {
		return
	}
	defer d.spare.Release()
	d.stopped.Store(d.failure != nil)
	close(d.work)
	d.workers.Wait()
	clear(d.batches) // workerState holds them
	d.work, d.running, d.batches = nil, 0, d.batches[:0]
}

// Close stops the workers.
func (d *Decoder[V]) Close() {
	d.failure = ErrStopped
	d.stopWorkers()
}

// await decodes other batches until b has been decoded.
func (d *Decoder[V]) await(b *batch[V]) {
	for {
		select {
		case <-b.done:
			return
		case other := <-d.work:
			other.run(d.decode)
		}
	}
}

func (b *batch[V]) run(decode Decode[V]) {
	defer func() {
		if p := recover(); p != nil {
			b.panic = &Panic{p, debug.Stack()}
		}
		b.done <- struct{}{}
	}()
	b.ended = false
	for n, i := range b.items {
		v, err := decode(i, b.number+n)
		if b.err = err; err != nil {
			break
		}
		b.out = append(b.out, v)
	}
	b.ended = true
}

// deliver yields a batch's values. A panic or runtime.Goexit in a worker is propagated to the caller's
// goroutine. Otherwise a list that lacks its last values would look complete.
func (d *Decoder[V]) deliver(b *batch[V]) error {
	if b.panic != nil {
		panic(b.panic)
	}
	if !b.ended {
		runtime.Goexit()
	}
	for _, v := range b.out {
		if !d.yield(v) {
			return ErrStopped
		}
	}
	err := b.err
	clear(b.items)
	clear(b.out)
	b.items, b.tape, b.out, b.err = b.items[:0], b.tape.Reset(), b.out[:0], nil
	w := d.spareState()
	w.free = append(w.free, b)
	return err
}
