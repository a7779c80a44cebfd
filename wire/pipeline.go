package wire

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// batchBytes is the size from which values are worth the way to another
// goroutine.
const batchBytes = 32 << 10

// pipeline decodes the values of a body on all processors while the rest of the body
// is still arriving, and hands them over in order. The goroutine that ranges
// over the body reads it, finds where each value begins and ends, and yields.
// The others do nothing but decode: none of them ever waits for the network, so
// that the end of the iteration can wait for them.
//
//	body → source → batch → batch → batch      the caller's goroutine
//	                  ↓       ↓       ↓
//	               worker  worker  worker
//	                  ↓       ↓       ↓
//	yield      ←     out ←   out ←   out       the caller's goroutine
//
// Workers are started when a whole batch has arrived at once. Where the network
// is slower than that, the caller decodes each value itself as it comes.
type pipeline[V any] struct {
	*source
	yield     func(V) bool
	newDecode func() decodeFunc[V] // for each goroutine one

	decode  decodeFunc[V] // the caller's
	spans   []span        // of the values found since the last batch
	tape    tape          // of these values, one behind the other
	before  int           // values found before these
	flying  []*batch[V]   // handed to the workers, in order
	free    []*batch[V]
	work    chan *batch[V] // nil until there are workers
	workers sync.WaitGroup
	stopped atomic.Bool
	failure error // of a value, or errStopped: nothing follows it
}

// decodeFunc decodes a value, whose number is for messages.
type decodeFunc[V any] func(i item, number int) (V, error)

// batch is some values of a body, in a buffer that they have for themselves.
type batch[V any] struct {
	buf    []byte
	tape   tape
	spans  []span
	number int // of the first

	done  chan struct{} // holds a token when what is below is complete
	out   []V
	err   error // of the value behind the last of out
	panic any
}

// span is where a value lies in the part of the buffer that is kept, and where
// its extents are on the tape.
type span struct{ start, end, tapeStart, tapeEnd int }

func (s span) in(buf []byte, t tape) item {
	return item{raw: buf[s.start:s.end:s.end], tape: t[s.tapeStart:s.tapeEnd:s.tapeEnd]}
}

// newPipeline returns a pipeline for the values of a body. Before s reads on, the
// values found are seen to.
func newPipeline[V any](s *source, newDecode func() decodeFunc[V], yield func(V) bool) *pipeline[V] {
	p := &pipeline[V]{source: s, yield: yield, newDecode: newDecode, decode: newDecode()}
	s.idle = p.handOver
	return p
}

// found is told of a value that ends at the source's position.
func (p *pipeline[V]) found(i item) {
	start := p.pos - len(i.raw)
	if len(p.spans) == 0 {
		p.keeping, p.kept = true, start
	}
	tapeStart := len(p.tape)
	p.tape = append(p.tape, i.tape...)
	p.spans = append(p.spans, span{start - p.kept, p.pos - p.kept, tapeStart, len(p.tape)})
}

// handOver gives the values found to the workers where they are many, and else
// decodes them here.
func (p *pipeline[V]) handOver() error {
	if p.failure != nil || !p.keeping || p.pos-p.kept < batchBytes || runtime.GOMAXPROCS(0) == 1 {
		return p.flush()
	}
	p.dispatch(p.cut())
	for len(p.flying) > 0 {
		if len(p.flying) <= cap(p.work) && !p.flying[0].ready() {
			return nil
		}
		if err := p.deliver(); err != nil {
			return err
		}
	}
	return nil
}

// flush yields all values found so far. Once it has returned an error it does
// so always.
func (p *pipeline[V]) flush() error {
	for len(p.flying) > 0 {
		if err := p.deliver(); err != nil {
			return err
		}
	}
	if p.failure != nil {
		return p.failure
	}
	for i, s := range p.spans {
		v, err := p.decode(s.in(p.buf[p.kept:p.pos], p.tape), p.before+i)
		if err == nil && !p.yield(v) {
			err = errStopped
		}
		if err != nil {
			p.failure = err
			return err
		}
	}
	p.before += len(p.spans)
	p.spans, p.tape, p.keeping = p.spans[:0], p.tape.reset(), false
	return nil
}

// count returns how many values were found.
func (p *pipeline[V]) count() int { return p.before + len(p.spans) }

// cut makes a batch of the values found, with the buffer in which they lie. The
// source goes on with another one.
func (p *pipeline[V]) cut() *batch[V] {
	b := p.unused(p.end - p.pos)
	fresh := b.buf[:cap(b.buf)]
	b.buf, b.number = p.buf[p.kept:p.pos], p.before
	b.spans, p.spans = p.spans, b.spans[:0]
	b.tape, p.tape = p.tape, b.tape.reset()
	p.before += len(b.spans)
	p.replaceBuffer(fresh)
	return b
}

// unused returns a batch with a buffer for more than so many bytes.
func (p *pipeline[V]) unused(size int) *batch[V] {
	for len(p.free) > 0 {
		last := len(p.free) - 1
		b := p.free[last]
		p.free = p.free[:last]
		if cap(b.buf) > size {
			return b
		}
	}
	return &batch[V]{buf: make([]byte, max(busyBuffer, 2*size)), done: make(chan struct{}, 1)}
}

// dispatch hands a batch to the workers, who are started with the first.
func (p *pipeline[V]) dispatch(b *batch[V]) {
	if p.work == nil {
		n := runtime.GOMAXPROCS(0) - 1 // and the caller, who has the reading to do
		p.work = make(chan *batch[V], n)
		for range n {
			p.workers.Go(func() { p.run(p.newDecode()) })
		}
	}
	p.flying = append(p.flying, b)
	p.work <- b
}

// run is a worker.
func (p *pipeline[V]) run(decode decodeFunc[V]) {
	for b := range p.work {
		if !p.stopped.Load() {
			b.run(decode)
		}
		b.done <- struct{}{}
	}
}

func (b *batch[V]) run(decode decodeFunc[V]) {
	defer func() { b.panic = recover() }()
	for i, s := range b.spans {
		v, err := decode(s.in(b.buf, b.tape), b.number+i)
		if err != nil {
			b.err = err
			return
		}
		b.out = append(b.out, v)
	}
}

func (b *batch[V]) ready() bool { return len(b.done) > 0 }

// deliver waits for the first batch in flight and yields its values.
func (p *pipeline[V]) deliver() error {
	b := p.flying[0]
	<-b.done
	p.flying = append(p.flying[:0], p.flying[1:]...)
	if b.panic != nil {
		panic(b.panic)
	}
	for _, v := range b.out {
		if !p.yield(v) {
			b.err = errStopped
			break
		}
	}
	if b.err != nil {
		p.failure, p.flying = b.err, nil
		return b.err
	}
	clear(b.out)
	b.out = b.out[:0]
	if cap(b.buf) <= 2*busyBuffer {
		p.free = append(p.free, b)
	}
	return nil
}

// close ends the workers and waits for them.
func (p *pipeline[V]) close() {
	if p.work == nil {
		return
	}
	p.stopped.Store(true)
	close(p.work)
	p.workers.Wait()
}
