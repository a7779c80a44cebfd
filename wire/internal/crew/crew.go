package crew

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

// batchBytes is the size from which values are worth the way to another
// goroutine.
const batchBytes = 32 << 10

// Crew decodes the values of a body on all processors and yields them in order.
// The goroutine that ranges over the body reads it and finds the values. When it
// has found a batch, another goroutine may decode it. Before the first goroutine
// reads more, it helps until everything found is decoded and yielded:
//
//	body → source → batch | batch | batch | rest     found in what has arrived
//	                  ↓       ↓       ↓      ↓
//	                worker  caller  worker  caller   decode
//	                  ↓       ↓       ↓      ↓
//	                yield → yield → yield → yield    the caller
//
// So every value is yielded before the source waits for more, values stay in the
// source's buffer until they are decoded, and no more of the body is in memory than
// this buffer. If less than a batch arrives at once, the caller alone decodes it,
// value by value.
type Crew[V any] struct {
	yield     func(V) bool
	newDecode func() Decode[V] // called for each goroutine

	decode  Decode[V]               // the caller's
	gear    memory.Resting[gear[V]] // for when there is more than the caller can do
	items   []frame.Item            // found since the last batch
	bytes   int                     // of these
	tape    frame.Tape              // of these
	before  int                     // values found before items
	batches []*batch[V]             // since the last reading, in order
	work    chan *batch[V]          // batches to decode; nil while there are no workers
	workers sync.WaitGroup
	running int // workers
	stopped atomic.Bool
	failure error // of a value, or ErrStopped; nothing is yielded after it
}

// ErrStopped ends the reading when the consumer has stopped. Callers never see it.
var ErrStopped = errors.New("stopped by the consumer")

// Decode decodes a value, whose number is for messages.
type Decode[V any] func(i frame.Item, number int) (V, error)

// batch is some values of a body with their own tape. Decoding a value may write to
// its part of the tape.
type batch[V any] struct {
	items  []frame.Item
	tape   frame.Tape
	number int // of the first

	done  chan struct{} // holds a token when what is below is complete
	out   []V
	err   error // of the value behind the last of out
	panic *Panic
	ended bool // false where runtime.Goexit was called
}

// Panic is a panic while a value was decoded, with the stack of the goroutine that
// decoded it, which need not be the caller's.
type Panic struct {
	Value any
	Stack []byte
}

// Error is what a program prints that ends of it.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\nwhile decoding, in\n%s", p.Value, p.Stack) }

// Unwrap returns the value, if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// gear is what workers use again in the next burst.
type gear[V any] struct {
	decode []Decode[V] // for each one
	free   []*batch[V]
}

// idleItems is how many items are kept room for between two readings.
const idleItems = 1 << 6

// New returns a parallel for the values of a body. It flushes before s reads
// more.
func New[V any](s *frame.Source, newDecode func() Decode[V], yield func(V) bool) *Crew[V] {
	p := &Crew[V]{yield: yield, newDecode: newDecode, decode: newDecode()}
	s.WhenIdle(p.Flush)
	return p
}

// Found takes a value that lies in the source's buffer.
func (p *Crew[V]) Found(i frame.Item) {
	start := len(p.tape)
	p.tape = append(p.tape, i.Tape...)
	p.items = append(p.items, frame.Item{Raw: i.Raw, Tape: p.tape[start:len(p.tape):len(p.tape)]})
	if p.bytes += len(i.Raw); p.bytes >= batchBytes && p.failure == nil && runtime.GOMAXPROCS(0) > 1 {
		p.dispatch()
	}
}

// Failed returns the error after which nothing is yielded, or nil.
func (p *Crew[V]) Failed() error { return p.failure }

// Count returns how many values were found.
func (p *Crew[V]) Count() int { return p.before + len(p.items) }

// Flush yields all values found so far. After an error it always returns that
// error.
func (p *Crew[V]) Flush() error {
	if len(p.batches) > 0 && len(p.items) > 0 {
		p.dispatch()
	}
	for _, b := range p.batches {
		if p.failure == nil {
			p.await(b)
			p.failure = p.deliver(b)
		}
	}
	p.dismiss()
	for n, i := range p.items {
		if p.failure != nil {
			break
		}
		var v V
		if v, p.failure = p.decode(i, p.before+n); p.failure == nil && !p.yield(v) {
			p.failure = ErrStopped
		}
	}
	p.before += len(p.items)
	clear(p.items)
	if cap(p.items) > idleItems {
		p.items = nil
	}
	p.items, p.bytes, p.tape = p.items[:0], 0, p.tape.Reset()
	return p.failure
}

// dispatch makes a batch of the values found. Any goroutine may decode it.
func (p *Crew[V]) dispatch() {
	b := p.unused()
	b.items, p.items = p.items, b.items
	b.tape, p.tape = p.tape, b.tape
	b.number, p.bytes = p.before, 0
	p.before += len(b.items)
	p.batches = append(p.batches, b)
	if p.work == nil {
		p.work = make(chan *batch[V], frame.BusyBuffer/batchBytes)
	}
	select {
	case p.work <- b:
		if p.running+1 < runtime.GOMAXPROCS(0) {
			p.hire()
		}
	default:
		b.run(p.decode)
	}
}

func (p *Crew[V]) unused() *batch[V] {
	c := p.team()
	if last := len(c.free) - 1; last >= 0 {
		b := c.free[last]
		c.free = c.free[:last]
		return b
	}
	return &batch[V]{done: make(chan struct{}, 1)}
}

// team returns the crew.
func (p *Crew[V]) team() *gear[V] {
	if c := p.gear.Take(); c != nil {
		return c
	}
	return p.gear.Hold(new(gear[V]))
}

// hire starts a worker, which ends when there are no more batches.
func (p *Crew[V]) hire() {
	c := p.team()
	if p.running == len(c.decode) {
		c.decode = append(c.decode, p.newDecode())
	}
	work, decode := p.work, c.decode[p.running]
	p.running++
	p.workers.Go(func() {
		for b := range work {
			if !p.stopped.Load() {
				b.run(decode)
			}
		}
	})
}

// dismiss waits for the workers to end.
func (p *Crew[V]) dismiss() {
	if p.work == nil {
		return
	}
	defer p.gear.Pause()
	p.stopped.Store(p.failure != nil)
	close(p.work)
	p.workers.Wait()
	clear(p.batches) // they rest with the gear
	p.work, p.running, p.batches = nil, 0, p.batches[:0]
}

// Close stops the workers.
func (p *Crew[V]) Close() {
	p.failure = ErrStopped
	p.dismiss()
}

// await decodes other batches until b is decoded.
func (p *Crew[V]) await(b *batch[V]) {
	for {
		select {
		case <-b.done:
			return
		case other := <-p.work:
			other.run(p.decode)
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

// deliver yields the values of a batch. A panic goes on where the caller is, and so
// does the end of a goroutine: without its last values a list would only look short.
func (p *Crew[V]) deliver(b *batch[V]) error {
	if b.panic != nil {
		panic(b.panic)
	}
	if !b.ended {
		runtime.Goexit()
	}
	for _, v := range b.out {
		if !p.yield(v) {
			return ErrStopped
		}
	}
	err := b.err
	clear(b.items)
	clear(b.out)
	b.items, b.tape, b.out, b.err = b.items[:0], b.tape.Reset(), b.out[:0], nil
	c := p.team()
	c.free = append(c.free, b)
	return err
}
