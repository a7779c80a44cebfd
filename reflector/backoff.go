package reflector

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait between attempts: Initial after the first
// failure, doubled with each further one up to Max, each time between that and
// one and a half times that, so that many clients do not come back at once. A
// Retry-After of the server is a lower bound. An expired resource version counts as a
// first failure, once in a series. The zero value means 800 ms, 30 s and 2 min.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
	Reset   time.Duration // a failure this long after the last wait counts as a first one
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
	next     time.Duration
	last     time.Time // when the last wait was to end
	forgiven bool      // in this series of failures
}

// forgive lets the next failure count as a first one, once in a series. After an
// outage an expired resource version is good news: the server answers, and only a
// list brings the cache back. A second one means that lists do not help.
func (p *pacer) forgive() {
	if !p.forgiven {
		p.next, p.forgiven = p.Initial, true
	}
}

// delay is how long to wait after a failure at now. A stream that breaks after
// it has served for a third of Max counts as a first failure: a load balancer
// that cuts every connection after a minute must not keep a cache waiting.
func (p *pacer) delay(now time.Time, retryAfter time.Duration, stream bool) time.Duration {
	quiet := p.Reset
	if stream {
		quiet = min(quiet, p.Max/3)
	}
	if p.next == 0 || now.Sub(p.last) >= quiet {
		p.next, p.forgiven = p.Initial, false
	}
	wait := p.next
	p.next = min(2*p.next, p.Max)
	wait = max(wait, retryAfter)
	wait += rand.N(wait/2 + 1)
	p.last = now.Add(wait)
	return wait
}
