package reflector

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
)

// Backoff says how long to wait between attempts: Initial after the first
// failure, doubled with each further one up to Max, each time between that and
// one and a half times that, so that many clients do not come back at once. A
// Retry-After of the server is a lower bound (see source.RetryAfter for its
// ceiling). A failure that shows progress counts as a first one, once in a series:
// the kind is missing where nobody answered before, or is there and asks for
// patience, or the resource version has expired. The zero value means 800 ms,
// 30 s and 2 min.
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
	b.Max = min(b.Max, forever)
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
	got  progress  // the furthest that this series of failures came

	recall jitter.Recall // of a client that is answered from a recording
}

// progress is how far an attempt came before it failed.
type progress uint8

const (
	nowhere     progress = iota
	answered             // the server answers, and does not serve the kind
	served               // it serves the kind, and asks for patience
	historyGone          // only a list brings the cache back
)

func progressOf(f *failure.Failure) progress {
	switch {
	case expired(f.Err):
		return historyGone
	case apierrors.IsTooManyRequests(f.Err):
		return served
	case f.NotServed():
		return answered
	}
	return nowhere
}

// served is how long a stream must have served for those that broke before to be past.
func (p *pacer) served() time.Duration { return p.Max / 3 }

// delay is how long to wait after a failure at now that came as far as got. One that
// came further than those before it in the series counts as a first one: an expired
// resource version after an outage is good news, since the server answers and a list
// will help. A second one means that lists do not help. A stream that breaks after
// it has served for a third of Max counts as a first failure: a load balancer
// that cuts every connection after a minute must not keep a cache waiting.
func (p *pacer) delay(now time.Time, retryAfter time.Duration, got progress, stream bool) time.Duration {
	quiet := p.Reset
	if stream {
		quiet = min(quiet, p.served())
	}
	if p.next == 0 || now.Sub(p.last) >= quiet {
		p.next, p.got = p.Initial, got
	}
	if got > p.got {
		p.next, p.got = p.Initial, got
	}
	wait := p.next
	p.next = min(2*p.next, p.Max)
	wait = max(wait, retryAfter)
	wait += p.recall.Below(wait, wait/2+1)
	p.last = now.Add(wait)
	return wait
}
