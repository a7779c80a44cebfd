package controllertest

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-dev/millrace/controller"
)

// DefaultTick is the default value of Options.Tick.
const DefaultTick = time.Second

// Limits for detecting endless changes: writes to one object, or creations at one path, at the same bubble
// time, and consecutive ticks that write the same object.
const (
	maxWrites = 10_000
	maxTurns  = 1000
	creates   = 10 // times maxWrites
)

// pace makes reconciles that write take time, and detects those that never settle. If each reconcile
// immediately triggered the next one, the test would never become quiet, and would eventually time out
// without an explanation.
type pace struct {
	t    testing.TB
	stop func()        // stops all writers
	tick time.Duration // duration of a reconcile that writes; 0 means no ticks

	mu     sync.Mutex // guards the fields below
	now    time.Time
	sent   map[string]int // by method and path, at now
	over   bool
	ticked map[string]bool // reconciles that have written, by controller.ID
	until  time.Time       // end of the last tick
	turns  map[string]turn // by method and path
}

// turn is the last of a run of consecutive ticks that wrote the same object.
type turn struct {
	ends   time.Time
	number int
}

// wrap returns a transport that counts its requests.
func (p *pace) wrap(next http.RoundTripper) http.RoundTripper {
	return counting{next, p}
}

type counting struct {
	next http.RoundTripper
	pace *pace
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return c.next.RoundTrip(r)
	}
	c.pace.count(r)
	resp, err := c.next.RoundTrip(r)
	if d := c.pace.begin(r); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
	return resp, err
}

// begin starts a tick if the request is its reconcile's first write, and returns the tick's duration.
// The bubble's clock does not advance while anything is running. So without ticks, a status that contains
// the time would be unchanged in the next reconcile, which never happens on a cluster.
func (p *pace) begin(r *http.Request) time.Duration {
	id := controller.ID(r.Context())
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "" || p.tick == 0 || p.ticked[id] {
		return 0
	}
	if p.ticked == nil {
		p.ticked, p.turns = map[string]bool{}, map[string]turn{}
	}
	now, key := time.Now(), key(r)
	p.ticked[id], p.until = true, now.Add(p.tick)
	t := p.turns[key]
	if t.ends.Before(now) { // everything was quiet in between
		t.number = 0
	}
	t.ends, t.number = p.until, t.number+1
	p.turns[key] = t
	if limit := most(r, maxTurns); t.number == limit {
		p.end("%s was sent by %d reconciles, each right after the previous one", key, limit)
	}
	return p.tick
}

func (p *pace) count(r *http.Request) {
	limit := most(r, maxWrites)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !now.Equal(p.now) {
		p.now, p.sent = now, map[string]int{}
	}
	key := key(r)
	if p.sent[key]++; p.sent[key] == limit {
		p.end("%s was sent %d times at the same bubble time", key, limit)
	}
}

// most returns how often a request may be sent, given the limit for requests to one object.
func most(r *http.Request, limit int) int {
	if r.Method == http.MethodPost {
		return creates * limit
	}
	return limit
}

func key(r *http.Request) string { return r.Method + " " + r.URL.Path }

// end fails the test (once) and stops all writers. The caller holds mu.
func (p *pace) end(why string, args ...any) {
	if !p.over {
		p.over = true
		p.t.Errorf("the test never settles: "+why+": does each reconcile change something that triggers the next one? A status that contains the time does", args...)
		p.stop()
	}
}

// rest waits until everything is waiting for time to pass and no tick is in progress.
func (p *pace) rest() {
	for {
		synctest.Wait()
		p.mu.Lock()
		left := time.Until(p.until)
		p.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

// stopped reports whether the writers have been stopped.
func (p *pace) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}
