package controllertest

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-dev/millrace/controller"
)

// DefaultTick is how long a reconcile that writes takes in the bubble's time.
const DefaultTick = time.Second

// How often one object may be written, and how many objects may be made in one place, at one
// moment of the bubble's time, and in how many turns. More than that never comes to rest.
const (
	maxWrites = 10_000
	maxTurns  = 1000
	creates   = 10 // times as many
)

// pace lets time pass with each reconcile that writes, and finds what never comes to rest. While a
// reconcile leads to the next at once, nothing is quiet: the test would run until its real time is
// over, and not say why.
type pace struct {
	t    testing.TB
	stop func()        // ends what writes
	tick time.Duration // how long a reconcile that writes takes; 0 for no time

	mu     sync.Mutex // guards all below
	now    time.Time
	sent   map[string]int // by method and path, at now
	over   bool
	ticked map[string]bool // reconciles that have written, by controller.ID
	until  time.Time       // when the last tick is over
	turns  map[string]turn // by method and path
}

// turn is the last of the ticks in which one object was written, one after the other.
type turn struct {
	ends   time.Time
	number int
}

// wrap counts what a transport sends.
func (p *pace) wrap(next http.RoundTripper) http.RoundTripper {
	return counting{next, p}
}

type counting struct {
	next http.RoundTripper
	pace *pace
}

// RoundTrip implements http.RoundTripper.
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

// begin begins a tick if a request is the first write of its reconcile, and returns how long it
// takes. The clock of the bubble stands still while anything is busy. Without ticks, a status that
// tells the time would be the same at the next reconcile, which it never is on a cluster.
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
	if t.ends.Before(now) { // it was at rest
		t.number = 0
	}
	t.ends, t.number = p.until, t.number+1
	p.turns[key] = t
	if limit := most(r, maxTurns); t.number == limit {
		p.end("%s was sent by %d reconciles, each as soon as the one before had ended", key, limit)
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
		p.end("%s was sent %d times at one moment", key, limit)
	}
}

// most is how often a request may be sent, if one about one object may be sent limit times.
func most(r *http.Request, limit int) int {
	if r.Method == http.MethodPost {
		return creates * limit
	}
	return limit
}

func key(r *http.Request) string { return r.Method + " " + r.URL.Path }

// end fails the test, once, and ends what writes. It is called under mu.
func (p *pace) end(why string, args ...any) {
	if !p.over {
		p.over = true
		p.t.Errorf("it never comes to rest: "+why+": does each reconcile change what leads to the next one? A status that tells the time does, for one", args...)
		p.stop()
	}
}

// rest waits until everything waits for time to pass and no tick is under way.
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

// stopped reports whether everything was stopped.
func (p *pace) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}
