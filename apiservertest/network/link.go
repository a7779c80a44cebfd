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

// Conditions are how a link is. The zero value is a perfect one.
type Conditions struct {
	// Latency is how long a byte is under way in each direction, and Jitter how much
	// longer it may take, as drawn. Bytes never overtake each other.
	Latency, Jitter time.Duration

	// Loss is the probability with which a segment is lost. It and what follows it
	// arrive when it has been sent again, 200 ms later; if it is lost again, 400 ms
	// after that, and so on.
	Loss float64

	// Bandwidth is how many bytes pass in a second in each direction; without bound if
	// zero.
	Bandwidth int

	// Segment is how many bytes arrive together where there is a Bandwidth or Loss; 1460
	// if zero. With 1, bytes trickle in one by one.
	Segment int

	// Partition holds everything that is in flight or being sent until it is lifted.
	// Dials wait. Nobody is told.
	Partition bool

	// Refuse refuses dials.
	Refuse bool

	// DialDelay is how much longer a dial may take than its latency, as drawn: a younger
	// one may be faster.
	DialDelay time.Duration
}

// clean reports whether bytes arrive when they are sent.
func (c *Conditions) clean() bool {
	return c.Latency == 0 && c.Jitter == 0 && c.Loss == 0 && c.Bandwidth == 0 && !c.Partition
}

// Direction is one of the two of a connection.
type Direction int

const (
	Server Direction = iota // from the one who dialled to the server
	Client                  // back to the one who dialled
)

// Harm is what is done to a connection.
type Harm int

const (
	Reset  Harm = iota // both ends find it reset
	Vanish             // it is half open: bytes vanish, and nobody is told
	Flip               // one byte is changed
)

// Break does harm to a connection once After more bytes have passed in a direction.
// Flip changes the lowest bits of the next byte by the bits of Mask; all of them if zero.
type Break struct {
	Toward Direction
	After  int64
	Do     Harm
	Mask   byte
}

// Link is a way between one client and a server. Network.Link makes one.
type Link struct {
	seed  uint64
	name  string
	index int

	mu      sync.Mutex // taken before that of a connection
	is      Conditions
	changed chan struct{} // closed, and replaced, by Set
	dials   int
	open    []*pair // by age
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

// Conditions returns those that Set has set.
func (l *Link) Conditions() Conditions {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is
}

// Cut resets the open connections, now, and returns how many there were: both ends can
// read what has arrived, and then find the connection reset.
func (l *Link) Cut() int { return l.each((*pair).reset) }

// Vanish makes the open connections half open for good, as a load balancer does that
// forgets them, and returns how many there were. What is in flight is lost. Deadlines
// work, and Close; the other end does not hear of it.
func (l *Link) Vanish() int { return l.each((*pair).vanish) }

// Break does harm to the open connections and returns how many there were.
func (l *Link) Break(b Break) int { return l.each(func(p *pair) { p.plan(b) }) }

// BreakNext does harm to the connection that is dialled next. Several harms add up.
func (l *Link) BreakNext(b Break) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = append(l.next, b)
}

// Open counts the connections that are not closed at both ends.
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

// Dialer returns a function that connects over the link, whatever the address. Accept
// is given the server's end of each connection; it belongs to it unless it fails.
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

// connect waits as long as a dial takes and makes a connection.
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

// shake waits as long as the handshake of the n-th dial takes.
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

// address is the name of a link, or of one of its connections.
type address string

func (address) Network() string  { return "simulated" }
func (a address) String() string { return string(a) }

func (l *Link) address(conn int) address { return address(fmt.Sprintf("%s#%d", l.name, conn)) }
