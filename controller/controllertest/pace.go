package controllertest

import (
	"net/http"
	"sync"
	"testing"
	"time"
)

// How often one object may be written, and how many objects may be made in one place, at one
// moment of the bubble's time. A moment in which that does not suffice has no end.
const (
	maxWrites  = 10_000
	maxCreates = 10 * maxWrites
)

// pace finds what never comes to rest. While a reconcile leads to the next at once, nothing is
// quiet and no time passes: the test would run until its real time is over, and not say why.
type pace struct {
	t    testing.TB
	stop func() // ends what writes

	mu   sync.Mutex // guards all below
	now  time.Time
	sent map[string]int // by method and path, at now
	over bool
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
	if r.Method != http.MethodGet {
		c.pace.count(r)
	}
	return c.next.RoundTrip(r)
}

func (p *pace) count(r *http.Request) {
	limit := maxWrites
	if r.Method == http.MethodPost {
		limit = maxCreates
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !now.Equal(p.now) {
		p.now, p.sent = now, map[string]int{}
	}
	key := r.Method + " " + r.URL.Path
	if p.sent[key]++; p.sent[key] < limit || p.over {
		return
	}
	p.over = true
	p.t.Errorf("it never comes to rest: %s was sent %d times at one moment: does each reconcile change what leads to the next one? A status that tells the time does, for one", key, limit)
	p.stop()
}

// stopped reports whether everything was stopped.
func (p *pace) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}
