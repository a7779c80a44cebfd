package network

import (
	"cmp"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// pair is one connection: its two ends, and a stream in each direction.
type pair struct {
	link *Link // nil if made by Pipe
	n    int   // number of earlier dials on the link

	mu      sync.Mutex // guards the fields below, including streams and ends
	is      Conditions
	streams [2]stream // indexed by Direction
	ends    [2]end    // the dialer's end and the server's end
	lost    bool      // half open: nothing arrives anymore
}

// Pipe creates a connection with perfect conditions that belongs to no link.
func Pipe() (client, server net.Conn) {
	p := newPair(nil, 0, nil)
	return &p.ends[0], &p.ends[1]
}

func newPair(l *Link, n int, breaks []Break) *pair {
	p := &pair{link: l, n: n}
	for d := range p.streams {
		s := &p.streams[d]
		s.pair, s.toward = p, Direction(d)
		s.changed.L = &p.mu
	}
	p.ends[0] = end{pair: p, in: &p.streams[Client], out: &p.streams[Server]}
	p.ends[1] = end{pair: p, in: &p.streams[Server], out: &p.streams[Client]}
	for _, b := range breaks {
		p.plan(b)
	}
	return p
}

// The caller must hold the mutex when calling the methods below, except for set.

func (p *pair) set(c Conditions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.is.Partition
	p.is = c
	switch {
	case c.Partition && !before:
		p.streams[Server].hold()
		p.streams[Client].hold()
	case !c.Partition && before:
		p.streams[Server].release()
		p.streams[Client].release()
	}
}

// wake wakes all goroutines waiting on the connection.
func (p *pair) wake() {
	p.streams[Server].changed.Broadcast()
	p.streams[Client].changed.Broadcast()
}

func (p *pair) reset() {
	if p.lost {
		return // a lost connection does not transmit a reset
	}
	p.streams[Server].cut()
	p.streams[Client].cut()
}

func (p *pair) vanish() {
	p.lost = true
	p.streams[Server].drop()
	p.streams[Client].drop()
}

func (p *pair) plan(b Break) {
	s := &p.streams[b.Toward]
	b.After += s.sent
	s.breaks = append(s.breaks, b)
	slices.SortStableFunc(s.breaks, func(a, b Break) int { return cmp.Compare(a.After, b.After) })
}

// end is one end of a connection.
type end struct {
	pair    *pair
	in, out *stream
	closed  bool
}

func (e *end) Read(b []byte) (int, error) {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	for {
		switch {
		case e.closed:
			return 0, e.failed("read", net.ErrClosed)
		case e.in.readBy.passed():
			return 0, e.failed("read", os.ErrDeadlineExceeded)
		}
		n, err := e.in.take(b)
		if err == io.EOF {
			return 0, err
		}
		if n > 0 || len(b) == 0 || err != nil {
			return n, e.failed("read", err)
		}
		e.in.changed.Wait()
	}
}

func (e *end) Write(b []byte) (n int, err error) {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	for {
		e.in.land() // the peer may have closed
		switch {
		case n == len(b) && n > 0:
			return n, nil
		case e.closed:
			return n, e.failed("write", net.ErrClosed)
		case e.out.writeBy.passed():
			return n, e.failed("write", os.ErrDeadlineExceeded)
		case e.in.over != nil && e.in.over != io.EOF:
			return n, e.failed("write", e.in.over)
		case e.in.over != nil: // the peer has closed its end, and the close has arrived
			return n, e.failed("write", syscall.EPIPE)
		case e.out.stopped:
			return n, e.failed("write", syscall.ECONNRESET)
		case len(b) == 0:
			return 0, nil
		}
		if sent := e.out.put(b[n:]); sent > 0 {
			n += sent
			continue
		}
		e.in.await()
		e.out.changed.Wait()
	}
}

// failed wraps an error the way package net does.
func (e *end) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: "simulated", Source: e.LocalAddr(), Addr: e.RemoteAddr(), Err: err}
}

// Close closes this end. The peer can read the bytes in flight and then gets EOF.
func (e *end) Close() error {
	p := e.pair
	p.mu.Lock()
	if e.closed {
		p.mu.Unlock()
		return nil
	}
	e.closed = true
	e.in.discard()
	e.out.end(io.EOF)
	for _, d := range []*deadline{&e.in.readBy, &e.out.writeBy} {
		d.set(time.Time{}, nil)
	}
	p.wake()
	both := p.ends[0].closed && p.ends[1].closed
	p.mu.Unlock()
	if both && p.link != nil {
		p.link.forget(p)
	}
	return nil
}

func (e *end) LocalAddr() net.Addr {
	if e.pair.link == nil {
		return address("pipe")
	}
	return e.pair.link.address(e.pair.n)
}

func (e *end) RemoteAddr() net.Addr { return e.LocalAddr() }

func (e *end) SetDeadline(t time.Time) error {
	_ = e.SetReadDeadline(t) // neither fails
	return e.SetWriteDeadline(t)
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	if !e.closed {
		e.in.readBy.set(t, e.in)
	}
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.pair.mu.Lock()
	defer e.pair.mu.Unlock()
	if !e.closed {
		e.out.writeBy.set(t, e.out)
	}
	return nil
}

// deadline is a read or write deadline.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// passed is free if there is no deadline.
func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// set changes the deadline and wakes the goroutines waiting on s, since it affects
// them.
func (d *deadline) set(at time.Time, s *stream) {
	d.at = at
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if s == nil {
		return
	}
	if wait := time.Until(at); !at.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, s.wake)
		return
	}
	s.changed.Broadcast()
}
