package reflector

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait between attempts: Initial after the first
// failure, doubled with each further one up to Max, each time between that and
// one and a half times that, so that many clients do not come back at once. A
// Retry-After of the server is a lower bound. The zero value means 800 ms,
// 30 s and 2 min.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
	Reset   time.Duration // a failure this long after the last one counts as a first one
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial <= 0 {
		b.Initial = 800 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = max(30*time.Second, b.Initial)
	}
	b.Initial = min(b.Initial, b.Max)
	if b.Reset <= 0 {
		b.Reset = max(2*time.Minute, 2*b.Max)
	}
	return b
}

// pacer applies a Backoff to a series of failures.
type pacer struct {
	Backoff
	next time.Duration
	last time.Time // when the last wait was to end
}

// delay is how long to wait after a failure at now.
func (p *pacer) delay(now time.Time, retryAfter time.Duration) time.Duration {
	if p.next == 0 || now.Sub(p.last) >= p.Reset {
		p.next = p.Initial
	}
	wait := p.next
	p.next = min(2*p.next, p.Max)
	wait = max(wait, retryAfter)
	wait += rand.N(wait/2 + 1)
	p.last = now.Add(wait)
	return wait
}
