package network

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Conditions are the properties of a [Link]. The zero value is a perfect link.
type Conditions struct {
	// Latency is the one-way delay of each byte, and Jitter the maximum random delay added to it. Bytes
	// never overtake each other.
	Latency, Jitter time.Duration

	// Loss is the probability that a segment is lost. The segment and everything after
	// it arrive after a retransmission, 200 ms later; if that is lost too, after another 400 ms, and so
	// on.
	Loss float64

	// Bandwidth is the number of bytes per second in each direction; unlimited if zero.
	Bandwidth int

	// Segment is the number of bytes that arrive together if Bandwidth or Loss is set. The default is 1460.
	// With a Segment of 1, bytes arrive one by one.
	Segment int

	// Partition holds back all bytes, in flight or sent later, until it is lifted. Dials wait. Neither end
	// gets an error.
	Partition bool

	// Refuse makes dials fail.
	Refuse bool

	// DialDelay is the maximum random delay that a dial takes on top of the latency. With it, a later
	// dial may finish first.
	DialDelay time.Duration
}

// clean reports whether bytes arrive the instant they are sent.
func (c *Conditions) clean() bool {
	return c.Latency == 0 && c.Jitter == 0 && c.Loss == 0 && c.Bandwidth == 0 && !c.Partition
}

// Direction is one of the two directions of a connection.
type Direction int

const (
	Server Direction = iota // from the dialer to the server
	Client                  // back to the dialer
)

// Harm is a kind of connection failure.
type Harm int

const (
	Reset  Harm = iota // the connection is reset at both ends
	Vanish             // half open: bytes are lost, and neither end gets an error
	Flip               // one byte is corrupted
)

// Break makes a connection fail once After more bytes have passed in one direction. Flip inverts the
// bits of Mask in the next byte, or all bits if Mask is zero.
type Break struct {
	Toward Direction
	After  int64
	Do     Harm
	Mask   byte
}

// Link is a network path between a client and a server. Create it with [Network.Link].
type Link struct {
	seed  uint64
	name  string
	index int

	mu      sync.Mutex // locked before a connection's mutex
	is      Conditions
	changed chan struct{} // closed and replaced by Set
	dials   int
	open    []*pair // oldest first
	next    []Break
}

func newLink(seed uint64, name string, index int) *Link {
	return &Link{seed: seed, name: name, index: index, changed: make(chan struct{})}
}

// Set changes the conditions.
func (l *Link) Set(c Conditions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is = c
	for _, p := range l.open {
		p.set(c)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Conditions returns the current conditions.
func (l *Link) Conditions() Conditions {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is
}

// Cut resets the open connections immediately and returns their number. Both ends can read the bytes that
// have already arrived, and then get a connection reset error.
func (l *Link) Cut() int { return l.each((*pair).reset) }

// Vanish leaves the open connections permanently half open, as if a load balancer had forgotten them, and
// returns their number. Bytes in flight are lost. Deadlines and Close still work, but the peer is not
// notified of a Close.
func (l *Link) Vanish() int { return l.each((*pair).vanish) }

// Break schedules a failure of the open connections and returns their number.
func (l *Link) Break(b Break) int { return l.each(func(p *pair) { p.plan(b) }) }

// BreakNext schedules a failure of the next connection dialed. Breaks from several calls
// accumulate.
func (l *Link) BreakNext(b Break) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = append(l.next, b)
}

// Open returns the number of connections not yet closed at both ends.
func (l *Link) Open() int { return l.each(func(*pair) {}) }

func (l *Link) each(do func(*pair)) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.open {
		p.mu.Lock()
		do(p)
		p.mu.Unlock()
	}
	return len(l.open)
}

func (l *Link) forget(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.open, p); at >= 0 {
		l.open = slices.Delete(l.open, at, at+1)
	}
}

// Dialer returns a dial function that connects over the link, ignoring the address. It passes the server's
// end of each connection to accept, which takes ownership of it unless it returns an error.
func (l *Link) Dialer(accept func(context.Context, net.Conn) error) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		client, server, err := l.connect(ctx)
		if err == nil {
			if err = accept(ctx, server); err == nil {
				return client, nil
			}
			client.Close()
			server.Close()
		}
		return nil, &net.OpError{Op: "dial", Net: network, Addr: address(l.name), Err: err}
	}
}

// connect waits for the duration of a dial and creates a connection.
func (l *Link) connect(ctx context.Context) (client, server net.Conn, err error) {
	l.mu.Lock()
	n := l.dials
	l.dials++
	l.mu.Unlock()
	for shaken := false; ; {
		l.mu.Lock()
		is, changed := l.is, l.changed
		switch {
		case is.Partition:
			l.mu.Unlock()
			shaken = false
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, nil, context.Cause(ctx)
			}
		case !shaken && (is.Latency > 0 || is.DialDelay > 0):
			l.mu.Unlock()
			shaken = true
			if err := l.shake(ctx, is, n); err != nil {
				return nil, nil, err
			}
		case is.Refuse:
			l.mu.Unlock()
			return nil, nil, syscall.ECONNREFUSED
		default:
			defer l.mu.Unlock()
			p := newPair(l, n, l.next)
			l.next = nil
			p.is = is
			l.open = append(l.open, p)
			return &p.ends[0], &p.ends[1], nil
		}
	}
}

// shake waits for the duration of the n-th dial's handshake.
func (l *Link) shake(ctx context.Context, is Conditions, n int) error {
	wait := 2 * is.Latency
	if is.DialDelay > 0 {
		wait += time.Duration(random(l.seed, l.name, "dial", n).Int64N(int64(is.DialDelay)))
	}
	now := time.Now()
	timer := time.NewTimer(align(now.Add(wait), slotOf(l.index, n, Client)).Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// address is the name of a link or of one of its connections.
type address string

func (address) Network() string  { return "simulated" }
func (a address) String() string { return string(a) }

func (l *Link) address(conn int) address { return address(fmt.Sprintf("%s#%d", l.name, conn)) }
