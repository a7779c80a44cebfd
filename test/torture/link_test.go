package torture

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// weather is the state of a link. The zero value is a working link.
type weather struct {
	silent bool // bytes wait, in both directions, without an error
	lost   bool // bytes vanish, and existing connections stay dead forever
	rate   int  // bytes per second in each direction; 0 is no limit
	cut    int  // each connection is reset after this many bytes in one direction; 0 is never
	flip   int  // the server's byte at this position is changed; 0 is never
}

// link is a proxy of TCP connections at a fixed address.
type link struct {
	t       testing.TB
	name    string
	address string
	pumps   sync.WaitGroup // all goroutines

	opened atomic.Int64 // total number of connections
	bytes  atomic.Int64

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	target   func() string // address of new connections
	weather  weather
	changed  chan struct{} // closed and replaced when the weather changes
	open     map[*wired]bool
}

// wired is one connection through a link.
type wired struct {
	link     *link
	from, to net.Conn
	ended    chan struct{} // closed when it is reset
	end      sync.Once
	lost     atomic.Bool
	target   string
}

// newLink starts a link to the address that target returns for each new connection.
func newLink(t testing.TB, name string, target func() string) *link {
	t.Helper()
	l := &link{t: t, name: name, target: target, changed: make(chan struct{}), open: map[*wired]bool{}}
	if err := l.listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.refuse()
		l.cutAll()
		l.pumps.Wait()
	})
	return l
}

func to(address string) func() string { return func() string { return address } }

func (l *link) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("link %s: %w", l.name, err)
	}
	l.address = listener.Addr().String()
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	l.pumps.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed by refuse
			}
			l.pumps.Go(func() { l.connect(conn) })
		}
	})
	return nil
}

// connect connects a client to the target and copies bytes until one of them closes.
func (l *link) connect(from net.Conn) {
	l.mu.Lock()
	target := l.target()
	l.mu.Unlock()
	to, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		reset(from)
		return
	}
	w := &wired{link: l, from: from, to: to, ended: make(chan struct{}), target: target}
	l.mu.Lock()
	refused := l.listener == nil
	l.open[w] = true
	l.mu.Unlock()
	l.opened.Add(1)
	if refused {
		w.reset()
	}
	l.pumps.Go(func() { w.carry(to, from, false) })
	w.carry(from, to, true)
	<-w.ended
	l.mu.Lock()
	delete(l.open, w)
	l.mu.Unlock()
}

// carry copies bytes as the weather allows until either end is closed.
func (w *wired) carry(to, from net.Conn, answers bool) {
	defer w.reset()
	buf := make([]byte, 16<<10)
	done := 0
	for {
		n, err := from.Read(buf)
		if n > 0 && !w.pass(to, buf[:n], done, answers) {
			return
		}
		done += n
		w.link.bytes.Add(int64(n))
		if errors.Is(err, io.EOF) && !answers && !w.lost.Load() {
			_ = to.(*net.TCPConn).CloseWrite() // the client has sent everything; the answer continues
			<-w.ended
			return
		}
		if err != nil {
			return
		}
	}
}

// pass writes some bytes, done bytes after the first, and reports whether the connection stays
// open.
func (w *wired) pass(to net.Conn, some []byte, done int, answers bool) bool {
	for len(some) > 0 {
		sky, changed := w.link.sky()
		if sky.lost {
			w.lost.Store(true)
		}
		if w.lost.Load() {
			return true
		}
		if sky.silent {
			select {
			case <-changed:
			case <-w.ended:
				return false
			}
			continue
		}
		n := len(some)
		if sky.rate > 0 {
			n = min(n, max(1, sky.rate/20))
		}
		if sky.cut > 0 {
			if done >= sky.cut {
				return false
			}
			n = min(n, sky.cut-done)
		}
		if at := sky.flip - done; answers && sky.flip > 0 && at >= 0 && at < n {
			some[at] ^= 0x20
		}
		if _, err := to.Write(some[:n]); err != nil {
			return false
		}
		done, some = done+n, some[n:]
		if sky.rate > 0 {
			select {
			case <-time.After(time.Second / 20):
			case <-w.ended:
				return false
			}
		}
	}
	return true
}

// reset closes both ends as a crash would, without FIN.
func (w *wired) reset() {
	w.end.Do(func() {
		reset(w.from)
		reset(w.to)
		close(w.ended)
	})
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the only error is that it is already closed
	}
	_ = c.Close()
}

func (l *link) sky() (weather, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.weather, l.changed
}

// set changes the weather. If bytes are lost, every open connection loses them, busy or not.
func (l *link) set(sky weather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sky.lost {
		for w := range l.open {
			w.lost.Store(true)
		}
	}
	l.weather = sky
	close(l.changed)
	l.changed = make(chan struct{})
}

// lead sends new connections to another target. Open connections are not affected.
func (l *link) lead(target func() string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// refuse refuses new connections. Open connections are not affected.
func (l *link) refuse() {
	l.mu.Lock()
	listener := l.listener
	l.listener = nil
	l.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
}

// admit ends refuse.
func (l *link) admit() error {
	l.mu.Lock()
	listening := l.listener != nil
	l.mu.Unlock()
	if listening {
		return nil
	}
	return l.listen(l.address)
}

// cutAll resets every connection.
func (l *link) cutAll() { l.cutSome(func() bool { return true }) }

// cutSome resets the connections for which which returns true.
func (l *link) cutSome(which func() bool) {
	l.mu.Lock()
	var doomed []*wired
	for w := range l.open {
		if which() {
			doomed = append(doomed, w)
		}
	}
	l.mu.Unlock()
	for _, w := range doomed {
		w.reset()
	}
}

// connections returns the number of open connections.
func (l *link) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// anyOf sends each connection to one of several addresses.
func anyOf(addresses ...string) func() string {
	return func() string { return addresses[rand.IntN(len(addresses))] }
}
